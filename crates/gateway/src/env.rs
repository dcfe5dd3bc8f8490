//! The variables of a script: those of RFC 3875 section 4.1, Apache's additions, and the environment of the request.

use std::borrow::Cow;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

use http::text::{from_bytes, to_bytes};
use server::core::CoreDir;
use server::fields::Value;
use server::{Fields, Request};

use crate::environment::Environment;

/// The `PATH` of scripts if the server has none itself (Apache's `DEFAULT_PATH`).
const DEFAULT_PATH: &str = "/bin:/usr/bin:/usr/ucb:/usr/bsd:/usr/local/bin";

/// About as much memory as the values of a browser's request take, in bytes, and the number of its variables.
const TEXT: usize = 2048;
const NUMBER: usize = 48;

/// Variables in order. Nearly all values but constants are parts of one text: a request has dozens of them.
struct Variables {
    all: Vec<(Cow<'static, str>, Written)>,
    text: String,
}

/// Where a value is written.
enum Written {
    /// In the program.
    Static(&'static str),
    /// In this part of the text.
    Part(Range<usize>),
    /// Apart: it grew, field by field.
    Own(String),
}

impl Variables {
    fn add(&mut self, name: impl Into<Cow<'static, str>>, value: &str) {
        let start = self.text.len();
        self.text.push_str(value);
        self.all.push((name.into(), Written::Part(start..self.text.len())));
    }

    fn add_static(&mut self, name: &'static str, value: &'static str) {
        self.all.push((Cow::Borrowed(name), Written::Static(value)));
    }

    /// Adds a field of the request. `joins`: a value that was there before stays in front of this one.
    fn add_field(&mut self, name: Cow<'static, str>, value: &str, joins: bool) {
        let Some((_, written)) = self.all.iter_mut().find(|(have, _)| *have == name) else {
            return self.add(name, value);
        };
        let mut joined = match written {
            Written::Own(text) => std::mem::take(text),
            Written::Part(part) => self.text[part.clone()].to_string(),
            Written::Static(text) => text.to_string(),
        };
        match joins {
            true => joined.push_str(", "),
            false => joined.clear(),
        }
        joined.push_str(value);
        *written = Written::Own(joined);
    }

    /// Takes precedence over variables of the same names in the environment.
    fn put_into(self, env: &mut Fields) {
        for (name, _) in &self.all {
            if env.contains(name) {
                env.remove(name);
            }
        }
        env.reserve(self.all.len());
        let text = Arc::from(self.text);
        for (name, written) in self.all {
            match written {
                Written::Static(value) => env.add(name, Value::Static(value)),
                Written::Part(part) => env.add(name, Value::part(&text, part)),
                Written::Own(value) => env.add(name, value),
            }
        }
    }
}

/// Adds a script's variables to the environment of the request, where access log formats see them too. They take
/// precedence over variables that modules set under the same names.
pub async fn add(request: &mut Request) {
    let mut variables = common(request);
    of_cgi(request, &mut variables).await;
    variables.put_into(&mut request.env);
}

/// The name and the value of a variable.
pub type Pair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The environment in the form for a program. Entries with a zero byte are left out.
pub(crate) fn environment(env: &Fields) -> Environment {
    let ends = "=\0".len();
    let mut environment =
        Environment::with_capacity(all(env).map(|(name, value)| name.len() + value.len() + ends).sum());
    for (name, value) in all(env) {
        let _ = environment.add(&plain_name(name), &to_bytes(value));
    }
    environment
}

/// The environment as names and values. Names keep letters, digits and `_`; `TZ` is the server's unless one is set.
/// Entries with a zero byte are left out: no process could have them.
pub(crate) fn pairs(env: &Fields) -> impl Iterator<Item = Pair<'_>> {
    pairs_named(env, plain_name)
}

/// The same with the names as they are, for programs that take them for no variables of a process.
pub(crate) fn pairs_as_set(env: &Fields) -> impl Iterator<Item = Pair<'_>> {
    pairs_named(env, to_bytes)
}

fn pairs_named<'a>(env: &'a Fields, name_of: impl Fn(&'a str) -> Cow<'a, [u8]>) -> impl Iterator<Item = Pair<'a>> {
    let pairs = all(env).map(move |(name, value)| (name_of(name), to_bytes(value)));
    pairs.filter(|(name, value)| !value.contains(&0) && !name.contains(&0))
}

fn all(env: &Fields) -> impl Iterator<Item = (&str, &str)> {
    let zone = inherited().zone.as_deref().filter(|_| !env.contains("TZ"));
    zone.map(|zone| ("TZ", zone)).into_iter().chain(env.iter())
}

fn plain_name(name: &str) -> Cow<'_, [u8]> {
    /// Whether a byte stays.
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            plain[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
            byte += 1;
        }
        plain
    };
    if name.bytes().all(|byte| PLAIN[usize::from(byte)]) && !name.starts_with(|first: char| first.is_ascii_digit()) {
        return Cow::Borrowed(name.as_bytes());
    }
    let mut bytes = to_bytes(name).into_owned();
    bytes.iter_mut().filter(|byte| !PLAIN[usize::from(**byte)]).for_each(|byte| *byte = b'_');
    if let Some(first) = bytes.first_mut().filter(|first| first.is_ascii_digit()) {
        *first = b'_';
    }
    Cow::Owned(bytes)
}

/// The part of the server's own environment that scripts inherit; it does not change while the server runs.
struct Inherited {
    path: String,
    library_path: Option<String>,
    zone: Option<String>,
}

fn inherited() -> &'static Inherited {
    static INHERITED: OnceLock<Inherited> = OnceLock::new();
    let read = |name| std::env::var_os(name).map(|value| from_bytes(value.as_bytes()).into_owned());
    INHERITED.get_or_init(|| Inherited {
        path: read("PATH").unwrap_or_else(|| DEFAULT_PATH.into()),
        library_path: read("LD_LIBRARY_PATH"),
        zone: read("TZ"),
    })
}

/// The `PATH` of scripts if nothing sets it.
pub fn path() -> String {
    inherited().path.clone()
}

/// The `PATH` of the request's script: the one that `SetEnv` sets, or the server's.
pub fn path_for(request: &Request) -> String {
    request.env.get("PATH").map_or_else(path, str::to_string)
}

/// Variables in the form for a program. `None`: one has a zero byte, and no process could have it.
pub fn lines<'a, N: AsRef<str> + 'a>(variables: impl IntoIterator<Item = &'a (N, String)>) -> Option<Environment> {
    let mut environment = Environment::default();
    let mut variables = variables.into_iter();
    variables.all(|(name, value)| environment.add(&to_bytes(name.as_ref()), &to_bytes(value))).then_some(environment)
}

/// The variables of every kind of script (Apache's `ap_add_common_vars`).
fn common(request: &Request) -> Variables {
    let mut all = headers(request);
    let inherited = inherited();
    // The one variable of ours that `SetEnv` may set.
    match request.env.get("PATH") {
        Some(path) => all.add("PATH", path),
        None => all.add_static("PATH", &inherited.path),
    }
    if let Some(path) = &inherited.library_path {
        all.add_static("LD_LIBRARY_PATH", path);
    }
    let host = &request.vhost;
    let name = request.server_name();
    let name = match name.contains(':') && !name.starts_with('[') {
        true => Cow::Owned(format!("[{name}]")),
        false => name,
    };
    let context = request.mapped.context.as_ref();
    let (prefix, root) = context.map_or_else(|| ("", request.document_root()), |(prefix, root)| (prefix, root));
    let signature = request.signature();
    all.add("SERVER_SIGNATURE", signature.strip_prefix("<hr>\n").unwrap_or(&signature));
    all.add_static("SERVER_SOFTWARE", &request.server.software);
    all.add("SERVER_NAME", &http::uri::escape_html(&name));
    http::write_address(request.local().ip(), |address| all.add("SERVER_ADDR", address));
    all.add("SERVER_PORT", http::Decimal::of(request.server_port().into()).as_str());
    if let Some(name) = request.client_name() {
        all.add("REMOTE_HOST", name);
    }
    all.add("REMOTE_ADDR", request.client().ip());
    all.add("DOCUMENT_ROOT", request.document_root());
    all.add_static("REQUEST_SCHEME", host.scheme);
    all.add("CONTEXT_PREFIX", prefix);
    all.add("CONTEXT_DOCUMENT_ROOT", root);
    match &host.admin {
        Some(admin) => all.add_static("SERVER_ADMIN", admin),
        None => all.add_static("SERVER_ADMIN", http::NO_ADMIN),
    }
    all.add("SCRIPT_FILENAME", &request.mapped.filename);
    all.add("REMOTE_PORT", http::Decimal::of(request.client().peer.port().into()).as_str());
    match (&request.login.user, request.previous().and_then(|previous| previous.user.as_ref())) {
        (Some(user), _) => all.add("REMOTE_USER", user),
        (None, Some(user)) => all.add("REDIRECT_REMOTE_USER", user),
        (None, None) => {}
    }
    if let Some(kind) = &request.login.auth_type {
        all.add("AUTH_TYPE", kind);
    }
    if let Some(previous) = request.previous() {
        let args = previous.args.as_ref();
        match request.dir::<CoreDir>().qualify_redirect_url() {
            // As in Apache: with the query, and not escaped.
            true => {
                let path = args.map_or_else(|| previous.uri.clone(), |args| format!("{}?{args}", previous.uri));
                all.add("REDIRECT_URL", &request.url(&path));
            }
            false => all.add("REDIRECT_URL", &previous.uri),
        }
        args.into_iter().for_each(|args| all.add("REDIRECT_QUERY_STRING", args));
    }
    all
}

/// Further variables of a CGI script (Apache's `ap_add_cgi_vars`).
async fn of_cgi(request: &Request, all: &mut Variables) {
    let included = request.is_subrequest();
    all.add_static("GATEWAY_INTERFACE", "CGI/1.1");
    // A part of another response negotiates nothing with the client.
    all.add_static("SERVER_PROTOCOL", request.protocol());
    all.add("REQUEST_METHOD", &request.data.method);
    all.add("QUERY_STRING", request.data.args.as_deref().unwrap_or_default());
    let current = request.dir::<CoreDir>().cgi_vars.get("REQUEST_URI").is_some_and(|rule| rule == "current-uri");
    match current {
        true => all.add("REQUEST_URI", &request.data.uri),
        false => all.add("REQUEST_URI", &request.data.sent_target()),
    }
    if request.mapped.path_info.is_empty() {
        all.add("SCRIPT_NAME", &request.data.uri);
        return;
    }
    let name = if included { &request.data.uri } else { script_name(&request.data.uri, &request.mapped.path_info) };
    all.add("SCRIPT_NAME", name);
    all.add("PATH_INFO", &request.mapped.path_info);
    let found = request.lookup_path(&request.mapped.path_info, None).await;
    if !found.mapped.filename.is_empty() {
        all.add("PATH_TRANSLATED", &format!("{}{}", found.mapped.filename, found.mapped.path_info));
    }
}

/// The part of the path that names the script. Path and `PATH_INFO` need not end alike (one belongs to a URL, the other
/// to a file): their common ending is removed, up to a slash; several slashes in a row count as one.
fn script_name<'a>(path: &'a str, info: &str) -> &'a str {
    let mut rest = path.as_bytes();
    for byte in info.bytes().rev() {
        let Some(shorter) = rest.strip_suffix(&[byte]) else { break };
        rest = shorter;
        while let (b'/', Some(shorter)) = (byte, rest.strip_suffix(b"/")) {
            rest = shorter;
        }
    }
    let at = rest.len().saturating_sub(1);
    let slash = path.as_bytes()[at..].iter().position(|byte| *byte == b'/');
    &path[..slash.map_or(path.len(), |slash| at + slash)]
}

/// The fields of the request. Passwords stay here, unless `CGIPassAuth` lets them out. If the client sent a field
/// several times, a script gets all values; if the configuration has added one to the client's, it gets only the last:
/// that is the trustworthy one.
fn headers(request: &Request) -> Variables {
    let mut all = Variables { all: Vec::with_capacity(NUMBER), text: String::with_capacity(TEXT) };
    let pass = request.dir::<CoreDir>().cgi_pass_auth();
    let is_changed = request.data.changed_fields().is_some();
    for (name, value) in request.headers() {
        let secret = ["Authorization", "Proxy-Authorization"].iter().any(|one| name.eq_ignore_ascii_case(one));
        let Some(name) = variable(&name).filter(|_| pass || !secret) else { continue };
        all.add_field(name, &value, !is_changed);
    }
    all
}

/// The variable of a field. A name with anything but letters, digits and `-` makes none: `X_Y` and `X-Y` would be the
/// same variable, and a program that checks one of them would be deceived by the other. `Proxy` makes none either,
/// because programs take `HTTP_PROXY` for the proxy they should use.
fn variable(name: &str) -> Option<Cow<'static, str>> {
    const PREFIX: &str = "HTTP_";
    let known: &[(&str, &'static str)] = &[
        ("Content-Type", "CONTENT_TYPE"),
        ("Content-Length", "CONTENT_LENGTH"),
        ("Host", "HTTP_HOST"),
        ("Accept", "HTTP_ACCEPT"),
        ("User-Agent", "HTTP_USER_AGENT"),
    ];
    if let Some((_, variable)) = known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Some(Cow::Borrowed(variable));
    }
    if name.eq_ignore_ascii_case("Proxy") || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return None;
    }
    let mut variable = String::with_capacity(PREFIX.len() + name.len());
    variable.push_str(PREFIX);
    let upper = |char: char| if char == '-' { '_' } else { char.to_ascii_uppercase() };
    variable.extend(name.chars().map(upper));
    Some(Cow::Owned(variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables() {
        let cases = [
            ("content-type", Some("CONTENT_TYPE")),
            ("X-Y", Some("HTTP_X_Y")),
            ("accept", Some("HTTP_ACCEPT")),
            ("X_Y", None),
            ("X.Y", None),
            ("Proxy", None),
            ("PROXY", None),
            ("Proxy-Connection", Some("HTTP_PROXY_CONNECTION")),
        ];
        for (name, want) in cases {
            assert_eq!(variable(name).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn where_the_script_ends() {
        let cases = [
            ("/cgi/env/p i", "/p i", "/cgi/env"),
            ("/cgi/env/", "/", "/cgi/env"),
            ("/cgi/env/é/x", "/é/x", "/cgi/env"),
            ("/a/b", "/other", "/a/b"),
            ("/x", "/x", ""),
            ("/a/index.cgi/y", "/y", "/a/index.cgi"),
            ("/cgi/env//a//b", "/a/b", "/cgi/env"),
        ];
        for (path, info, want) in cases {
            assert_eq!(script_name(path, info), want, "{path} {info}");
        }
    }

    #[test]
    fn as_the_program_gets_it() {
        let mut env = Fields::default();
        env.add("MY-ODD.NAME", "value");
        env.add("1digit", "2");
        env.add("A", from_bytes(b"\xff").into_owned());
        env.add("NUL", "a\0b");
        env.add("TZ", "UTC");
        assert!(environment(&env).iter().eq([c"MY_ODD_NAME=value", c"_digit=2", c"A=\xff", c"TZ=UTC"]));
    }
}
