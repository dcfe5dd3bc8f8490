//! Logging in without sending the password (`AuthType Digest`, RFC 7616).
//!
//! Apache manual: mod_auth_digest; messages measured on 2.4.71.

mod clients;
mod header;
mod nonce;

use conf::directive::Args::{Flag, Iterate, Take1};
use conf::values::strtol;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, Setting, on_or_off, row, settings, shown};
use server::PhaseHook::{Later, Now};
use server::authz::{Authn, RealmDigest};
use server::{Flow, HelperHook, Hook, Module, Order, Phase, Request, Server};

use self::clients::{Use, clients};
use self::header::{Comparison, Credentials, Digest, RequestTarget, compare};
use super::mod_authn_core::{Source, auth_name, auth_type, sources_or_file};
use super::passwords::{hex, same};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "auth_digest_module", source: "mod_auth_digest.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Mutex("authdigest-client"),
        Hook::Start(prepare),
        Hook::HelperProcess(&TAKE_EFFECT),
        Hook::Phase(
            Phase::CheckUser,
            Order::Middle,
            Later { claims: |_| true, run: |request| Box::pin(check_user(request)) },
        ),
        Hook::Phase(Phase::Fixups, Order::Middle, Now(confirm)),
        Hook::NoteAuthFailure(note_failure),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AuthDigestProvider", Allowed::AUTH, Iterate(add_provider), "file", "specify the auth providers for a directory or location"),
    row("AuthDigestQop", Allowed::AUTH, Iterate(set_qop), "auth", "A list of quality-of-protection options"),
    row("AuthDigestNonceLifetime", Allowed::AUTH, Take1(set_lifetime), shown!(LIFETIME), "Maximum lifetime of the server nonce (seconds)"),
    row("AuthDigestNcCheck", Allowed::AUTH, Flag(|c, on| { edit(c).checks_count = on; Ok(()) }), on_or_off(CHECKS_COUNT), "Whether or not to check the nonce-count sent by the client"),
    row("AuthDigestAlgorithm", Allowed::AUTH, Take1(set_algorithm), "MD5", "The algorithm used for the hash calculation").differs("It takes `SHA-256`, too. The password file then holds SHA-256 digests of `user:realm:password`."),
    row("AuthDigestDomain", Allowed::AUTH, Iterate(|c, uri| { edit(c).domain.push(uri.into()); Ok(()) }), "", "A list of URI's which belong to the same protection space as the current URI"),
    row("AuthDigestShmemSize", Allowed::SERVER, Take1(set_size), shown!(clients::SIZE), "The amount of shared memory to allocate for keeping track of clients").differs("There is always room for 2048 clients."),
    row("AuthDigestSecretFile", Allowed::GLOBAL, Take1(|c, v| { let file = c.context.server_relative(v); c.server_set(|s: &mut DigestServer| &mut s.secret_file, file) }), "", "A file with the secret that nonces are made with: servers with the same file accept each other's nonces. Without this line, each server has a secret of its own"),
];

/// The default of `AuthDigestNonceLifetime`, in seconds.
const LIFETIME: i64 = 300;
/// The default of `AuthDigestNcCheck`.
const CHECKS_COUNT: bool = false;
/// The algorithms, by their names in the protocol.
const ALGORITHMS: [(&str, RealmDigest); 2] = [("MD5", RealmDigest::Md5), ("SHA-256", RealmDigest::Sha256)];

/// The settings of one section. As in Apache, a section with any of these lines inherits none.
#[derive(Clone, Debug)]
pub struct Rules {
    providers: Vec<Source>,
    lifetime: i64,
    checks_count: bool,
    algorithm: RealmDigest,
    domain: Vec<String>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            providers: Vec::new(),
            lifetime: LIFETIME,
            checks_count: CHECKS_COUNT,
            algorithm: RealmDigest::Md5,
            domain: Vec::new(),
        }
    }
}

settings! {
    /// The module's settings of a section.
    pub struct DigestDir {
        rules: Gathered<Rules>,
    }
}

settings! {
    /// The module's settings of the server.
    pub struct DigestServer {
        size: Setting<u64> = clients::SIZE,
        secret_file: Setting<String>,
    }
}

impl Rules {
    fn of(request: &Request) -> Rules {
        request.dir::<DigestDir>().rules.get().cloned().unwrap_or_default()
    }

    fn algorithm_name(&self) -> &'static str {
        ALGORITHMS.iter().find(|(_, algorithm)| *algorithm == self.algorithm).map_or("", |(name, _)| name)
    }

    /// Whether a nonce may be used only once.
    fn is_once(&self) -> bool {
        self.lifetime == 0
    }

    /// Whether each client has to be tracked.
    fn knows_clients(&self) -> bool {
        self.checks_count || self.is_once()
    }

    /// A nonce for a challenge: the time, or a number if each may be used only once.
    fn nonce(&self, request: &Request, realm: &str, opaque: Option<&str>) -> String {
        let once = self.is_once().then(clients).flatten().map(|clients| clients.once());
        nonce::make(once.unwrap_or_else(|| now(request)), realm, opaque)
    }
}

/// The arrival of the request, in microseconds.
fn now(request: &Request) -> u64 {
    request.time().as_micros() as u64
}

fn edit<'a>(cmd: &'a mut Cmd<'_>) -> &'a mut Rules {
    let origin = cmd.origin();
    cmd.dir.edit::<DigestDir>().rules.edit(&origin)
}

fn add_provider(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let source = Source::named(cmd, name)?;
    if !source.has_realm_hash() {
        return Err(format!("The '{name}' Authn provider doesn't support Digest Authentication").into());
    }
    edit(cmd).providers.push(source);
    Ok(())
}

fn set_qop(cmd: &mut Cmd<'_>, qop: &str) -> Outcome {
    edit(cmd);
    match qop.eq_ignore_ascii_case("auth") {
        true => Ok(()),
        false => Err("AuthDigestQop is deprecated: only 'auth' is supported".into()),
    }
}

fn set_lifetime(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let number = text.trim_start().trim_start_matches(['-', '+']);
    let behind = number.trim_start_matches(|c: char| c.is_ascii_digit());
    if !behind.is_empty() && !behind.starts_with(|c: char| c.is_ascii_whitespace()) {
        return Err(format!("Invalid time in AuthDigestNonceLifetime: {text}").into());
    }
    edit(cmd).lifetime = strtol(text);
    Ok(())
}

fn set_algorithm(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let algorithm = conf::values::one_of(name, &ALGORITHMS);
    edit(cmd).algorithm = algorithm.ok_or_else(|| format!("Unsupported algorithm in AuthDigestAlgorithm: {name}"))?;
    Ok(())
}

fn set_size(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit() || "+- ".contains(c)).trim_start();
    let unit = match behind.bytes().next() {
        None | Some(b'b' | b'B') => 1,
        Some(b'k' | b'K') => 1024,
        Some(b'm' | b'M') => 1 << 20,
        Some(_) => return Err(format!("Invalid size in AuthDigestShmemSize: {text}").into()),
    };
    let size = strtol(text).saturating_mul(unit);
    match u64::try_from(size) {
        Ok(size) if size >= clients::SIZE_MIN => cmd.server_set(|s: &mut DigestServer| &mut s.size, size),
        _ => Err(format!("size in AuthDigestShmemSize too small: {size} < {}", clients::SIZE_MIN).into()),
    }
}

/// No process is needed: this is when a configuration comes into effect.
static TAKE_EFFECT: HelperHook = |_, _| {
    nonce::take_effect();
    Ok(None)
};

/// Runs in the parent, so that all children share it.
fn prepare(server: &Server) -> Result<(), String> {
    let file = server.main().settings.get::<DigestServer>().secret_file.get().map(String::as_str);
    nonce::prepare(file)
        .map_err(|error| format!("AuthDigestSecretFile {}: {}", file.unwrap_or_default(), sys::describe(&error)))?;
    let size = server.hosts.iter().map(|host| host.settings.get::<DigestServer>().size()).max();
    clients::prepare(size.unwrap_or(clients::SIZE))
        .map_err(|error| format!("mod_auth_digest gets no shared memory: {}", sys::describe(&error)))
}

async fn check_user(request: &mut Request) -> Flow {
    match auth_type(request) {
        Ok(Some(name)) if name.eq_ignore_ascii_case("Digest") => {}
        _ => return Flow::Declined,
    }
    let Some(realm) = auth_name(request) else {
        request.log("auth_digest", Level::Error, format!("AH01780: need AuthName: {}", request.data.uri));
        return Flow::Status(500);
    };
    let rules = Rules::of(request);
    let (digest, verified) = match header::credentials(request, rules.algorithm) {
        Credentials::Digest(digest) => {
            let verified = verify(request, &rules, &realm, &digest).await;
            (Some(digest), verified)
        }
        Credentials::None => return challenge(request, &rules, &realm, None, false),
        Credentials::Other(scheme) => {
            let uri = &request.data.uri;
            (None, Err(Stop::refused(format!("AH01781: client used wrong authentication scheme `{scheme}': {uri}"))))
        }
        Credentials::Invalid => {
            let text = format!(
                "AH01782: missing user, realm, nonce, uri, digest, cnonce, or nonce_count in authorization header: {}",
                request.data.uri
            );
            (None, Err(Stop::refused(text)))
        }
    };
    match verified {
        Ok(info) => {
            request.notes.set(NOTE, info);
            Flow::Ok
        }
        Err(Stop::Flow(flow)) => flow,
        Err(Stop::Refused(Refused { level, stale, text })) => {
            request.log("auth_digest", level, text);
            challenge(request, &rules, &realm, digest.as_deref(), stale)
        }
    }
}

/// Why a client is not logged in.
enum Stop {
    /// The client is asked for other credentials.
    Refused(Refused),
    /// The request ends this way; the cause was logged.
    Flow(Flow),
}

impl Stop {
    /// The client is at fault.
    fn refused(text: String) -> Stop {
        Stop::Refused(Refused { level: Level::Error, stale: false, text })
    }
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        Stop::Refused(refused)
    }
}

/// Why credentials are refused.
struct Refused {
    level: Level,
    /// Nobody did anything wrong: the client has the password, and retries with a new nonce without asking the user.
    stale: bool,
    text: String,
}

/// Checks that the client has the password, and signed this request. Returns the value of `Authentication-Info`.
async fn verify(request: &mut Request, rules: &Rules, realm: &str, digest: &Digest) -> Result<String, Stop> {
    let user = &digest.username;
    request.login.user = Some(user.clone());
    request.login.auth_type = Some("Digest".into());
    check_place(request, digest).map_err(Stop::Flow)?;
    let refused = |text| Err(Stop::refused(text));
    if let (Some(opaque), None) = (&digest.opaque, digest.client()) {
        return refused(format!("AH01787: received invalid opaque - got `{opaque}'"));
    }
    if digest.realm != realm {
        return refused(format!("AH01788: realm mismatch - got `{}' but expected `{realm}'", digest.realm));
    }
    let uri = request.data.uri.clone();
    let algorithm = digest.algorithm.as_deref();
    if let Some(other) = algorithm.filter(|name| !name.eq_ignore_ascii_case(rules.algorithm_name())) {
        return refused(format!("AH01789: unknown algorithm `{other}' received: {uri}"));
    }
    let secret = find_secret(request, rules, user, realm).await.map_err(|why| match why {
        Authn::UserNotFound => Stop::refused(format!("AH01790: user `{user}' in realm `{realm}' not found: {uri}")),
        Authn::Busy => Stop::Flow(Flow::Status(503)),
        Authn::Error => Stop::Flow(Flow::Status(500)),
        Authn::Denied | Authn::Granted => {
            Stop::refused(format!("AH01791: user `{user}' in realm `{realm}' denied by provider: {uri}"))
        }
    })?;
    let qop = digest.qop.as_deref();
    if qop.is_none_or(|qop| !qop.eq_ignore_ascii_case("auth")) {
        let qop = qop.unwrap_or("(null)");
        return refused(format!(
            "AH10560: invalid or missing qop value '{qop}', RFC 2069 is no longer supported: {uri}"
        ));
    }
    let SentLine { method, .. } = sent_line(request);
    if !same(&response(rules, digest, &secret, &method), &digest.response) {
        return refused(format!("AH01794: user {user}: password mismatch: {uri}"));
    }
    check_nonce(request, rules, realm, digest)?;
    let rspauth = response(rules, digest, &secret, "");
    Ok(authentication_info(request, rules, realm, digest, &rspauth))
}

/// The note with the next answer's information for a client that has logged in.
const NOTE: &str = "auth-digest-info";

/// The client's signature: `response`, and with an empty method the server's own proof.
fn response(rules: &Rules, digest: &Digest, secret: &str, method: &str) -> String {
    let hash = |text: String| hex(rules.algorithm, &http::text::to_bytes(&text));
    let part = |value: &Option<String>| value.clone().unwrap_or_default();
    let place = hash(format!("{method}:{}", digest.uri));
    let (nc, cnonce, qop) = (part(&digest.nc), part(&digest.cnonce), part(&digest.qop));
    hash(format!("{secret}:{}:{nc}:{cnonce}:{qop}:{place}", digest.nonce))
}

/// The request line as the client sent it, even if the request has changed since.
struct SentLine {
    method: String,
    target: String,
}

fn sent_line(request: &Request) -> SentLine {
    let line = request.request_line();
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or_default().to_string();
    SentLine { method: next(), target: next() }
}

/// Checks that the client signed the target of this request.
fn check_place(request: &Request, digest: &Digest) -> Result<(), Flow> {
    let SentLine { target, .. } = sent_line(request);
    let host = request.server_name();
    let place = RequestTarget {
        target: &target,
        host: &host,
        port: request.server_port(),
        usual_port: request.vhost.scheme_port(),
    };
    let uri = &digest.uri;
    let text = match compare(uri, &place) {
        Comparison::Same => return Ok(()),
        Comparison::SameWithoutQuery if request.env.contains("AuthDigestEnableQueryStringHack") => {
            let text = format!("AH01784: applying AuthDigestEnableQueryStringHack to uri <{target}>");
            request.log("auth_digest", Level::Info, text);
            return Ok(());
        }
        Comparison::SameWithoutQuery | Comparison::Another => {
            format!("AH01786: uri mismatch - <{uri}> does not match request-uri <{target}>")
        }
        Comparison::Invalid => format!("AH01783: invalid uri <{uri}> in Authorization header"),
    };
    request.log("auth_digest", Level::Error, text);
    Err(Flow::Status(400))
}

/// The stored digest of user, realm and password, from the first source that knows the user.
async fn find_secret(request: &mut Request, rules: &Rules, user: &str, realm: &str) -> Result<String, Authn> {
    let Some(sources) = sources_or_file(request, &rules.providers) else {
        request.log("auth_digest", Level::Error, "AH01770: No Authn provider configured");
        return Err(Authn::Error);
    };
    for source in sources.iter() {
        match source.realm_hash(request, user, realm, rules.algorithm).await {
            Some(Err(Authn::UserNotFound)) => {}
            Some(answer) => return answer,
            None => return Err(Authn::Error),
        }
    }
    Err(Authn::UserNotFound)
}

/// Checks that the nonce is valid for another request.
fn check_nonce(request: &mut Request, rules: &Rules, realm: &str, digest: &Digest) -> Result<(), Refused> {
    let (nonce, user) = (&digest.nonce, &digest.username);
    let refused = |level, stale, text| Err(Refused { level, stale, text });
    let time = match nonce::time_of(nonce, realm, digest.opaque.as_deref()) {
        Ok(time) => time,
        Err(hash) => {
            let text = format!("AH01776: invalid nonce {nonce} received - hash is not {hash}");
            return refused(Level::Error, true, text);
        }
    };
    if rules.lifetime > 0 {
        let Some(age) = now(request).checked_sub(time) else {
            let text = format!("AH01777: invalid nonce {nonce} received - user attempted time travel");
            return refused(Level::Error, true, text);
        };
        let (age, most) = (age as f64 / 1e6, rules.lifetime as f64);
        if age > most {
            let text = format!(
                "AH01778: user {user}: nonce expired ({age:.2} seconds old - max lifetime {most:.2}) - sending new nonce"
            );
            return refused(Level::Info, true, text);
        }
    }
    if !rules.knows_clients() {
        return Ok(());
    }
    let Some(nc) = digest.count() else {
        let nc = digest.nc.as_deref().unwrap_or_default();
        return refused(Level::Error, false, format!("AH01773: invalid nc {nc} received - not a number"));
    };
    // A proof accepted for this request also holds for its redirects and subrequests.
    let proof = format!("{nonce} {nc}");
    if request.login.proof.as_ref() == Some(&proof) {
        return Ok(());
    }
    let client = digest.client();
    let used = match (client, clients()) {
        (Some(client), Some(clients)) => clients.use_nonce(client, time, nc, rules.is_once()),
        _ => Use::Unknown,
    };
    match used {
        Use::Fresh => {
            request.login.proof = Some(proof);
            Ok(())
        }
        Use::Unknown => {
            let client = client.unwrap_or(0);
            let text = format!("AH10618: client {client} is no longer known - sending new nonce");
            refused(Level::Info, true, text)
        }
        Use::Used => {
            let text = format!("AH01779: user {user}: one-time-nonce {nonce} already used - sending new nonce");
            refused(Level::Info, true, text)
        }
        Use::Repeated(highest) => {
            let text = format!(
                "AH01774: Warning, possible replay attack: nonce-count check failed: {nc} is not above {highest} for \
                 nonce {nonce}"
            );
            refused(Level::Error, false, text)
        }
    }
}

/// `Authentication-Info`: proof that we know the password too, and the next nonce if this one is about to expire.
fn authentication_info(request: &Request, rules: &Rules, realm: &str, digest: &Digest, rspauth: &str) -> String {
    /// A nonce is replaced this many seconds before its end.
    const BEFORE: i64 = 30;
    let age = nonce::time_of(&digest.nonce, realm, digest.opaque.as_deref())
        .map_or(0, |time| now(request).saturating_sub(time) / 1_000_000);
    let is_over = rules.lifetime > 0 && i64::try_from(age).unwrap_or(i64::MAX) > rules.lifetime - BEFORE;
    let next = if is_over || rules.is_once() {
        format!(", nextnonce=\"{}\"", rules.nonce(request, realm, digest.opaque.as_deref()))
    } else {
        String::new()
    };
    let quoted = digest.cnonce.as_deref().unwrap_or_default().replace('\\', "\\\\").replace('"', "\\\"");
    let nc = digest.nc.as_deref().unwrap_or_default();
    format!("rspauth=\"{rspauth}\"{next}, cnonce=\"{quoted}\", nc={nc}, qop=auth")
}

/// Adds `Authentication-Info` to the answer.
fn confirm(request: &mut Request) -> Flow {
    if request.is_subrequest() {
        return Flow::Declined;
    }
    let Some(info) = request.notes.get(NOTE).map(str::to_string) else { return Flow::Declined };
    request.response.headers_out.merge("Authentication-Info", &info);
    Flow::Ok
}

/// Asks for a digest. `stale`: the password was right, only the nonce is no longer valid.
fn challenge(request: &mut Request, rules: &Rules, realm: &str, digest: Option<&Digest>, stale: bool) -> Flow {
    let theirs = digest.and_then(|digest| digest.opaque.as_deref());
    let (mut opaque, mut stale) = (theirs.map(str::to_string), stale);
    let is_known = || digest.and_then(Digest::client).is_some_and(|number| clients().is_some_and(|c| c.knows(number)));
    if if theirs.is_some() { !is_known() } else { rules.knows_clients() } {
        stale |= theirs.is_some();
        let Some(number) = clients().and_then(|clients| clients.add()) else {
            let text =
                "AH01769: unable to allocate a client entry - failing the request, since this configuration needs one";
            request.log("auth_digest", Level::Error, text);
            return Flow::Status(500);
        };
        opaque = Some(format!("{number:x}"));
    }
    let nonce = rules.nonce(request, realm, opaque.as_deref());
    let mut field = format!("Digest realm=\"{realm}\", nonce=\"{nonce}\", algorithm={}", rules.algorithm_name());
    if let Some(opaque) = opaque {
        field.push_str(&format!(", opaque=\"{opaque}\""));
    }
    if !rules.domain.is_empty() {
        field.push_str(&format!(", domain=\"{}\"", rules.domain.join(" ")));
    }
    if stale {
        field.push_str(", stale=true");
    }
    field.push_str(", qop=\"auth\"");
    request.response.err_headers_out.set("WWW-Authenticate", field);
    Flow::Status(401)
}

/// Called when another module refuses the user: the client may try again as someone else.
fn note_failure(request: &mut Request, auth_type: &str) {
    if auth_type.eq_ignore_ascii_case("Digest") {
        let realm = auth_name(request).unwrap_or_default();
        let _ = challenge(request, &Rules::of(request), &realm, None, false);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        let inside = |line: &str| format!("<Location />\n{line}\n</Location>");
        crate::testing::check(&[
            ("AuthDigestShmemSize 1", "size in AuthDigestShmemSize too small: 1 < 88"),
            ("AuthDigestShmemSize x", "Invalid size in AuthDigestShmemSize: x"),
            ("AuthDigestShmemSize 1q", "Invalid size in AuthDigestShmemSize: 1q"),
            ("AuthDigestShmemSize 1kb", ""),
            (&inside("AuthDigestQop Auth auth"), ""),
            (&inside("AuthDigestQop auth-int"), "AuthDigestQop is deprecated: only 'auth' is supported"),
            (&inside("AuthDigestNonceLifetime x"), "Invalid time in AuthDigestNonceLifetime: x"),
            (&inside("AuthDigestNonceLifetime -1"), ""),
            (&inside("AuthDigestAlgorithm MD5-sess"), "Unsupported algorithm in AuthDigestAlgorithm: MD5-sess"),
            (&inside("AuthDigestAlgorithm sha-256"), ""),
            (&inside("AuthDigestProvider x"), "Unknown Authn provider: x"),
            (&inside("AuthDigestProvider file\nAuthDigestDomain /a /b\nAuthDigestNcCheck on"), ""),
        ]);
    }
}
