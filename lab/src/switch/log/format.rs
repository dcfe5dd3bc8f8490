//! Reads lines of a log whose `LogFormat` is known.
//!
//! A line is read in one pass, without trying again: the text between two directives ends the value before it. Where
//! that text begins with a quote, an escaped quote belongs to the value.

use jiff::tz::TimeZone;
use memchr::memchr;
use memchr::memmem::{self, Finder};

use crate::switch::log::directive::{self, Item, Unreadable, Value};
use crate::switch::log::escape;
use crate::switch::log::logged::{self, Found, Logged};

/// A format, ready to read lines.
#[derive(Debug)]
pub(crate) struct LogFormat {
    steps: Vec<Step>,
    /// Where times without an offset are meant.
    zone: TimeZone,
}

/// What to do with the rest of a line.
#[derive(Debug)]
enum Step {
    /// It begins with this.
    Literal(Vec<u8>),
    /// It begins with a value that ends there.
    Value(Value, End),
}

/// Where a value ends.
#[derive(Debug)]
enum End {
    /// With the line.
    Line,
    /// Before a quote that is not escaped.
    Quote,
    /// Before this text.
    Literal(Box<Finder<'static>>),
    /// Where its own characters end, but within the value that it shares this end with.
    Own(Box<End>),
}

impl LogFormat {
    /// A format as `LogFormat` and `CustomLog` have it, without the quotes and backslashes of the configuration.
    pub(crate) fn compile(format: &str) -> Result<Self, Unreadable> {
        let items = directive::parse(format)?;
        let names_target = |item: &Item| matches!(item, Item::Value(Value::RequestLine | Value::Path));
        if !items.iter().any(names_target) {
            return Err(Unreadable::NoTarget);
        }
        Ok(Self { steps: steps(items), zone: TimeZone::system() })
    }

    /// What a line, without its end, says; `None` if it is not of this format.
    pub(crate) fn read<'a>(&'a self, line: &'a [u8]) -> Option<Logged<'a>> {
        let mut found = Found::default();
        let mut rest = line;
        for step in &self.steps {
            rest = match step {
                Step::Literal(text) => rest.strip_prefix(text.as_slice())?,
                Step::Value(Value::Time(form), _) => &rest[found.clock.read(form, rest)?..],
                Step::Value(value, end) => {
                    let (text, after) = rest.split_at(end.find(value, rest)?);
                    found.take(value, text)?;
                    after
                }
            };
        }
        rest.is_empty().then(|| found.finish(&self.zone))
    }
}

/// Each value's end depends on what follows: the steps are made from the last to the first.
fn steps(items: Vec<Item>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::with_capacity(items.len());
    let mut following = None;
    for item in items.into_iter().rev() {
        match item {
            Item::Literal(text) => {
                following = Some(text.clone());
                steps.push(Step::Literal(text));
            }
            Item::Value(value) => {
                let end = End::before(following.as_deref());
                let is_adjacent = matches!(steps.last(), Some(Step::Value(..)));
                steps.push(Step::Value(value, if is_adjacent { End::Own(Box::new(end)) } else { end }));
            }
        }
    }
    steps.reverse();
    steps
}

impl End {
    fn before(following: Option<&[u8]>) -> Self {
        match following {
            None => Self::Line,
            Some([b'"', ..]) => Self::Quote,
            Some(text) => Self::Literal(Box::new(Finder::new(text).into_owned())),
        }
    }

    /// The length of the value at the beginning of `rest`.
    fn find(&self, value: &Value, rest: &[u8]) -> Option<usize> {
        match self {
            Self::Line => Some(rest.len()),
            // Apache logs a user with an empty name as two quotes.
            Self::Quote if *value == Value::User && rest.starts_with(b"\"\"") => Some(2),
            Self::Quote => escape::closing_quote(rest),
            Self::Literal(text) => {
                let first = text.find(rest)?;
                // A request line without quotes may have the text in itself: a space.
                match *value == Value::RequestLine && &rest[..first] != b"-" {
                    true => end_of_request_line(text, rest).or(Some(first)),
                    false => Some(first),
                }
            }
            Self::Own(shared) => Some(own_length(value, &rest[..shared.find(value, rest)?])),
        }
    }
}

/// Where a request line ends that no quotes enclose.
fn end_of_request_line(following: &Finder<'static>, rest: &[u8]) -> Option<usize> {
    let version = memmem::find(rest, b" HTTP/")? + b" HTTP/".len();
    Some(version + following.find(&rest[version..])?)
}

/// The length of the value at the beginning of `text` if other values follow it directly.
fn own_length(value: &Value, text: &[u8]) -> usize {
    let while_of = |is_part: fn(&u8) -> bool| text.iter().take_while(|byte| is_part(byte)).count();
    match value {
        Value::Path => memchr(b'?', text).unwrap_or(text.len()),
        Value::Method => while_of(logged::is_token_char),
        Value::Status | Value::OriginalStatus => text.len().min(if text.starts_with(b"-") { 1 } else { 3 }),
        Value::Port | Value::LocalPort | Value::Bytes | Value::Sent | Value::Duration(_) | Value::Number => {
            match text.starts_with(b"-") {
                true => 1,
                false => while_of(u8::is_ascii_digit),
            }
        }
        _ => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const COMBINED: &str = r#"%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#;
    /// Microseconds since 1970 of `10/Oct/2000:13:55:36 -0700`.
    const TIME: i64 = 971_211_336_000_000;

    fn text(bytes: &[u8]) -> String {
        bytes.escape_ascii().to_string()
    }

    /// All that a line says, as one text, or `none`. Quotes and backslashes of values are escaped.
    fn read(format: &str, line: &[u8]) -> String {
        let format = LogFormat::compile(format).unwrap();
        let Some(logged) = format.read(line) else { return "none".to_owned() };
        let request = logged.request.as_ref().map(|request| {
            let version = request.version.unwrap_or(b"-");
            format!("{} {} {}", text(request.method), text(&request.target), text(version))
        });
        let mut told = vec![request.unwrap_or("?".to_owned())];
        let mut tell = |name: &str, value: Option<String>| told.extend(value.map(|value| format!("{name}={value}")));
        tell("host", logged.host.as_deref().map(text));
        tell("port", logged.port.map(|port| port.to_string()));
        tell("client", logged.client.map(|client| client.to_string()));
        tell("user", logged.user.as_deref().map(text));
        logged.fields.iter().for_each(|(name, value)| tell(name, Some(text(value))));
        tell("status", logged.status.map(|status| status.to_string()));
        tell("original", logged.original_status.map(|status| status.to_string()));
        tell("bytes", logged.bytes.map(|bytes| bytes.to_string()));
        tell("sent", logged.sent.map(|sent| sent.to_string()));
        tell("time", logged.time.map(|time| (time - TIME).to_string()));
        tell("duration", logged.duration.map(|duration| format!("{duration:?}")));
        told.join(" ")
    }

    #[test]
    fn combined_lines_are_read() {
        // What stands for the request, its status and the fields, and what is read of them.
        let cases = [
            (r#""GET /a?b HTTP/1.1" 200 2326 "-" "curl/8""#, "GET /a?b 1.1 User-Agent=curl/8 status=200 sent=2326"),
            (
                r#""GET /\"\\\xe9 HTTP/2.0" 304 0 "" "a \"b\" c\\""#,
                r#"GET /\"\\\xe9 2.0 Referer= User-Agent=a \"b\" c\\ status=304 sent=0"#,
            ),
            (r#""GET /" 200 1 "-" "-""#, "GET / - status=200 sent=1"),
            (r#""GET /a b" 400 1 "-" "-""#, "GET /a b - status=400 sent=1"),
            (r#""GET /a b HTTP/1.1" 400 1 "-" "-""#, "GET /a b 1.1 status=400 sent=1"),
            (r#""GET /\r\nX: y HTTP/1.1" 400 1 "-" "-""#, r"GET /\r\nX: y 1.1 status=400 sent=1"),
            (r#""OPTIONS * HTTP/1.0" 200 1 "-" "-""#, "OPTIONS * 1.0 status=200 sent=1"),
            (r#""GET http://u:XX@h/x?y HTTP/1.1" 400 1 "-" "-""#, "GET http://u:XX@h/x?y 1.1 status=400 sent=1"),
            // What is no request.
            (r#""-" 408 - "-" "-""#, "? status=408"),
            (r#""" - 0 "-" "-""#, "? sent=0"),
            (r#""\x16\x03\x01 / HTTP/1.1" 400 0 "-" "-""#, "? status=400 sent=0"),
            (r#""GET  HTTP/1.1" 400 0 "-" "-""#, "? status=400 sent=0"),
            // What is not of this format.
            (r#""GET / HTTP/1.1" 200 2326"#, "none"),
            (r#""GET / HTTP/1.1" 200 2326 "-" "curl"#, "none"),
            (r#""GET / HTTP/1.1" 200 2326 "-" "curl\""#, "none"),
            (r#""GET / HTTP/1.1" 200 2326 "-" "curl" 17"#, "none"),
            (r#""GET /" HTTP/1.1" 200 2326 "-" "curl""#, "none"),
            (r#""GET / HTTP/1.1" 2000 2326 "-" "curl""#, "none"),
            (r#""GET / HTTP/1.1" 200 x "-" "curl""#, "none"),
            (r#""GET / HTTP/1.1" 200 99999999999999999999 "-" "curl""#, "none"),
        ];
        for (line, expected) in cases {
            let line = format!("- - - [10/Oct/2000:13:55:36 -0700] {line}");
            let expected = if expected == "none" { expected.to_owned() } else { format!("{expected} time=0") };
            assert_eq!(read(COMBINED, line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn clients_and_users_are_read() {
        let cases = [
            ("::1 - u", "client=::1 user=u"),
            ("h.example - John Doe", "user=John Doe"),
            (r#"1.2.3.4 - """#, "client=1.2.3.4 user="),
            (r#"1.2.3.4 - \"\xe9"#, r#"client=1.2.3.4 user=\"\xe9"#),
        ];
        for (line, expected) in cases {
            let line = format!(r#"{line} [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1 "-" "-""#);
            assert_eq!(read(COMBINED, line.as_bytes()), format!("GET / 1.1 {expected} status=200 sent=1 time=0"));
        }
    }

    #[test]
    fn hostile_lines_are_not_read() {
        let repeated = |piece: &[u8]| piece.repeat(100_000);
        let lines = [
            vec![],
            b"\0\xff\x01\"\"\"".to_vec(),
            repeated(br#"\""#),
            repeated(b"\""),
            repeated(b" ["),
            repeated(b"- "),
            [br#"- - - [10/Oct/2000:13:55:36 -0700] ""#.to_vec(), repeated(br"\")].concat(),
            br#"- - - [10/Foo/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1 "-" "curl""#.to_vec(),
            br#"- - - [] "GET / HTTP/1.1" 200 1 "-" "curl""#.to_vec(),
        ];
        for line in lines {
            assert_eq!(read(COMBINED, &line), "none", "{}", text(&line[..line.len().min(100)]));
        }
    }

    #[test]
    fn other_formats_are_read() {
        let cases: [(&str, &[u8], &str); 24] = [
            (
                r#"%v:%p %h %l %u %t "%r" %>s %b"#,
                br#"a.example:443 ::1 - - [10/Oct/2000:13:55:36 -0700] "HEAD / HTTP/1.1" 200 -"#,
                "HEAD / 1.1 host=a.example port=443 client=::1 status=200 time=0",
            ),
            (
                r#"{"host":"%V","request":"%r","ua":"%{User-agent}i","u":"%u"}"#,
                br#"{"host":"a","request":"GET /\"x HTTP/1.1","ua":"a\"}","u":""""}"#,
                r#"GET /\"x 1.1 host=a user= User-agent=a\"}"#,
            ),
            (r"%h\t%r\t%s", b"::1\tGET / HTTP/1.1\t200", "GET / 1.1 client=::1 status=200 original=200"),
            ("%r|%b|%B|%O", b"GET / HTTP/1.1|17|17|217", "GET / 1.1 bytes=17 sent=217"),
            // Several directives for one thing.
            ("%{Host}i %V %v %r", b"- x y GET / HTTP/1.0", "GET / 1.0 host=x"),
            ("%v %{host}i %V %r", b"y h:8080 x GET / HTTP/1.0", "GET / 1.0 host=h:8080"),
            ("%r|%{X}i|%!200{Y}i|%400,501{Z}i", b"GET / HTTP/1.0|1|-|3", "GET / 1.0 X=1 Z=3"),
            ("%{c}a %a %p %{local}p %r", b"::1 ::2 80 8080 GET / HTTP/1.0", "GET / 1.0 port=8080 client=::2"),
            ("%T %D %{ms}T %r", b"1 1234567 1234 GET / HTTP/1.1", "GET / 1.1 duration=1.234567s"),
            // Request lines without quotes.
            ("%h %r %>s %<s", b"::1 GET /a HTTP/1.1 200 302", "GET /a 1.1 client=::1 status=200 original=302"),
            ("%h %r %>s", b"::1 - 408", "? client=::1 status=408"),
            ("%h %r %>s %{Via}i", b"::1 - 408 x HTTP/1 ", "? client=::1 Via=x HTTP/1  status=408"),
            ("%s %r", b"404 GET /a HTTP/1.1", "GET /a 1.1 status=404 original=404"),
            // Decoded paths.
            ("%m %U%q %H", br#"GET /a b/\xe9%2F?c=\"?d HTTP/1.1"#, r#"GET /a%20b/%E9%2F?c=\"?d 1.1"#),
            ("%m %U%q %H %s", b"GET / HTTP/1.1 200", "GET / 1.1 status=200 original=200"),
            (r#""%m","%U","%q","%H""#, br#""PUT","/a?b","?c","HTTP/1.0""#, "PUT /a%3Fb?c 1.0"),
            ("%{Referer}i -> %U", b"http://r/ -> /x", "GET /x - Referer=http://r/"),
            ("%m %U", b"OPTIONS *", "OPTIONS * -"),
            ("%m %U", b"- -", "?"),
            ("%m %U", br"\x16 /", "?"),
            ("%m %U", b"GET x", "?"),
            // Directives without text between them.
            ("%>s%m%U%q", b"200GET/a?b", "GET /a?b - status=200"),
            ("%b%{sec}t%{usec_frac}t%r", b"-0971211336000007GET / HTTP/1.1", "GET / 1.1 time=7"),
            (
                "%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t %r %X|%k|%I|%^FB%%",
                b"10/Oct/2000 13:55:36.789 -0700 GET / HTTP/1.1 +|0|11|-%",
                "GET / 1.1 time=789000",
            ),
        ];
        for (format, line, expected) in cases {
            assert_eq!(read(format, line), expected, "{format}");
        }
    }

    /// Two lines that Apache 2.4.71 wrote: for a request with all it escapes, and for a handshake of TLS.
    #[test]
    fn lines_of_apache_itself_are_read() {
        let format = concat!(
            r#"R="%r" H=%H m=%m U=%U q=%q s=%s >s=%>s p=%p lp=%{local}p v=%v V=%V host=%{Host}i ua="%{User-Agent}i" "#,
            r#"u=%u t=%t f=%f k=%k X=%X T=%T ms=%{ms}T D=%D b=%b B=%B O=%O I=%I L=%L R=%R FB=%^FB "#,
            r#"frac=%{msec_frac}t sec=%{sec}t iso=%{%Y-%m-%dT%H:%M:%S%z}t c=%{%c}t l="\"" tab=\tx ti=%{x}^ti a=%a ca=%{c}a"#
        );
        let cases: [(&[u8], &str); 2] = [
            (
                concat!(
                    r#"R="GET /a%20b%3Fc?d=e\"f HTTP/1.1" H=HTTP/1.1 m=GET U=/a b?c q=?d=e\"f s=404 >s=404 p=80 lp=38471 "#,
                    r#"v=canon.example V=ex.example host=ex.example:38471 ua="a\"b\\c\te\xe9" u=- "#,
                    "t=[30/Nov/2026:18:20:34 +0000] f=/docs/a b?c k=0 X=- T=0 ms=0 D=434 b=236 B=236 O=416 I=99 L=- ",
                    "R=- FB=- frac=518 sec=1796062834 iso=2026-11-30T18:20:34+0000 c=Mon Nov 30 18:20:34 2026 ",
                    "l=\"\\\"\" tab=\tx ti=- a=127.0.0.1 ca=127.0.0.1",
                )
                .as_bytes(),
                concat!(
                    r#"GET /a%20b%3Fc?d=e\"f 1.1 host=ex.example:38471 port=38471 client=127.0.0.1 "#,
                    r#"User-Agent=a\"b\\c\te\xe9 status=404 original=404 bytes=236 sent=416 time=824851498518000 duration=434µs"#
                ),
            ),
            (
                concat!(
                    r#"R="\x16\x03\x01\x02" H=HTTP/1.0 m=- U=- q= s=400 >s=400 p=80 lp=38471 "#,
                    r#"v=canon.example V=canon.example host=- ua="-" u=- "#,
                    "t=[30/Nov/2026:18:20:34 +0000] f=- k=0 X=- T=0 ms=0 D=14 b=266 B=266 O=448 I=7 L=- ",
                    "R=- FB=- frac=519 sec=1796062834 iso=2026-11-30T18:20:34+0000 c=Mon Nov 30 18:20:34 2026 ",
                    "l=\"\\\"\" tab=\tx ti=- a=127.0.0.1 ca=127.0.0.1",
                )
                .as_bytes(),
                concat!(
                    "? host=canon.example port=38471 client=127.0.0.1 status=400 original=400 bytes=266 sent=448 ",
                    "time=824851498519000 duration=14µs"
                ),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(read(format, line), expected);
        }
    }

    #[test]
    fn values_without_escapes_are_not_copied() {
        let format = LogFormat::compile(COMBINED).unwrap();
        let line = br#"::1 - u [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 1 "r" "u""#;
        let logged = format.read(line).unwrap();
        assert!(matches!(logged.request.unwrap().target, Cow::Borrowed(_)));
        assert!(logged.fields.iter().all(|(_, value)| matches!(value, Cow::Borrowed(_))));
    }

    #[test]
    fn a_format_must_tell_the_target() {
        for format in ["", "%h %t", "%{User-agent}i", "%f", "%m %>U", "%q"] {
            assert_eq!(LogFormat::compile(format).err(), Some(Unreadable::NoTarget), "{format}");
        }
        assert!(Unreadable::NoTarget.to_string().contains("%r"));
    }

    #[test]
    fn no_line_makes_a_format_panic() {
        let formats = [COMBINED, "%U%q%r%s%{sec}t%{msec_frac}t%t", "%r%r %200t%{%c %Z}t", r#"%u"%U"%p%D"#];
        let pieces: [&[u8]; 9] =
            [b"\"", b"\\", b" ", b"[", b"-", b"\xff", b"1", b"10/Oct/2000:13:55:36 -0700", b"GET / HTTP/1.1"];
        let mut seed = 1_u64;
        for format in formats.map(|format| LogFormat::compile(format).unwrap()) {
            for _ in 0..20_000 {
                let mut line = Vec::new();
                for _ in 0..12 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    line.extend_from_slice(pieces[(seed >> 33) as usize % pieces.len()]);
                }
                let _ = format.read(&line);
            }
        }
    }
}
