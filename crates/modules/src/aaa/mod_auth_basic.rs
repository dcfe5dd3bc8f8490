//! Logging in with a name and a password in each request (`AuthType Basic`, RFC 7617).
//!
//! Apache manual: mod_auth_basic.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use conf::directive::Args::{Flag, Iterate, Take1, Take12};
use conf::{
    Allowed, Cmd, Directive, Gathered, InArgument as _, Level, ModuleInfo, Outcome, Setting, on_or_off, row, settings,
};
use server::PhaseHook::{Later, Now};
use server::authz::{Authn, RealmDigest};
use server::{Flow, Hook, Module, Order, Phase, Request};

use super::mod_authn_core::{Source, auth_name, auth_type, sources_or_file};
use super::{Text, passwords};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "auth_basic_module", source: "mod_auth_basic.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(
            Phase::CheckUser,
            Order::Middle,
            Later { claims: |_| true, run: |request| Box::pin(check_user(request)) },
        ),
        Hook::Phase(Phase::Fixups, Order::Last, Now(fake)),
        Hook::NoteAuthFailure(note_failure),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthBasicProvider", Allowed::AUTH, Iterate(add_provider), "file", "specify the auth providers for a directory or location"),
    row("AuthBasicAuthoritative", Allowed::AUTH, Flag(|c, on| c.set(|d: &mut BasicDir| &mut d.authoritative, on)), on_or_off(AUTHORITATIVE), "Set to 'Off' to allow access control to be passed along to lower modules if the UserID is not known to this module"),
    row("AuthBasicFake", Allowed::AUTH, Take12(set_fake), "off", "Fake basic authentication using the given expressions for username and password, 'off' to disable. Password defaults to 'password' if missing."),
    row("AuthBasicUseDigestAlgorithm", Allowed::AUTH, Take1(set_digest), "Off", "Set to 'MD5' to use the auth provider's authentication check for digest auth, using a hash of 'user:realm:pass'"),
];

/// Whether it is on by default.
const AUTHORITATIVE: bool = true;

settings! {
    /// The module's settings of a section.
    pub struct BasicDir {
        providers: Gathered<Vec<Source>>,
        authoritative: Setting<bool> = AUTHORITATIVE,
        digest: Setting<bool>,
        fake: Setting<Option<(Text, Text)>>,
    }
}

/// Lines of one section accumulate.
fn add_provider(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let source = Source::named(cmd, name)?;
    let origin = cmd.origin();
    cmd.dir.edit::<BasicDir>().providers.edit(&origin).push(source);
    Ok(())
}

fn set_fake(cmd: &mut Cmd<'_>, user: &str, password: Option<&str>) -> Outcome {
    if user.eq_ignore_ascii_case("off") {
        return cmd.set(|d: &mut BasicDir| &mut d.fake, None);
    }
    let name = Text::parse(cmd, user)
        .map_err(|why| format!("Could not parse fake username expression '{user}': {why}"))
        .in_argument(1)?;
    let password = Text::parse(cmd, password.unwrap_or("password"));
    let password = password
        .map_err(|why| format!("Could not parse fake password expression associated to user '{user}': {why}"))
        .in_argument(2)?;
    cmd.set(|d: &mut BasicDir| &mut d.fake, Some((name, password)))
}

fn set_digest(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("Off", false), ("MD5", true)];
    let on = conf::values::one_of(value, &table);
    let on = on.ok_or_else(|| format!("Invalid algorithm in AuthBasicUseDigestAlgorithm: {value}"))?;
    cmd.set(|d: &mut BasicDir| &mut d.digest, on)
}

async fn check_user(request: &mut Request) -> Flow {
    let name = match auth_type(request) {
        Ok(Some(name)) if name.eq_ignore_ascii_case("Basic") => name,
        _ => return Flow::Declined,
    };
    let Some(realm) = auth_name(request) else {
        request.log("auth_basic", Level::Error, format!("AH01615: need AuthName: {}", request.data.uri));
        return Flow::Status(500);
    };
    request.login.auth_type = Some(name);
    let Some((user, password)) = credentials(request) else {
        challenge(request, &realm);
        return Flow::Status(401);
    };
    // Set now, so that the logs show the refused user.
    request.login.user = Some(user.clone());
    let slots = request.dir.slots.clone();
    let conf = slots.get::<BasicDir>();
    let answer = ask_providers(request, conf, &user, &password, &realm).await;
    if !conf.authoritative() && !matches!(answer, Authn::Granted | Authn::Denied | Authn::Busy) {
        return Flow::Declined;
    }
    let (text, why) = match answer {
        Authn::Granted => return Flow::Ok,
        Authn::Denied => {
            let path = &request.data.uri;
            let text = format!("AH01617: user {user}: authentication failure for \"{path}\": Password Mismatch");
            (text, "sent a wrong password")
        }
        Authn::UserNotFound => (format!("AH01618: user {user} not found: {}", request.data.uri), "is unknown"),
        // The source has logged the error.
        Authn::Error => return Flow::Status(500),
        Authn::Busy => return Flow::Status(503),
    };
    request.log("auth_basic", Level::Error, text);
    request.note_reason(401, "auth_basic", None, |_| (format!("the user {user} {why}"), String::new()));
    challenge(request, &realm);
    Flow::Status(401)
}

/// Asks the sources one after the other, until one knows the user.
async fn ask_providers(request: &mut Request, conf: &BasicDir, user: &str, password: &str, realm: &str) -> Authn {
    let named = conf.providers.get().map_or(&[][..], Vec::as_slice);
    let Some(sources) = sources_or_file(request, named) else {
        request.log("auth_basic", Level::Error, "AH01616: No Authn provider configured");
        return Authn::Error;
    };
    let mut answer = Authn::UserNotFound;
    for source in sources.iter() {
        answer = match conf.digest.value_or(false) {
            true => compare_digests(request, source, user, password, realm).await,
            false => source.check(request, user, password).await,
        };
        if answer != Authn::UserNotFound {
            break;
        }
    }
    answer
}

/// `AuthBasicUseDigestAlgorithm MD5`: the stored digest of user, realm and password is compared.
async fn compare_digests(request: &mut Request, source: &Source, user: &str, password: &str, realm: &str) -> Authn {
    match source.realm_hash(request, user, realm, RealmDigest::Md5).await {
        Some(Ok(stored)) => {
            let own = passwords::hex(RealmDigest::Md5, &http::text::to_bytes(&format!("{user}:{realm}:{password}")));
            if passwords::same(&own, &stored.to_ascii_lowercase()) { Authn::Granted } else { Authn::Denied }
        }
        Some(Err(answer)) => answer,
        None => {
            let text = "AH02493: Authn provider does not support AuthBasicUseDigestAlgorithm";
            request.log("auth_basic", Level::Error, text);
            Authn::Error
        }
    }
}

/// Name and password as the client sent them.
pub(crate) fn credentials(request: &Request) -> Option<(String, String)> {
    let header = request.credentials()?;
    let typed = typed(&header);
    if typed.is_none() {
        let text = format!("AH01614: client used wrong authentication scheme: {}", request.data.uri);
        request.log("auth_basic", Level::Error, text);
    }
    typed
}

/// The name and the password in a field. `None`: its scheme is another one.
pub(crate) fn typed(field: &str) -> Option<(String, String)> {
    let (scheme, encoded) = field.split_once(' ').unwrap_or((field, ""));
    if !scheme.eq_ignore_ascii_case("Basic") {
        return None;
    }
    let decoded = decode(encoded.trim_start_matches([' ', '\t']));
    let decoded = http::text::from_bytes(&decoded);
    let (user, password) = decoded.split_once(':').unwrap_or((&decoded, ""));
    Some((user.to_string(), password.to_string()))
}

/// Decodes base 64 like Apache: up to the first invalid character, with or without padding.
fn decode(text: &str) -> Vec<u8> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone);
    let is_digit = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    let mut end = text.bytes().take_while(is_digit).count();
    if end % 4 == 1 {
        // A single digit is less than a byte.
        end -= 1;
    }
    GeneralPurpose::new(&STANDARD, LENIENT).decode(&text[..end]).unwrap_or_default()
}

/// Called when another module refuses the user: the client may try again as someone else.
fn note_failure(request: &mut Request, auth_type: &str) {
    if auth_type.eq_ignore_ascii_case("Basic") {
        challenge_of(request);
    }
}

/// Asks for a name and a password, in the realm of the section.
pub(crate) fn challenge_of(request: &mut Request) {
    let realm = auth_name(request).unwrap_or_default();
    challenge(request, &realm);
}

fn challenge(request: &mut Request, realm: &str) {
    request.response.err_headers_out.set("WWW-Authenticate", format!("Basic realm=\"{realm}\""));
}

/// `AuthBasicFake`: gives every client a name and a password for the server behind this one.
fn fake(request: &mut Request) -> Flow {
    let slots = request.dir.slots.clone();
    let Some(Some((user, password))) = slots.get::<BasicDir>().fake.get() else { return Flow::Declined };
    let mut parts = Vec::new();
    for (text, what, numbers) in
        [(user, "username", ["AH02455", "AH02458"]), (password, "password", ["AH02456", "AH02459"])]
    {
        let kind = if what == "username" { "user" } else { what };
        let uri = request.data.uri.clone();
        let message = format!("{}: AuthBasicFake: could not evaluate {kind} expression for URI '{uri}'", numbers[0]);
        let Some(value) = text.value(request, "auth_basic", &message) else { return Flow::Status(500) };
        if value.is_empty() {
            let text = format!("{}: AuthBasicFake: empty {what} expression for URI '{uri}', ignoring", numbers[1]);
            request.log("auth_basic", Level::Info, text);
            return Flow::Declined;
        }
        parts.push(value);
    }
    let plain = http::text::to_bytes(&parts.join(":")).into_owned();
    let value = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(plain));
    request.log("auth_basic", Level::Info, format!("AH02457: AuthBasicFake: \"Authorization: {value}\""));
    request.headers_mut().set("Authorization", value);
    Flow::Ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_as_apache_reads_it() {
        for (text, bytes) in [
            ("am9lOmdvb2Q=", &b"joe:good"[..]),
            ("am9lOmdvb2Q", b"joe:good"),
            ("am9lOmdvb2Q=junk", b"joe:good"),
            ("am9lOm dvb2Q=", b"joe:"),
            ("am9l", b"joe"),
            ("a", b""),
            ("!!!!", b""),
            ("", b""),
            ("/w==", b"\xff"),
        ] {
            assert_eq!(decode(text), bytes, "{text}");
        }
    }

    #[test]
    fn directives() {
        crate::testing::check(&[
            ("<Location />\nAuthBasicProvider foo\n</Location>", "Unknown Authn provider: foo"),
            (
                "<Location />\nAuthBasicProvider\n</Location>",
                "AuthBasicProvider requires at least one argument, specify the auth providers for a directory or location",
            ),
            ("<Location />\nAuthBasicAuthoritative maybe\n</Location>", "AuthBasicAuthoritative must be On or Off"),
            (
                "<Location />\nAuthBasicFake %{FOO}\n</Location>",
                "Could not parse fake username expression '%{FOO}': Variable 'FOO' does not exist",
            ),
            (
                "<Location />\nAuthBasicFake a %{FOO}\n</Location>",
                "Could not parse fake password expression associated to user 'a': Variable 'FOO' does not exist",
            ),
            ("<Location />\nAuthBasicFake off\nAuthBasicFake a b\n</Location>", ""),
            (
                "<Location />\nAuthBasicUseDigestAlgorithm foo\n</Location>",
                "Invalid algorithm in AuthBasicUseDigestAlgorithm: foo",
            ),
            ("<Location />\nAuthBasicUseDigestAlgorithm md5\n</Location>", ""),
        ]);
    }
}
