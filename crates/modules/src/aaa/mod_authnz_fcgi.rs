//! FastCGI servers that decide about access.
//!
//! Apache manual: mod_authnz_fcgi; messages and variables measured on 2.4.71.

use std::sync::Arc;
use std::time::Duration;

use conf::directive::Args::Raw;
use conf::words::next_word;
use conf::{
    Allowed, Cmd, Directive, InArgument as _, Keyed, Level, ModuleInfo, Outcome, Refusal, Setting, SettingsMap, row,
    settings,
};
use gateway::backend::remote::RemoteProtocol;
use gateway::backend::{self, authorize_at};
use gateway::{Caller, StderrMessages, TimeoutMessage};
use server::PhaseHook::Later;
use server::authz::{Authn, AuthnProvider, AuthzCheck, AuthzProvider, Verdict};
use server::{Flow, Hook, Layer, Module, Order, Phase, Request};
use upstream::{Address, RemoteServer};

use super::mod_auth_basic::{challenge_of, typed};
use super::mod_authn_core::{self, Source, auth_name, auth_type};
use super::{Text, mod_authz_core};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authnz_fcgi_module", source: "mod_authnz_fcgi.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(
            Phase::CheckUser,
            Order::BeforeMiddle,
            Later {
                claims: |request| request.dir::<FcgiDir>().check.get().is_some_and(Option::is_some),
                run: |request| Box::pin(check_user(request)),
            },
        ),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthnzFcgiDefineProvider", Allowed::GLOBAL, Raw(define), "", "Define a FastCGI authn and/or authz provider"),
    row("AuthnzFcgiCheckAuthnProvider", Allowed::FILEINFO, Raw(set_check), "", "Enable/disable a FastCGI authorizer to handle check_authn phase").differs("The page of a server that refuses is not sent; its status and its fields are."),
];

settings! {
    /// The module's settings of a section.
    pub struct FcgiDir {
        check: Setting<Option<Check>>,
        asked: Setting<Arc<Authorizer>>,
    }
}

settings! {
    /// The servers that check passwords, by their configured names.
    pub struct FcgiServer {
        servers: Keyed<String, Arc<Authorizer>>,
    }
}

/// A server with a configured name.
#[derive(Debug)]
pub struct Authorizer {
    name: String,
    server: RemoteServer,
    /// Whether its password check also counts for `Require`.
    both: bool,
}

impl Authorizer {
    /// Records that it has admitted the user.
    fn answers_for(&self, request: &mut Request) {
        if self.both {
            request.notes.set(NOTE, &self.name);
        }
    }
}

/// The note with the name of the server that accepted the password and also answers for authorization.
const NOTE: &str = "authnz-fcgi";

/// `AuthnzFcgiCheckAuthnProvider`
#[derive(Clone, Debug)]
pub struct Check {
    name: String,
    decides: bool,
    default_user: Option<String>,
    needs_password: bool,
    user: Option<Text>,
}

static PASSWORDS: AuthnProvider = AuthnProvider {
    name: "authnz-fcgi",
    check: |request, user, password| Box::pin(check_password(request, user, password)),
    realm_hash: None,
};

static RIGHTS: AuthzProvider = AuthzProvider {
    name: "authnz-fcgi",
    parse: |_, _| Ok(Arc::new(())),
    check: AuthzCheck::Later(|request, _| Box::pin(may(request))),
};

const WITHOUT_MORE: &str = "mod_authnz_fcgi doesn't support restrictions on providers (i.e., multiple require args)";

/// How long a server may take to accept a connection, and then to answer.
const TIMEOUT: Duration = Duration::from_secs(60);

static TIMEOUT_MESSAGE: TimeoutMessage = TimeoutMessage {
    text: |_, time| format!("AH02497: Couldn't read from backend: it has sent nothing for {} s", time.as_secs()),
    level: Level::Error,
};

static PROTOCOL: RemoteProtocol = RemoteProtocol {
    name: "FCGI",
    unconnected: |name| format!("AH02495: attempt to connect to {name} failed"),
    failed: |name| format!("AH02514: req_rsp: Failed handling response from {name}"),
    status: 500,
    status_line: false,
};

const STDERR: StderrMessages = StderrMessages {
    text: |_, line| format!("AH02507: handle_response: Logged from the backend: '{line}'"),
    level: |_| Some(Level::Error),
};

/// `AuthnzFcgiDefineProvider authn|authz|authnz NAME fcgi://HOST:PORT/`
fn define(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let mut rest = line;
    let mut next = || next_word(&mut rest);
    let fail = |why: String| format!("AuthnzFcgiDefineProvider: {why}");
    let missing = |what: &str| Err(Refusal::missing(fail(format!("No {what} given"))));
    let kind = next();
    if kind.is_empty() {
        return missing("type");
    }
    let (passwords, rights) = match kind.as_str() {
        "authn" => (true, false),
        "authz" => (false, true),
        "authnz" => (true, true),
        kind => return Err(Refusal::argument(1, fail(format!("Invalid provider type {kind}")))),
    };
    let name = next();
    if name.is_empty() {
        return missing("provider name");
    }
    let url = next();
    if url.is_empty() {
        return missing("backend-address");
    }
    let place = url.strip_prefix("fcgi://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let place = place.and_then(|place| place.rsplit_once(':')).and_then(|(host, port)| {
        let is_port = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        Some((host, port.parse::<u16>().ok().filter(|_| is_port)?))
    });
    let Some((host, port)) = place else {
        return Err(Refusal::argument(3, fail(format!("backend-address '{url}' has invalid form"))));
    };
    let address = Address::Tcp(host.to_string(), port);
    let server =
        RemoteServer { address, name: url.clone(), connect: TIMEOUT, keep: None, tls: None, way: None, tally: None };
    let origin = cmd.origin();
    let mut dir = SettingsMap::default();
    let asked = Arc::new(Authorizer { name: name.clone(), server, both: passwords && rights });
    dir.edit::<FcgiDir>().asked.set(asked.clone(), &origin);
    let layer = Layer::new(dir);
    if passwords {
        mod_authn_core::define(cmd, &name, Source::layered(&PASSWORDS, layer.clone()));
        cmd.server_put(|s: &mut FcgiServer| &mut s.servers, name.clone(), asked)?;
    }
    if rights {
        mod_authz_core::define(cmd, &name, &RIGHTS, layer, WITHOUT_MORE);
    }
    Ok(())
}

/// `AuthnzFcgiCheckAuthnProvider NAME|None [option value]...`
fn set_check(cmd: &mut Cmd<'_>, line: &str) -> Outcome {
    let directive = "AuthnzFcgiCheckAuthnProvider";
    let mut rest = line;
    let name = next_word(&mut rest);
    if name.is_empty() {
        return Err(Refusal::missing(format!("{directive}: No provider given")));
    }
    if name.eq_ignore_ascii_case("None") {
        return match rest.trim().is_empty() {
            true => cmd.set(|d: &mut FcgiDir| &mut d.check, None),
            false => Err(Refusal::surplus(2, "Options aren't supported with \"None\"")),
        };
    }
    let mut check = Check { name, decides: true, default_user: None, needs_password: false, user: None };
    for number in (2..).step_by(2) {
        let option = next_word(&mut rest);
        if option.is_empty() {
            break;
        }
        let value = next_word(&mut rest);
        if value.is_empty() {
            return Err(Refusal::missing(format!("{directive}: {option}needs an argument")));
        }
        let on = || {
            let bad = || format!("{directive}: Bad argument '{value}' to option '{option}'");
            conf::values::on_off(&value).ok_or_else(bad).in_argument(number + 1)
        };
        match option.to_ascii_lowercase().as_str() {
            "authoritative" => check.decides = on()?,
            "requirebasicauth" => check.needs_password = on()?,
            "defaultuser" => check.default_user = Some(value),
            "userexpr" => {
                let text = Text::parse(cmd, &value);
                let text = text.map_err(|why| format!("{directive}: Error parsing '{value}': '{why}'"));
                check.user = Some(text.in_argument(number + 1)?);
            }
            _ => return Err(Refusal::argument(number, format!("{directive}: Unexpected option '{option}'"))),
        }
    }
    cmd.set(|d: &mut FcgiDir| &mut d.check, Some(check))
}

/// Asks a server. With `password` it checks that; otherwise `role` says what to decide.
async fn authorize(
    request: &mut Request,
    server: &RemoteServer,
    role: &str,
    password: Option<&str>,
) -> backend::Verdict {
    let caller = Caller::new("authnz_fcgi", &TIMEOUT_MESSAGE, TIMEOUT);
    let mut told = vec![("FCGI_ROLE", "AUTHORIZER"), ("FCGI_APACHE_ROLE", role)];
    told.extend(password.map(|password| ("REMOTE_PASSWD", password)));
    let would =
        |_: &Request| (format!("mod_authnz_fcgi would ask {}, which decides about access", server.name), String::new());
    request.note_reason(0, caller.module, None, would);
    authorize_at(request, &caller, server, &PROTOCOL, STDERR, &told).await
}

const AUTHENTICATOR: &str = "AUTHENTICATOR";
const AUTHORIZER: &str = "AUTHORIZER";

async fn check_password(request: &mut Request, user: &str, password: &str) -> Authn {
    let Some(asked) = request.dir::<FcgiDir>().asked.get().cloned() else { return Authn::Error };
    request.login.user = Some(user.to_string());
    match authorize(request, &asked.server, AUTHENTICATOR, Some(password)).await {
        backend::Verdict::Allowed => {
            asked.answers_for(request);
            Authn::Granted
        }
        backend::Verdict::Refused(_) => Authn::Denied,
        backend::Verdict::Failed(_) => Authn::Error,
    }
}

async fn may(request: &mut Request) -> Verdict {
    if request.login.user.is_none() {
        return Verdict::DeniedNoUser;
    }
    let Some(asked) = request.dir::<FcgiDir>().asked.get().cloned() else { return Verdict::Error };
    // As in Apache, a server for both is asked once: its password check counts.
    if asked.both {
        let is_known = request.notes.get(NOTE) == Some(asked.name.as_str());
        return if is_known { Verdict::Granted } else { Verdict::Denied };
    }
    match authorize(request, &asked.server, AUTHORIZER, None).await {
        backend::Verdict::Allowed => Verdict::Granted,
        backend::Verdict::Refused(_) => Verdict::Denied,
        backend::Verdict::Failed(_) => Verdict::Error,
    }
}

/// `AuthnzFcgiCheckAuthnProvider`: the server authenticates the user.
async fn check_user(request: &mut Request) -> Flow {
    let slots = request.dir.slots.clone();
    let Some(Some(check)) = slots.get::<FcgiDir>().check.get() else { return Flow::Declined };
    let basic = match auth_type(request) {
        Ok(name) => name.filter(|name| name.eq_ignore_ascii_case("Basic")),
        Err(_) => return Flow::Status(500),
    };
    let password = match basic.map(|name| sent_password(request, name)) {
        Some(Ok(password)) => Some(password),
        Some(Err(status)) => {
            let text = "AH02517: fcgi_check_authn: couldn't retrieve basic auth password";
            request.log("authnz_fcgi", Level::Debug, text);
            if check.needs_password {
                return Flow::Status(status);
            }
            None
        }
        // There is no password to ask the client for.
        None => None,
    };
    let asked = request.server.main().settings.get::<FcgiServer>().servers.get(&check.name).cloned();
    let Some(asked) = asked else {
        let text = format!("AH02518: fcgi_check_authn: can't find config for provider {}", check.name);
        request.log("authnz_fcgi", Level::Error, text);
        return Flow::Status(500);
    };
    match authorize(request, &asked.server, AUTHENTICATOR, password.as_deref()).await {
        backend::Verdict::Allowed => {
            asked.answers_for(request);
            name_user(request, check)
        }
        backend::Verdict::Refused(status) if check.decides => Flow::Status(status),
        backend::Verdict::Refused(_) => Flow::Declined,
        backend::Verdict::Failed(status) => Flow::Status(status),
    }
}

/// The password of a client that logs in with `AuthType Basic`; `name`: the type as it is configured. The error is a
/// status: the client is asked to log in, if the section has a name to ask for.
fn sent_password(request: &mut Request, name: String) -> Result<String, u16> {
    if auth_name(request).is_none() {
        request.log("core", Level::Error, format!("AH00572: need AuthName: {}", request.data.uri));
        return Err(500);
    }
    let field = request.credentials();
    let Some((user, password)) = field.as_deref().and_then(typed) else {
        if field.is_some() {
            let text = format!("AH00573: client used wrong authentication scheme: {}", request.data.uri);
            request.log("core", Level::Info, text);
        }
        challenge_of(request);
        return Err(401);
    };
    request.login.user = Some(user);
    request.login.auth_type = Some(name);
    Ok(password)
}

/// The user name that `UserExpr` makes from the server's answer.
fn name_user(request: &mut Request, check: &Check) -> Flow {
    let Some(text) = &check.user else { return Flow::Ok };
    let what = "AH02521: fcgi_check_authn: Failure extracting user after calling authorizer";
    let Some(name) = text.value(request, "authnz_fcgi", what) else { return Flow::Status(500) };
    let name = Some(name).filter(|name| !name.is_empty()).or_else(|| check.default_user.clone());
    let Some(name) = name else {
        let text = format!("{}: user expression yielded empty string (variable not set?)", what.replace("21:", "20:"));
        request.log("authnz_fcgi", Level::Error, text);
        return Flow::Status(500);
    };
    request.login.user = Some(name);
    Flow::Ok
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        let inside =
            |line: &str| format!("AuthnzFcgiDefineProvider authnz F fcgi://h:1/\n<Location />\n{line}\n</Location>");
        crate::testing::check(&[
            ("AuthnzFcgiDefineProvider foo F fcgi://h:1", "AuthnzFcgiDefineProvider: Invalid provider type foo"),
            (
                "AuthnzFcgiDefineProvider authn F http://h:1",
                "AuthnzFcgiDefineProvider: backend-address 'http://h:1' has invalid form",
            ),
            (
                "AuthnzFcgiDefineProvider authn F fcgi://h",
                "AuthnzFcgiDefineProvider: backend-address 'fcgi://h' has invalid form",
            ),
            ("AuthnzFcgiDefineProvider authn F", "AuthnzFcgiDefineProvider: No backend-address given"),
            (&inside("AuthBasicProvider F\nRequire F"), ""),
            (
                &inside("Require F x"),
                "mod_authnz_fcgi doesn't support restrictions on providers (i.e., multiple require args)",
            ),
            (
                &inside("AuthnzFcgiCheckAuthnProvider F Foo bar"),
                "AuthnzFcgiCheckAuthnProvider: Unexpected option 'Foo'",
            ),
            (&inside("AuthnzFcgiCheckAuthnProvider F Author"), "AuthnzFcgiCheckAuthnProvider: Authorneeds an argument"),
            (&inside("AuthnzFcgiCheckAuthnProvider None x"), "Options aren't supported with \"None\""),
            (
                &inside(
                    "AuthnzFcgiCheckAuthnProvider F Authoritative On DefaultUser me RequireBasicAuth On UserExpr \
                     %{reqenv:X}",
                ),
                "",
            ),
            ("<Location />\nAuthBasicProvider F\n</Location>", "Unknown Authn provider: F"),
        ]);
    }
}
