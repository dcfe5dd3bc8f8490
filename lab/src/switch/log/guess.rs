//! Guesses the format of a log that is named without one.

use std::net::IpAddr;

use crate::switch::log::escape;
use crate::switch::log::format::LogFormat;
use crate::switch::log::logged::Logged;

/// A format that reads at least half of the lines it was guessed from.
#[derive(Debug)]
pub(crate) struct Guess {
    /// For messages: a name like `combined`, or `JSON`.
    pub name: &'static str,
    /// As in `LogFormat`.
    pub text: String,
    /// Reads lines.
    pub format: LogFormat,
}

/// The well-known formats. `SIZE` is `%b` or `%O`, which look alike. Those with more in front come first: what is behind
/// would be taken for a part of the user's name.
const KNOWN: [(&str, &str); 7] = [
    ("vhost_combined", r#"%v:%p %h %l %u %t "%r" %>s SIZE "%{Referer}i" "%{User-Agent}i""#),
    ("vhost_common", r#"%v:%p %h %l %u %t "%r" %>s SIZE"#),
    ("common with the virtual host", r#"%v %h %l %u %t "%r" %>s SIZE"#),
    ("combined with the virtual host", r#"%v %h %l %u %t "%r" %>s SIZE "%{Referer}i" "%{User-Agent}i""#),
    ("combined", r#"%h %l %u %t "%r" %>s SIZE "%{Referer}i" "%{User-Agent}i""#),
    ("common", r#"%h %l %u %t "%r" %>s SIZE"#),
    ("combined and more", r#"%h %l %u %t "%r" %>s SIZE "%{Referer}i" "%{User-Agent}i" %{MORE}n"#),
];

/// The directives for the usual keys of logs in JSON, in lower case and without what separates words.
const KEYS: [(&str, &[&str]); 16] = [
    ("%r", &["request", "requestline", "firstline"]),
    ("%m", &["method", "requestmethod", "httpmethod", "verb"]),
    ("%U%q", &["uri", "url", "path", "requesturi", "requesturl", "requestpath", "uripath", "target"]),
    ("%q", &["query", "querystring", "requestquery", "args"]),
    ("%H", &["protocol", "requestprotocol", "httpversion", "serverprotocol"]),
    ("%>s", &["status", "statuscode", "httpstatus", "responsecode", "response", "code"]),
    ("%V", &["host", "httphost", "vhost", "virtualhost", "servername", "domain", "site"]),
    ("%p", &["port", "serverport"]),
    ("%a", &["client", "clientip", "ip", "remoteip", "remoteaddr", "remotehost", "remoteaddress", "clientaddr"]),
    ("%u", &["user", "remoteuser", "username", "authuser"]),
    ("%{Referer}i", &["referer", "referrer", "httpreferer", "httpreferrer"]),
    ("%{User-Agent}i", &["useragent", "agent", "ua", "httpuseragent"]),
    ("%{Accept}i", &["accept", "httpaccept"]),
    ("%{Accept-Language}i", &["acceptlanguage", "httpacceptlanguage"]),
    ("%{Accept-Encoding}i", &["acceptencoding", "httpacceptencoding"]),
    ("%{Cookie}i", &["cookie", "cookies", "httpcookie"]),
];

/// Keys for the time, which is written in one of many ways.
const TIME_KEYS: [&str; 7] = ["time", "timestamp", "date", "datetime", "ts", "timelocal", "requesttime"];

/// Ways to write the time.
const TIMES: [&str; 9] = [
    "%t",
    "%{%d/%b/%Y:%H:%M:%S %z}t",
    "%{%Y-%m-%dT%H:%M:%S%z}t",
    "%{%Y-%m-%dT%H:%M:%S%:z}t",
    "%{%Y-%m-%dT%H:%M:%S%Z}t",
    "%{%Y-%m-%dT%H:%M:%S}t.%{msec_frac}t%{%Z}t",
    "%{%Y-%m-%dT%H:%M:%S}t.%{usec_frac}t%{%z}t",
    "%{%Y-%m-%d %H:%M:%S}t",
    "%{%Y-%m-%dT%H:%M:%S}t",
];

/// What nobody reads.
const OTHER: &str = "%{OTHER}n";

/// A number that nobody reads.
const NUMBER: &str = "%S";

/// The most lines that are looked at.
const SAMPLE: usize = 200;

/// The format of which most of these lines are; `None` if no known format reads half of them.
pub(crate) fn guess<'l>(lines: impl IntoIterator<Item = &'l [u8]>) -> Option<Guess> {
    let lines: Vec<&[u8]> = lines.into_iter().filter(|line| !line.is_empty()).take(SAMPLE).collect();
    let json = lines.iter().find_map(|line| json_format(line)).map(|format| ("JSON", format));
    let known = KNOWN.iter().map(|(name, text)| (*name, text.replace("SIZE", size(&lines))));
    let mut best: Option<(usize, Guess)> = None;
    for (name, text) in json.into_iter().chain(known) {
        let Ok(format) = LogFormat::compile(&text) else { continue };
        let read: Vec<Logged<'_>> = lines.iter().filter_map(|line| format.read(line)).collect();
        // Where the client is an address, the parts before the time are what they seem to be.
        let rank = read.len() + read.iter().filter(|logged| logged.client.is_some()).count();
        let is_format = !read.is_empty() && read.len() * 2 >= lines.len();
        if is_format && best.as_ref().is_none_or(|(most, _)| rank > *most) {
            best = Some((rank, Guess { name, text, format }));
        }
    }
    best.map(|(_, guess)| guess)
}

/// Whether the lines of a well-known format have `%b` or `%O`: `%b` writes `-` if there is no body, where `%O` counts the
/// head. If no line shows it, neither is read.
fn size(lines: &[&[u8]]) -> &'static str {
    let format = |size| LogFormat::compile(&format!(r#"%{{OTHER}}n "%r" %>s {size}%{{OTHER}}n"#));
    let (Ok(body), Ok(sent)) = (format("%b"), format("%O")) else { return NUMBER };
    let has_no_body = |status| matches!(status, Some(204 | 304));
    let is_body = |line: &&[u8]| body.read(line).is_some_and(|logged| logged.bytes.is_none());
    let is_sent =
        |line: &&[u8]| sent.read(line).is_some_and(|logged| has_no_body(logged.status) && logged.sent > Some(0));
    match () {
        () if lines.iter().any(is_body) => "%b",
        () if lines.iter().any(is_sent) => "%O",
        () => NUMBER,
    }
}

/// The format of a line that is an object in JSON: its keys are text, its values become directives.
///
/// The line is not read as JSON, which has no `\xhh`: Apache's escapes may stand in the values.
fn json_format(line: &[u8]) -> Option<String> {
    let mut rest = line.strip_prefix(b"{")?;
    let mut format = "{".to_owned();
    let mut key = "";
    while let Some(&first) = rest.first() {
        let length = match first {
            b'"' => {
                let text = &rest[1..=escape::closing_quote(&rest[1..])?];
                let after = &rest[text.len() + 2..];
                if after.trim_ascii_start().starts_with(b":") {
                    key = std::str::from_utf8(text).ok()?;
                    format.push_str(&format!("\"{}\"", key.replace('\\', "\\\\").replace('%', "%%")));
                } else {
                    format.push_str(&format!("\"{}\"", directive(key, text)));
                }
                text.len() + 2
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\t' => {
                format.push(char::from(first));
                1
            }
            // A number, `true`, `false`, `null`, or what a directive left there.
            _ => {
                let length = rest.iter().position(|byte| b",]} ".contains(byte)).unwrap_or(rest.len());
                format.push_str(&directive(key, &rest[..length]));
                length
            }
        };
        rest = &rest[length..];
    }
    Some(format)
}

/// The directive for the value of a key.
fn directive(key: &str, value: &[u8]) -> String {
    let key: String = key.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect();
    if TIME_KEYS.contains(&key.as_str()) {
        return time_format(value).unwrap_or(OTHER).to_owned();
    }
    let known = KEYS.iter().find(|(_, keys)| keys.contains(&key.as_str()));
    let is_address = || std::str::from_utf8(value).is_ok_and(|value| value.parse::<IpAddr>().is_ok());
    match known.map(|(directive, _)| *directive) {
        // `host` may be the client's, as in `%h`.
        Some("%V") if is_address() => "%a".to_owned(),
        Some("%>s") if value.len() != 3 => OTHER.to_owned(),
        Some(directive) => directive.to_owned(),
        None => OTHER.to_owned(),
    }
}

fn time_format(value: &[u8]) -> Option<&'static str> {
    let seconds = [("%{sec}t", 10), ("%{msec}t", 13), ("%{usec}t", 16)];
    if value.iter().all(u8::is_ascii_digit) {
        return seconds.iter().find(|(_, digits)| value.len() == *digits).map(|(format, _)| *format);
    }
    let line = [b"/|", value].concat();
    let reads = |time: &&&str| {
        let format = LogFormat::compile(&format!("%U|{time}"));
        format.is_ok_and(|format| format.read(&line).is_some_and(|logged| logged.time.is_some()))
    };
    TIMES.iter().find(reads).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "[10/Oct/2000:13:55:36 -0700]";

    /// The name of the guess and its text.
    fn guessed(lines: &[String]) -> Option<(&'static str, String)> {
        guess(lines.iter().map(String::as_bytes)).map(|guess| (guess.name, guess.text))
    }

    #[test]
    fn well_known_formats_are_guessed() {
        let cases = [
            ("combined", format!(r#"::1 - - {AT} "GET / HTTP/1.1" 200 17 "-" "curl""#)),
            ("combined", format!(r#"1.2.3.4 - John Doe {AT} "GET / HTTP/1.1" 200 17 "-" "curl""#)),
            ("combined", format!(r#"h.example - joe {AT} "GET / HTTP/1.1" 200 17 "-" "curl""#)),
            ("combined and more", format!(r#"::1 - - {AT} "GET / HTTP/1.1" 200 17 "-" "curl" 88 "x""#)),
            ("common", format!(r#"1.2.3.4 - - {AT} "GET / HTTP/1.1" 200 17"#)),
            ("vhost_combined", format!(r#"a.example:443 ::1 - - {AT} "GET / HTTP/1.1" 200 17 "-" "curl""#)),
            ("vhost_common", format!(r#"a.example:443 ::1 - - {AT} "GET / HTTP/1.1" 200 17"#)),
            ("common with the virtual host", format!(r#"a.example ::1 - - {AT} "GET / HTTP/1.1" 200 17"#)),
            ("combined with the virtual host", format!(r#"a.example ::1 - - {AT} "GET / HTTP/1.1" 200 17 "-" "curl""#)),
        ];
        for (name, line) in cases {
            assert_eq!(guessed(std::slice::from_ref(&line)).map(|(name, _)| name), Some(name), "{line}");
        }
    }

    #[test]
    fn the_size_shows_what_it_counts() {
        let line = |status, size| format!(r#"::1 - - {AT} "GET / HTTP/1.1" {status} {size}"#);
        let cases = [
            (vec![line(200, "17"), line(304, "180")], "%O"),
            (vec![line(200, "17"), line(304, "-")], "%b"),
            (vec![line(200, "17")], NUMBER),
        ];
        for (lines, size) in cases {
            let (_, text) = guessed(&lines).unwrap();
            assert!(text.ends_with(&format!("%>s {size}")), "{text}");
        }
    }

    #[test]
    fn what_is_no_log_is_not_guessed() {
        let line = format!(r#"::1 - - {AT} "GET / HTTP/1.1" 200 17"#);
        let noise = |count| std::iter::repeat_n("noise".to_owned(), count);
        assert_eq!(guessed(&[]), None);
        assert_eq!(guessed(&["{".to_owned(), "{\"a\":".to_owned(), "{\"request".to_owned()]), None);
        assert_eq!(guessed(&["{\"status\":200}".to_owned()]), None);
        assert!(guessed(&[line.clone()].into_iter().chain(noise(1)).collect::<Vec<_>>()).is_some());
        assert!(guessed(&[line].into_iter().chain(noise(2)).collect::<Vec<_>>()).is_none());
    }

    #[test]
    fn lines_of_json_are_guessed() {
        let time = "2000-10-10T13:55:36-0700";
        let cases = [
            (
                format!(r#"{{"time":"{time}", "host":"::1","request":"GET /\"\xe9 HTTP/1.1","status":200,"ua":"x"}}"#),
                r#"{"time":"%{%Y-%m-%dT%H:%M:%S%z}t", "host":"%a","request":"%r","status":%>s,"ua":"%{User-Agent}i"}"#,
            ),
            (
                r#"{"@timestamp":"2000-10-10T20:55:36.123Z","http":{"method":"GET","uri":"/a?b"},"host":"a","n":-1.5}"#
                    .to_owned(),
                concat!(
                    r#"{"@timestamp":"%{%Y-%m-%dT%H:%M:%S}t.%{msec_frac}t%{%Z}t","http":{"method":"%m","uri":"%U%q"},"#,
                    r#""host":"%V","n":%{OTHER}n}"#
                ),
            ),
            (
                format!(r#"{{"ts":1796062834518,"time":"{AT}","100%\d":[1],"url":"/"}}"#),
                r#"{"ts":%{msec}t,"time":"%t","100%%\\d":[%{OTHER}n],"url":"%U%q"}"#,
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(guessed(std::slice::from_ref(&line)), Some(("JSON", expected.to_owned())), "{line}");
        }
    }
}
