//! Login with the site's own form; a session remembers the user.
//!
//! Apache manual: mod_auth_form; messages and answers measured on 2.4.71.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conf::directive::Args::{Flag, Iterate, Take1};
use conf::values::strtol;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, Setting, on_or_off, row, settings};
use server::PhaseHook::Later;
use server::authz::{Authn, RealmDigest};
use server::{
    Body, Flow, Handler, HandlerResult, Hook, Module, Order, Phase, Request, RequestBody, RequestKind, Server,
};

use super::Text;
use super::mod_authn_core::{Source, auth_name, auth_type, sources_or_file};
use super::passwords::{hex, same};
use crate::session::data::form_text;
use crate::session::mod_session;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "auth_form_module", source: "mod_auth_form.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Start(needs_sessions),
        Hook::Phase(
            Phase::CheckUser,
            Order::Middle,
            Later { claims: |_| true, run: |request| Box::pin(check_user(request)) },
        ),
        Hook::Handler(
            Order::Middle,
            Handler::Later {
                claims: |request| request.handler_name() == Some(LOGIN),
                check: |_| None,
                run: |request| Box::pin(log_in(request)),
            },
        ),
        Hook::Handler(
            Order::Middle,
            Handler::Later {
                claims: |request| request.handler_name() == Some(LOGOUT),
                check: |_| None,
                run: |request| Box::pin(log_out(request)),
            },
        ),
    ],
};

const LOGIN: &str = "form-login-handler";
const LOGOUT: &str = "form-logout-handler";
const NO_REPLAY: &str = "After a login the request goes on as a POST with an empty body.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthFormProvider", Allowed::AUTH, Iterate(add_provider), "file", "specify the auth providers for a directory or location"),
    row("AuthFormUsername", Allowed::AUTH, Take1(|c, v| set_name(c, v, |d| &mut d.username)), USERNAME, "The field of the login form carrying the username"),
    row("AuthFormPassword", Allowed::AUTH, Take1(|c, v| set_name(c, v, |d| &mut d.password)), PASSWORD, "The field of the login form carrying the password"),
    row("AuthFormLocation", Allowed::AUTH, Take1(|c, v| set_name(c, v, |d| &mut d.location)), LOCATION, "The field of the login form carrying the URL to redirect on successful login."),
    row("AuthFormMethod", Allowed::AUTH, Take1(|c, v| set_name(c, v, |d| &mut d.method)), "httpd_method", "The field of the login form carrying the original request method.").without_effect(NO_REPLAY),
    row("AuthFormMimetype", Allowed::AUTH, Take1(|c, v| set_name(c, v, |d| &mut d.mimetype)), "httpd_mimetype", "The field of the login form carrying the original request mimetype.").without_effect(NO_REPLAY),
    row("AuthFormBody", Allowed::AUTH, Take1(|c, v| set_name(c, v, |d| &mut d.body)), "httpd_body", "The field of the login form carrying the urlencoded original request body.").without_effect(NO_REPLAY),
    row("AuthFormSize", Allowed::SECTION, Take1(set_size), "8192", "Maximum size of body parsed by the form parser"),
    row("AuthFormLoginRequiredLocation", Allowed::AUTH, Take1(|c, v| set_text(c, v, "login required", |d| &mut d.required)), "", "If set, redirect the browser to this URL rather than return 401 Not Authorized."),
    row("AuthFormLoginSuccessLocation", Allowed::AUTH, Take1(|c, v| set_text(c, v, "login success", |d| &mut d.success)), "", "If set, redirect the browser to this URL when a login processed by the login handler is successful."),
    row("AuthFormLogoutLocation", Allowed::AUTH, Take1(|c, v| set_text(c, v, "logout required", |d| &mut d.logout)), "", "The URL of the logout successful page. An attempt to access an URL handled by the handler form-logout-handler will result in an redirect to this page after logout."),
    row("AuthFormSitePassphrase", Allowed::AUTH, Take1(|c, v| c.set(|d: &mut FormDir| &mut d.site, v.to_string())), "", "If set, use this passphrase to determine whether the user should be authenticated. Bypasses the user authentication check on every website hit, and is useful for high traffic sites."),
    row("AuthFormAuthoritative", Allowed::AUTH, Flag(|c, on| c.set(|d: &mut FormDir| &mut d.authoritative, on)), on_or_off(true), "Set to 'Off' to allow access control to be passed along to lower modules if the UserID is not known to this module"),
    row("AuthFormFakeBasicAuth", Allowed::AUTH, Flag(|c, on| c.set(|d: &mut FormDir| &mut d.fake, on)), on_or_off(false), "Set to 'On' to pass through authentication to the rest of the server as a basic authentication header."),
    row("AuthFormDisableNoStore", Allowed::AUTH, Flag(|c, on| c.set(|d: &mut FormDir| &mut d.stores, on)), on_or_off(false), "Set to 'on' to stop the sending of a Cache-Control no-store header with the login screen. This allows the browser to cache the credentials, but at the risk of it being possible for the login form to be resubmitted and revealed to the backend server through XSS. Use at own risk."),
];

const USERNAME: &str = "httpd_username";
const PASSWORD: &str = "httpd_password";
const LOCATION: &str = "httpd_location";
/// The default size limit of a form, in bytes.
const SIZE: i64 = 8192;

settings! {
    /// The module's settings of a section.
    pub struct FormDir {
        providers: Gathered<Vec<Source>>,
        username: Setting<String>,
        password: Setting<String>,
        location: Setting<String>,
        method: Setting<String>,
        mimetype: Setting<String>,
        body: Setting<String>,
        size: Setting<i64> = SIZE,
        required: Setting<Text>,
        success: Setting<Text>,
        logout: Setting<Text>,
        site: Setting<String>,
        authoritative: Setting<bool> = true,
        fake: Setting<bool> = false,
        stores: Setting<bool> = false,
    }
}

fn add_provider(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let source = Source::named(cmd, name)?;
    let origin = cmd.origin();
    cmd.dir.edit::<FormDir>().providers.edit(&origin).push(source);
    Ok(())
}

fn set_name(cmd: &mut Cmd<'_>, name: &str, field: fn(&mut FormDir) -> &mut Setting<String>) -> Outcome {
    if name.is_empty() || name.contains(['=', '&']) {
        return Err(format!("{} cannot be empty, or contain '=' or '&'.", cmd.row.name).into());
    }
    cmd.set(field, name.to_string())
}

fn set_text(cmd: &mut Cmd<'_>, text: &str, what: &str, field: fn(&mut FormDir) -> &mut Setting<Text>) -> Outcome {
    let parsed = Text::parse(cmd, text).map_err(|why| format!("Could not parse {what} expression '{text}': {why}"))?;
    cmd.set(field, parsed)
}

fn set_size(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    match strtol(text) {
        ..0 => Err("AuthCookieFormSize must be a size in bytes, or zero.".into()),
        size => cmd.set(|d: &mut FormDir| &mut d.size, size),
    }
}

fn needs_sessions(server: &Server) -> Result<(), String> {
    match server.has_module("session_module") {
        true => Ok(()),
        false => Err("AH02617: You must load mod_session to enable the mod_auth_form functions".into()),
    }
}

/// What a client has typed into the form.
struct Credentials {
    user: String,
    password: String,
    location: Option<String>,
}

async fn check_user(request: &mut Request) -> Flow {
    let name = match auth_type(request) {
        Ok(Some(name)) if name.eq_ignore_ascii_case("form") => name,
        _ => return Flow::Declined,
    };
    let Some(realm) = auth_name(request) else {
        request.log("auth_form", Level::Error, format!("AH01810: need AuthName: {}", request.data.uri));
        return Flow::Status(500);
    };
    request.login.auth_type = Some(name);
    let slots = request.dir.slots.clone();
    let dir = slots.get::<FormDir>();
    let mut answer = Flow::Status(401);
    if let Some(session) = mod_session::load(request).await {
        let value = |what: &str| session.get(&format!("{realm}-{what}")).map(str::to_string);
        if let (Some(user), Some(password)) = (value("user"), value("pw")) {
            request.login.user = Some(user.clone());
            let hash = value("site").unwrap_or_default();
            if dir.site.get().is_some_and(|site| same(&site_hash(&user, site), &hash)) {
                fake_basic(request, dir, &user, &password);
                return Flow::Ok;
            }
            answer = check(request, dir, &user, &password).await;
            if answer == Flow::Ok {
                fake_basic(request, dir, &user, &password);
                return Flow::Ok;
            }
        }
    }
    if answer == Flow::Status(401) && request.data.method == "POST" && matches!(request.kind, RequestKind::Main) {
        let sent = match read_form(request, dir).await {
            Ok(sent) => sent,
            Err(status) => return Flow::Status(status),
        };
        if let Some(sent) = sent {
            answer = check(request, dir, &sent.user, &sent.password).await;
            if answer == Flow::Ok {
                fake_basic(request, dir, &sent.user, &sent.password);
                remember(request, &realm, Some(&sent), dir).await;
                return match after(request, dir, &sent) {
                    Some(status) => Flow::Status(status),
                    None => Flow::Ok,
                };
            }
        }
    }
    if answer == Flow::Status(401) {
        if let Some(status) = lead_to(request, dir.required.get(), "AH02342: Can't evaluate login required expression")
        {
            return Flow::Status(status);
        }
        if !dir.stores() {
            no_store(request);
        }
    }
    answer
}

/// Marks the answer as private and not storable.
fn no_store(request: &mut Request) {
    request.response.err_headers_out.set("Cache-Control", "no-store");
}

/// Redirects to the location in a text, if there is one. Returns the status; `None`: there is no location.
fn lead_to(request: &mut Request, text: Option<&Text>, what: &str) -> Option<u16> {
    let text = text?;
    let Some(location) = text.value(request, "auth_form", what) else { return Some(500) };
    request.response.headers_out.set("Location", location);
    Some(302)
}

/// Redirects after a login; `None`: stay with the requested page.
fn after(request: &mut Request, dir: &FormDir, sent: &Credentials) -> Option<u16> {
    if let Some(location) = &sent.location {
        if is_on_this_site(request, location) {
            request.response.headers_out.set("Location", location.clone());
            return Some(302);
        }
        let text = format!("the form leads to another site after the login ({location}), which is not followed");
        request.log("auth_form", Level::Warn, text);
    }
    lead_to(request, dir.success.get(), "AH02341: Can't evaluate login success expression")
}

/// Whether a location that a client has sent is a path here, or a URL of this site: a link to the login page, made by
/// anybody, must not lead elsewhere. Browsers read a backslash as a slash, and drop control characters
/// and blanks in front.
fn is_on_this_site(request: &Request, location: &str) -> bool {
    if location.starts_with(' ') || location.bytes().any(|byte| byte == b'\\' || byte.is_ascii_control()) {
        return false;
    }
    if let Some(path) = location.strip_prefix(request.url("/").trim_end_matches('/')) {
        return path.starts_with('/');
    }
    let has_scheme = location.split(['/', '?', '#']).next().is_some_and(|first| first.contains(':'));
    !location.starts_with("//") && !has_scheme
}

/// Stands for the password of a user whom the site has admitted.
fn site_hash(user: &str, site: &str) -> String {
    hex(RealmDigest::Md5, &http::text::to_bytes(&format!("{user}:{site}")))
}

/// Stores the user in the session, or removes it.
async fn remember(request: &mut Request, realm: &str, sent: Option<&Credentials>, dir: &FormDir) {
    let Some(mut session) = mod_session::load(request).await else { return };
    let hash = sent.zip(dir.site.get()).map(|(sent, site)| site_hash(&sent.user, site));
    session.set(&format!("{realm}-user"), sent.map(|sent| sent.user.as_str()));
    session.set(&format!("{realm}-pw"), sent.map(|sent| sent.password.as_str()));
    session.set(&format!("{realm}-site"), hash.as_deref());
    mod_session::keep(request, &session);
}

fn fake_basic(request: &mut Request, dir: &FormDir, user: &str, password: &str) {
    if dir.fake() {
        let plain = http::text::to_bytes(&format!("{user}:{password}")).into_owned();
        request.headers_mut().set("Authorization", format!("Basic {}", STANDARD.encode(plain)));
    }
}

/// Reads the form in the request. `Ok(None)`: it is no form, or something is missing; `Err`: the status.
async fn read_form(request: &mut Request, dir: &FormDir) -> Result<Option<Credentials>, u16> {
    let media_type = request.header("Content-Type").unwrap_or_default();
    let is_form = media_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(FORM);
    let mut pairs = Vec::new();
    if is_form {
        let most = usize::try_from(dir.size()).unwrap_or(usize::MAX);
        let body = request.body.collect(most).await.map_err(|error| error.status())?;
        request.body = RequestBody::default();
        pairs = form_fields(&body);
    }
    let name = |field: &Setting<String>, default: &str| field.get().map_or(default, String::as_str).to_string();
    let value = |name: &str| {
        let found = pairs.iter().find(|(have, _)| have == name).map(|(_, value)| value.clone());
        found.filter(|value| !value.is_empty())
    };
    let (username, password) = (name(&dir.username, USERNAME), name(&dir.password, PASSWORD));
    let missing = |number: &str, what: &str, name: &str| {
        let text = format!("{number}: form parsed, but {what} field '{name}' was missing or empty, unauthorized");
        request.log("auth_form", Level::Debug, text);
        Ok(None)
    };
    let Some(user) = value(&username) else { return missing("AH02982", "username", &username) };
    let Some(secret) = value(&password) else { return missing("AH02983", "password", &password) };
    let location = value(&name(&dir.location, LOCATION));
    request.login.user = Some(user.clone());
    Ok(Some(Credentials { user, password: secret, location }))
}

/// The names and values of a form, decoded, in order.
pub(crate) fn form_fields(body: &[u8]) -> Vec<(String, String)> {
    let text = http::text::from_bytes(body);
    let pairs = text.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (form_text(name), form_text(value))
    });
    pairs.collect()
}

/// The media type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// Asks the sources of passwords.
async fn check(request: &mut Request, dir: &FormDir, user: &str, password: &str) -> Flow {
    let named = dir.providers.get().map_or(&[][..], Vec::as_slice);
    let Some(sources) = sources_or_file(request, named) else {
        request.log("auth_form", Level::Error, "AH01806: no authn provider configured");
        return Flow::Status(500);
    };
    let mut answer = Authn::UserNotFound;
    for source in sources.iter() {
        answer = source.check(request, user, password).await;
        if answer != Authn::UserNotFound {
            break;
        }
    }
    if !dir.authoritative() && !matches!(answer, Authn::Granted | Authn::Denied | Authn::Busy) {
        return Flow::Declined;
    }
    let uri = &request.data.uri;
    let text = match answer {
        Authn::Granted => return Flow::Ok,
        Authn::Denied => format!("AH01807: user '{user}': authentication failure for \"{uri}\": password Mismatch"),
        Authn::UserNotFound => format!("AH01808: user '{user}' not found: {uri}"),
        // The source has logged the error.
        Authn::Error => return Flow::Status(500),
        Authn::Busy => return Flow::Status(503),
    };
    request.log("auth_form", Level::Error, text);
    Flow::Status(401)
}

/// `form-login-handler`.
async fn log_in(request: &mut Request) -> HandlerResult {
    if request.data.method != "POST" {
        let uri = &request.data.uri;
        let text = format!("AH01811: the form-login-handler only supports the POST method for {uri}");
        request.log("auth_form", Level::Error, text);
        request.response.err_headers_out.set("Allow", "POST");
        return HandlerResult::Status(405);
    }
    let slots = request.dir.slots.clone();
    let dir = slots.get::<FormDir>();
    let sent = match read_form(request, dir).await {
        Ok(sent) => sent,
        Err(status) => return HandlerResult::Status(status),
    };
    let mut flow = Flow::Status(401);
    if let Some(sent) = &sent {
        flow = check(request, dir, &sent.user, &sent.password).await;
        if flow == Flow::Ok {
            let realm = auth_name(request).unwrap_or_default();
            remember(request, &realm, Some(sent), dir).await;
            return match after(request, dir, sent) {
                Some(status) => HandlerResult::Status(status),
                None => HandlerResult::Body(Body::Empty),
            };
        }
    }
    match flow {
        Flow::Status(401) => {
            let status = lead_to(request, dir.required.get(), "AH02342: Can't evaluate login required expression");
            HandlerResult::Status(status.unwrap_or(401))
        }
        Flow::Status(status) => HandlerResult::Status(status),
        // In a handler no other module is asked.
        Flow::Ok | Flow::Declined => HandlerResult::Status(401),
    }
}

/// `form-logout-handler`.
async fn log_out(request: &mut Request) -> HandlerResult {
    let slots = request.dir.slots.clone();
    let dir = slots.get::<FormDir>();
    let realm = auth_name(request).unwrap_or_default();
    remember(request, &realm, None, dir).await;
    no_store(request);
    if mod_session::is_lost(request) {
        // The session goes on, and the user must not believe anything else. Apache says that it is over.
        return HandlerResult::Status(503);
    }
    match lead_to(request, dir.logout.get(), "AH02343: Can't evaluate logout expression") {
        Some(302) => HandlerResult::Status(307),
        Some(status) => HandlerResult::Status(status),
        None => HandlerResult::Body(Body::Empty),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        let inside = |line: &str| format!("<Location />\n{line}\n</Location>");
        crate::testing::check(&[
            (&inside("AuthFormProvider foo"), "Unknown Authn provider: foo"),
            (&inside("AuthFormSize -1"), "AuthCookieFormSize must be a size in bytes, or zero."),
            (&inside("AuthFormUsername a=b"), "AuthFormUsername cannot be empty, or contain '=' or '&'."),
            (
                &inside("AuthFormLoginRequiredLocation %{x}"),
                "Could not parse login required expression '%{x}': Variable 'x' does not exist",
            ),
            (
                &inside("AuthFormLogoutLocation %{x}"),
                "Could not parse logout required expression '%{x}': Variable 'x' does not exist",
            ),
            (&inside("AuthFormLoginSuccessLocation /a\nAuthFormFakeBasicAuth On"), ""),
        ]);
    }
}
