//! Requests about names, methods, and the limits of requests.

use super::line::{Line, Wanted};

/// The longest limit that is tried, in bytes: servers are not asked for megabytes.
const LENGTH_MAX: usize = 64 * 1024;
/// The most fields that are sent.
const FIELDS_MAX: usize = 1_000;

/// `ServerName` and `ServerAlias`.
pub(super) fn names(line: &Line<'_>) -> Vec<Wanted> {
    let place = |what| line.get("/", what);
    let mut wanted = Vec::new();
    for name in line.words.iter().take(10) {
        let name = name.split_once("://").map_or(name.as_str(), |(_, name)| name).replace(['*', '?'], "x");
        let bare = name.rsplit_once(':').map_or(name.as_str(), |(bare, _)| bare);
        for (host, what) in [
            (bare.to_owned(), "the name"),
            (bare.to_ascii_uppercase(), "the name in upper case"),
            (format!("{bare}."), "the name with a dot"),
            (format!("{bare}:{}", line.base.endpoint.port), "the name with its port"),
            (format!("{bare}:9"), "the name with another port"),
            (format!("{bare}:"), "the name with half of a port"),
            (format!("x.{bare}"), "just misses the name"),
        ] {
            wanted.push(place(what).host(Some(&host)));
        }
    }
    wanted
}

/// What each server decides without any line.
pub(super) fn general(line: &Line<'_>) -> Vec<Wanted> {
    let place = |what| line.get(line.file(), what);
    let mut wanted = vec![
        place("an unknown name").host(Some("no-such-name.example")),
        place("an address as name").host(Some("192.0.2.1")),
        place("an address of IPv6 as name").host(Some("[2001:db8::1]")),
        place("an empty name").host(Some("")),
        place("a malformed name").host(Some("a_b!")),
        place("a name with a strange port").host(Some("a:b")),
        place("no name").host(None),
        place("no name, HTTP/1.0").host(None).old(),
        place("an unknown name, HTTP/1.0").host(Some("no-such-name.example")).old(),
        place("two names").with("Host", "other.example"),
        place("the name in the target").host(Some("other.example")),
        line.get("*", "no path").method("OPTIONS"),
        line.get("/no-such-name", "what is not there"),
        line.get("/%2e%2e/%2e%2e/etc/passwd", "above the root"),
        line.get("/%00", "an escaped zero"),
        line.get("/%zz", "a malformed escape"),
        line.get("/a%", "half of an escape"),
        line.get("/a%0d%0ab", "an escaped end of line"),
        line.get("/a%2fb", "an escaped slash"),
        line.get("/\\", "a backslash"),
        line.get("no-slash", "a path without a slash"),
        place("an unknown coding of the request").with("Transfer-Encoding", "x"),
        place("an unknown expectation").with("Expect", "the-best"),
        place("an empty field").with("X-Empty", ""),
        place("a field with a tab").with("X-Tab", "a\tb"),
        place("an upgrade").with("Connection", "upgrade").with("Upgrade", "websocket"),
    ];
    wanted[10].ask.prepend("http://third.example");
    wanted.extend(methods(line));
    wanted.extend([8_189, 8_190, 8_191, 8_192].map(|length| long(line, length)));
    wanted.extend([8_000, 8_189, 8_190, 8_191, 8_192].map(|length| with_long_field(line, length)));
    wanted.extend([90, 110].map(|count| with_fields(line, count)));
    wanted
}

/// Lines about methods: each method that is usual.
pub(super) fn methods(line: &Line<'_>) -> Vec<Wanted> {
    let usual = ["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "DELETE", "PATCH", "PROPFIND", "BREW", "get"];
    let places = line.scope.paths.iter().take(2);
    places.flat_map(|path| usual.map(|method| line.get(path, "a method").method(method))).collect()
}

/// `Protocols`.
pub(super) fn upgrades(line: &Line<'_>) -> Vec<Wanted> {
    let upgrade = |to: &str| line.get(line.file(), "an upgrade").with("Connection", "Upgrade").with("Upgrade", to);
    ["h2c", "h2", "websocket", "TLS/1.2", "HTTP/2.0", "x"].map(upgrade).into()
}

/// `Dav`.
pub(super) fn dav(line: &Line<'_>) -> Vec<Wanted> {
    let mut wanted = super::content::scope(line);
    for path in line.scope.paths.iter().take(2) {
        wanted.push(line.get(path, "OPTIONS").method("OPTIONS"));
        for depth in ["0", "1", "infinity", "2"] {
            wanted.push(line.get(path, "PROPFIND").method("PROPFIND").with("Depth", depth));
        }
        wanted.push(line.get(path, "PROPFIND without a depth").method("PROPFIND"));
        let body =
            "<?xml version=\"1.0\"?><propfind xmlns=\"DAV:\"><prop><getetag/><resourcetype/><x/></prop></propfind>";
        for (body, what) in [
            (body, "PROPFIND for some properties"),
            ("<propfind xmlns=\"DAV:\"><propname/></propfind>", "PROPFIND for names"),
            ("<propfind", "PROPFIND with a malformed body"),
        ] {
            let mut with_body =
                line.get(path, what).method("PROPFIND").with("Depth", "0").with("Content-Type", "text/xml");
            with_body.ask.body = body.as_bytes().to_vec();
            wanted.push(with_body);
        }
    }
    wanted.push(
        line.get(&format!("{}no-such-name", line.directory()), "what is not there")
            .method("PROPFIND")
            .with("Depth", "0"),
    );
    wanted
}

/// `AllowEncodedSlashes`.
pub(super) fn encoded_slashes(line: &Line<'_>) -> Vec<Wanted> {
    let directory = line.directory();
    let paths =
        [format!("{directory}no%2fsuch"), format!("{directory}%2F"), line.file().replacen('/', "/x%2f..%2f", 1)];
    paths.iter().map(|path| line.get(path, "an escaped slash")).collect()
}

/// `LimitRequestLine`.
pub(super) fn long_line(line: &Line<'_>) -> Vec<Wanted> {
    let Some(limit) = limit(line, LENGTH_MAX) else { return Vec::new() };
    (limit.saturating_sub(2)..=limit + 2).map(|length| long(line, length)).collect()
}

/// `LimitRequestFieldSize`.
pub(super) fn long_field(line: &Line<'_>) -> Vec<Wanted> {
    let Some(limit) = limit(line, LENGTH_MAX) else { return Vec::new() };
    (limit.saturating_sub(2)..=limit + 3).map(|length| with_long_field(line, length)).collect()
}

/// `LimitRequestFields`. The number that names a request in logs is a field, too, and so is the client's address.
pub(super) fn many_fields(line: &Line<'_>) -> Vec<Wanted> {
    let Some(limit) = limit(line, FIELDS_MAX) else { return Vec::new() };
    [limit.saturating_sub(4), limit + 4].map(|count| with_fields(line, count)).into()
}

fn limit(line: &Line<'_>, max: usize) -> Option<usize> {
    line.first().parse().ok().filter(|limit| (1..=max).contains(limit))
}

/// A request whose first line has this length.
fn long(line: &Line<'_>, length: usize) -> Wanted {
    let rest = length.saturating_sub("GET / HTTP/1.1".len());
    line.get(&format!("/{}", "x".repeat(rest)), "a first line of about the limit")
}

/// A request with a field line of this length.
fn with_long_field(line: &Line<'_>, length: usize) -> Wanted {
    let value = "x".repeat(length.saturating_sub("X-Long: ".len()));
    line.get(line.file(), "a field of about the limit").with("X-Long", &value)
}

/// A request with so many fields.
fn with_fields(line: &Line<'_>, count: usize) -> Wanted {
    let place = line.get(line.file(), "about as many fields as may be");
    (0..count).fold(place, |wanted, number| wanted.with(&format!("X-Field-{number}"), "x"))
}
