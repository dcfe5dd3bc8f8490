//! The forms in which a file or a directory is asked for.

use jiff::Timestamp;

use crate::switch::ask::Ask;
use crate::switch::sources::walk::Entry;

/// A form of request.
#[derive(Debug)]
pub(super) struct Form {
    /// What the request is about.
    pub(super) what: &'static str,
    weight: Weight,
    /// Makes a plain request one of this form.
    pub(super) change: fn(&mut Ask, &Entry),
}

/// For which files a form is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// For all, before anything else.
    Plain,
    /// For all.
    Short,
    /// For important ones.
    Long,
}

impl Form {
    pub(super) fn is_plain(&self) -> bool {
        self.weight == Weight::Plain
    }

    pub(super) fn is_short(&self) -> bool {
        self.weight == Weight::Short
    }

    pub(super) fn is_long(&self) -> bool {
        self.weight == Weight::Long
    }
}

const fn plain(what: &'static str, change: fn(&mut Ask, &Entry)) -> Form {
    Form { what, weight: Weight::Plain, change }
}

const fn short(what: &'static str, change: fn(&mut Ask, &Entry)) -> Form {
    Form { what, weight: Weight::Short, change }
}

const fn long(what: &'static str, change: fn(&mut Ask, &Entry)) -> Form {
    Form { what, weight: Weight::Long, change }
}

/// The forms for files.
pub(super) const FILE: &[Form] = &[
    plain("the file", |_, _| {}),
    short("HEAD", |ask, _| head(ask)),
    short("not modified since", |ask, entry| ask.set("If-Modified-Since", &date(entry.modified))),
    short("modified since long ago", |ask, _| ask.set("If-Modified-Since", "Thu, 01 Jan 1998 00:00:00 GMT")),
    short("its first bytes", |ask, _| ask.set("Range", "bytes=0-9")),
    short("a range beyond its end", |ask, entry| ask.set("Range", &format!("bytes={}-", entry.size))),
    short("compressed by gzip", |ask, _| ask.set("Accept-Encoding", "gzip")),
    short("as a browser asks", |ask, _| browser(ask)),
    short("something behind the file", |ask, _| ask.append("/extra")),
    short("a slash behind the file", |ask, _| ask.append("/")),
    short("with a query", |ask, _| ask.append("?a=b&c=%20d")),
    long("HEAD, compressed", |ask, _| (head(ask), ask.set("Accept-Encoding", "gzip")).1),
    long("OPTIONS", |ask, _| ask.method = "OPTIONS".to_owned()),
    long("a method that nobody knows", |ask, _| ask.method = "BREW".to_owned()),
    long("POST", |ask, _| ask.method = "POST".to_owned()),
    long("modified after a date in the future", |ask, _| ask.set("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT")),
    long("a date in the form of RFC 850", |ask, _| ask.set("If-Modified-Since", "Thursday, 01-Jan-98 00:00:00 GMT")),
    long("a date of C", |ask, _| ask.set("If-Modified-Since", "Thu Jan  1 00:00:00 1998")),
    long("no date", |ask, _| ask.set("If-Modified-Since", "yesterday")),
    long("not modified since, and another tag", |ask, entry| {
        ask.set("If-Modified-Since", &date(entry.modified));
        ask.set("If-None-Match", "\"other\"");
    }),
    long("unmodified since now", |ask, entry| ask.set("If-Unmodified-Since", &date(entry.modified))),
    long("unmodified since long ago", |ask, _| ask.set("If-Unmodified-Since", "Thu, 01 Jan 1998 00:00:00 GMT")),
    long("any tag", |ask, _| ask.set("If-None-Match", "*")),
    long("another tag", |ask, _| ask.set("If-None-Match", "\"other\"")),
    long("other tags, one weak", |ask, _| ask.set("If-None-Match", "W/\"a\", \"b\"")),
    long("a malformed tag", |ask, _| ask.set("If-None-Match", "other")),
    long("only if any tag", |ask, _| ask.set("If-Match", "*")),
    long("only if another tag", |ask, _| ask.set("If-Match", "\"other\"")),
    long("HEAD, only if another tag", |ask, _| (head(ask), ask.set("If-Match", "\"other\"")).1),
    long("one byte", |ask, _| ask.set("Range", "bytes=0-0")),
    long("its last bytes", |ask, _| ask.set("Range", "bytes=-5")),
    long("more last bytes than it has", |ask, _| ask.set("Range", "bytes=-99999999999")),
    long("everything as a range", |ask, _| ask.set("Range", "bytes=0-")),
    long("a range that ends behind its end", |ask, entry| ask.set("Range", &format!("bytes=1-{}", entry.size + 10))),
    long("several ranges", |ask, _| ask.set("Range", "bytes=0-1,4-5,-2")),
    long("several ranges with blanks", |ask, _| ask.set("Range", "bytes=0-1, 4-5")),
    long("overlapping ranges", |ask, _| ask.set("Range", "bytes=0-9,5-15")),
    long("ranges backwards", |ask, _| ask.set("Range", "bytes=8-9,0-1")),
    long("one good and one bad range", |ask, _| ask.set("Range", "bytes=0-1,99999999999-")),
    long("very many ranges", |ask, _| {
        let ranges: Vec<String> = (0..250).map(|at| format!("{at}-{at}")).collect();
        ask.set("Range", &format!("bytes={}", ranges.join(",")));
    }),
    long("a range from its end to its beginning", |ask, _| ask.set("Range", "bytes=9-1")),
    long("a range of no bytes", |ask, _| ask.set("Range", "bytes=-0")),
    long("a range of an unknown unit", |ask, _| ask.set("Range", "pages=1-2")),
    long("a malformed range", |ask, _| ask.set("Range", "bytes=x-y")),
    long("an empty range", |ask, _| ask.set("Range", "bytes=")),
    long("a range for HEAD", |ask, _| (head(ask), ask.set("Range", "bytes=0-9")).1),
    long("a range of what is compressed", |ask, _| {
        ask.set("Range", "bytes=0-9");
        ask.set("Accept-Encoding", "gzip");
    }),
    long("a range if unmodified", |ask, entry| {
        ask.set("Range", "bytes=0-9");
        ask.set("If-Range", &date(entry.modified));
    }),
    long("a range if an old date fits", |ask, _| {
        ask.set("Range", "bytes=0-9");
        ask.set("If-Range", "Thu, 01 Jan 1998 00:00:00 GMT");
    }),
    long("a range if another tag fits", |ask, _| {
        ask.set("Range", "bytes=0-9");
        ask.set("If-Range", "\"other\"");
    }),
    long("a range if a weak tag fits", |ask, _| {
        ask.set("Range", "bytes=0-9");
        ask.set("If-Range", "W/\"other\"");
    }),
    long("compressed by brotli", |ask, _| ask.set("Accept-Encoding", "br")),
    long("compressed by anything", |ask, _| ask.set("Accept-Encoding", "*")),
    long("compressed by what browsers know", |ask, _| ask.set("Accept-Encoding", "gzip, deflate, br, zstd")),
    long("not compressed", |ask, _| ask.set("Accept-Encoding", "gzip;q=0")),
    long("not compressed, said otherwise", |ask, _| ask.set("Accept-Encoding", "identity")),
    long("neither compressed nor not", |ask, _| ask.set("Accept-Encoding", "identity;q=0")),
    long("only as JSON", |ask, _| ask.set("Accept", "application/json")),
    long("in another language", |ask, _| ask.set("Accept-Language", "xx")),
    long("two slashes", |ask, _| ask.change_name(|name| format!("/{name}"))),
    long("a directory that is the same", |ask, _| ask.change_name(|name| format!("./{name}"))),
    long("a directory and back", |ask, _| ask.change_name(|name| format!("no-such-name/../{name}"))),
    long("above the root", |ask, _| ask.prepend("/../../..")),
    long("the dots escaped", |ask, _| ask.change_name(|name| format!("no-such-name/%2e%2E/{name}"))),
    long("an escaped letter", |ask, _| ask.change_name(escaped_first)),
    long("an escaped slash", |ask, _| ask.change_name(|name| format!("x%2F{name}"))),
    long("an escaped zero", |ask, _| ask.append("%00")),
    long("a malformed escape", |ask, _| ask.append("%zz")),
    long("a backslash", |ask, _| ask.change_name(|name| format!("x%5C..%5C{name}"))),
    long("in upper case", |ask, _| ask.change_name(|name| name.to_ascii_uppercase())),
    long("a dot behind the name", |ask, _| ask.append(".")),
    long("a blank behind the name", |ask, _| ask.append("%20")),
    long("an empty query", |ask, _| ask.append("?")),
    long("a parameter of the path", |ask, _| ask.append(";a=b")),
    long("a fragment", |ask, _| ask.append("#part")),
    long("with the host in the target", |ask, _| {
        let host = ask.host.clone().unwrap_or_default();
        let scheme = if ask.is_encrypted { "https" } else { "http" };
        ask.prepend(&format!("{scheme}://{host}"));
    }),
    long("without a slash in front", |ask, _| {
        ask.target.remove(0);
    }),
    long("HTTP/1.0", |ask, _| ask.minor = 0),
    long("HTTP/1.0 without Host", |ask, _| (ask.minor, ask.host) = (0, None)),
    long("HTTP/1.0, to be kept open", |ask, _| (ask.minor = 0, ask.set("Connection", "keep-alive")).1),
    long("HTTP/1.0 with a range", |ask, _| (ask.minor = 0, ask.set("Range", "bytes=0-1,3-4")).1),
    long("HTTP/1.0, compressed", |ask, _| (ask.minor = 0, ask.set("Accept-Encoding", "gzip")).1),
    long("to be closed", |ask, _| ask.set("Connection", "close")),
    long("an upgrade to HTTP/2", |ask, _| {
        ask.set("Connection", "Upgrade, HTTP2-Settings");
        ask.set("Upgrade", "h2c");
    }),
    long("an upgrade to TLS", |ask, _| {
        ask.set("Connection", "Upgrade");
        ask.set("Upgrade", "TLS/1.2");
    }),
    long("an unknown expectation", |ask, _| ask.set("Expect", "the-best")),
    long("a continuation", |ask, _| ask.set("Expect", "100-continue")),
    long("as a page of another site asks", |ask, _| ask.set("Origin", "https://example.org")),
    long("what a page of another site may do", |ask, _| {
        ask.method = "OPTIONS".to_owned();
        ask.set("Origin", "https://example.org");
        ask.set("Access-Control-Request-Method", "PUT");
    }),
];

/// The forms for directories.
pub(super) const DIRECTORY: &[Form] = &[
    plain("the directory", |_, _| {}),
    short("without a slash", |ask, _| ask.without_slash()),
    short("HEAD", |ask, _| head(ask)),
    short("sorted by time", |ask, _| ask.append("?C=M;O=D")),
    short("without a slash, with a query", |ask, _| (ask.without_slash(), ask.append("?a=b")).1),
    short("compressed by gzip", |ask, _| ask.set("Accept-Encoding", "gzip")),
    short("a name that is not there", |ask, _| ask.append("no-such-name")),
    short("below a name that is not there", |ask, _| ask.append("no-such-name/x/y.html")),
    long("sorted by size", |ask, _| ask.append("?C=S;O=A")),
    long("as plain text", |ask, _| ask.append("?F=0")),
    long("some of it", |ask, _| ask.append("?P=*.html")),
    long("sorted by what is no column", |ask, _| ask.append("?C=X;O=Y")),
    long("OPTIONS", |ask, _| ask.method = "OPTIONS".to_owned()),
    long("OPTIONS of the server", |ask, _| {
        ask.method = "OPTIONS".to_owned();
        ask.target = b"*".to_vec();
    }),
    long("TRACE", |ask, _| ask.method = "TRACE".to_owned()),
    long("PROPFIND", |ask, _| (ask.method = "PROPFIND".to_owned(), ask.set("Depth", "0")).1),
    long("two slashes", |ask, _| ask.append("/")),
    long("itself", |ask, _| ask.append("./")),
    long("the directory above", |ask, _| ask.append("../")),
    long("something hidden", |ask, _| ask.append(".htaccess")),
    long("the passwords", |ask, _| ask.append(".htpasswd")),
    long("a repository", |ask, _| ask.append(".git/config")),
    long("a script that is not there", |ask, _| ask.append("no-such-name.php")),
    long("a range", |ask, _| ask.set("Range", "bytes=0-9")),
    long("no host", |ask, _| ask.host = None),
    long("an empty host", |ask, _| ask.host = Some(String::new())),
    long("a malformed host", |ask, _| ask.host = Some("a/b".to_owned())),
    long("two hosts", |ask, _| ask.set("Host", "other.example")),
    long("HTTP/1.0 without Host, without a slash", |ask, _| {
        ask.without_slash();
        (ask.minor, ask.host) = (0, None);
    }),
    long("a very long name", |ask, _| ask.append(&"x".repeat(300))),
];

fn head(ask: &mut Ask) {
    ask.method = "HEAD".to_owned();
}

/// The fields that browsers send.
fn browser(ask: &mut Ask) {
    for (name, value) in [
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
        ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("Accept-Language", "de,en-US;q=0.7,en;q=0.3"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("Connection", "keep-alive"),
        ("Upgrade-Insecure-Requests", "1"),
        ("Priority", "u=0, i"),
    ] {
        ask.set(name, value);
    }
}

/// A name whose first letter is escaped.
fn escaped_first(name: &str) -> String {
    match name.bytes().next().filter(u8::is_ascii_alphanumeric) {
        Some(first) => format!("%{first:02x}{}", &name[1..]),
        None => name.to_owned(),
    }
}

/// A moment as HTTP writes it.
fn date(seconds: i64) -> String {
    let moment = Timestamp::from_second(seconds).unwrap_or_default();
    moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::ask::tests::ask;

    #[test]
    fn forms_change_the_target() {
        let entry = crate::switch::sources::walk::tests::file("/srv/www/a/b.html", 10, 784_111_777);
        let made = |what: &str| {
            let form = FILE.iter().chain(DIRECTORY).find(|form| form.what == what).expect(what);
            let mut ask = ask("GET /a/b.html");
            (form.change)(&mut ask, &entry);
            String::from_utf8(ask.bytes(None)).unwrap().split("\r\n").map(str::to_owned).collect::<Vec<_>>()
        };
        for (what, line) in [
            ("two slashes", "GET /a//b.html HTTP/1.1"),
            ("an escaped letter", "GET /a/%62.html HTTP/1.1"),
            ("in upper case", "GET /a/B.HTML HTTP/1.1"),
            ("above the root", "GET /../../../a/b.html HTTP/1.1"),
            ("with the host in the target", "GET http://localhost/a/b.html HTTP/1.1"),
            ("without a slash in front", "GET a/b.html HTTP/1.1"),
            ("HTTP/1.0 without Host", "GET /a/b.html HTTP/1.0"),
        ] {
            assert_eq!(made(what)[0], line, "{what}");
        }
        assert_eq!(made("not modified since")[2], "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(made("a range beyond its end")[2], "Range: bytes=10-");
        assert_eq!(made("HTTP/1.0 without Host")[1], "", "no field is left");
    }

    #[test]
    fn each_form_is_another_request() {
        let entry = crate::switch::sources::walk::tests::file("/srv/www/a/b.html", 10, 784_111_777);
        for (forms, line) in [(FILE, "GET /a/b.html"), (DIRECTORY, "GET /a/")] {
            let mut known = std::collections::BTreeMap::new();
            for form in forms {
                let mut ask = ask(line);
                (form.change)(&mut ask, &entry);
                let other = known.insert(ask.bytes(None), form.what);
                assert_eq!(other, None, "{} is the same request", form.what);
            }
        }
    }
}
