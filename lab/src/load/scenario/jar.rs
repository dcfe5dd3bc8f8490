//! The cookies of a user (RFC 6265). Pure, but for the clock.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::Server;

/// How many cookies a user keeps: the oldest give way. RFC 6265 section 6.1 asks for 50.
const COOKIES_MAX: usize = 50;
/// The longest cookie, name and value, in bytes; longer ones are not kept.
const COOKIE_MAX: usize = 4096;

/// What a user has been given.
#[derive(Debug, Default)]
pub(super) struct Jar(Vec<Cookie>);

#[derive(Debug)]
struct Cookie {
    name: String,
    value: String,
    path: String,
    is_secure: bool,
    until: Option<Instant>,
}

impl Jar {
    /// Takes a `Set-Cookie` field from the response to a request for `path`.
    pub(super) fn set(&mut self, field: &str, path: &str, server: &Server, now: Instant) {
        let mut parts = field.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return };
        let (name, value) = (name.trim(), value.trim());
        let is_text = |text: &str| !text.contains(|char: char| char.is_ascii_control());
        if name.is_empty() || name.len() + value.len() > COOKIE_MAX || !is_text(name) || !is_text(value) {
            return;
        }
        let mut cookie = Cookie {
            name: name.to_owned(),
            value: value.to_owned(),
            path: default_path(path),
            is_secure: false,
            until: None,
        };
        let (mut expires, mut age) = (None, None);
        for part in parts {
            let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
            let (attribute, value) = (attribute.trim(), value.trim());
            match attribute.to_ascii_lowercase().as_str() {
                "path" if value.starts_with('/') => value.clone_into(&mut cookie.path),
                "secure" => cookie.is_secure = true,
                "domain" if !value.is_empty() && !is_of(&server.host, value) => return,
                "expires" => expires = left_until(value),
                "max-age" => age = value.parse::<i64>().ok(),
                _ => {}
            }
        }
        let left = age.map(|age| Duration::from_secs(age.max(0).cast_unsigned())).or(expires);
        cookie.until = left.and_then(|left| now.checked_add(left));
        self.0.retain(|old| (&old.name, &old.path) != (&cookie.name, &cookie.path));
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        if self.0.len() == COOKIES_MAX {
            self.0.remove(0);
        }
        self.0.push(cookie);
    }

    /// The value of `Cookie` in a request for `path`: those of longer paths first.
    pub(super) fn for_path(&self, path: &str, server: &Server, now: Instant) -> Option<String> {
        let path = path.split('?').next().unwrap_or_default();
        let fits = |cookie: &&Cookie| {
            let is_below = path
                .strip_prefix(cookie.path.as_str())
                .is_some_and(|rest| rest.is_empty() || cookie.path.ends_with('/') || rest.starts_with('/'));
            is_below && (server.is_secure || !cookie.is_secure) && cookie.until.is_none_or(|until| now < until)
        };
        let mut cookies: Vec<&Cookie> = self.0.iter().filter(fits).collect();
        cookies.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> = cookies.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

/// The path of a cookie that does not name one (section 5.1.4).
fn default_path(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    match path.rfind('/') {
        None | Some(0) => "/".to_owned(),
        Some(at) => path[..at].to_owned(),
    }
}

/// Whether a host belongs to a domain.
fn is_of(host: &str, domain: &str) -> bool {
    let (host, domain) = (host.to_ascii_lowercase(), domain.trim_start_matches('.').to_ascii_lowercase());
    host.strip_suffix(&domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// How long it is until a date; `None` if it is none. Older servers write dashes between the parts of the date.
fn left_until(date: &str) -> Option<Duration> {
    let date = rfc2822::DateTimeParser::new().parse_timestamp(date.replace('-', " ")).ok()?;
    Some(Duration::try_from(date.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(is_secure: bool) -> Server {
        Server { is_secure, host: "shop.example.org".to_owned(), port: 80 }
    }

    /// What is sent for `path` after these fields of responses to `/a/b`.
    fn sent(fields: &[&str], path: &str) -> String {
        let (mut jar, now) = (Jar::default(), Instant::now());
        fields.iter().for_each(|field| jar.set(field, "/a/b", &server(false), now));
        jar.for_path(path, &server(false), now).unwrap_or_default()
    }

    #[test]
    fn cookies_belong_to_paths_and_hosts() {
        assert_eq!(sent(&["a=1", "b=2; Path=/", "c = 3 ;path=/a/b/"], "/a/b/c?d"), "c=3; a=1; b=2");
        assert_eq!(sent(&["a=1"], "/ab"), "");
        assert_eq!(sent(&["a=1; Path=/", "a=2; Path=/"], "/"), "a=2");
        assert_eq!(
            sent(&["a=1; Domain=.Example.org; domain=", "b=2; domain=ample.org", "c=3; domain=x.org"], "/a/"),
            "a=1"
        );
        assert_eq!(sent(&["a=1; Secure", "b=2"], "/a/"), "b=2");
        assert_eq!(sent(&["a", "=1", "a=x\ty", &format!("a={}", "x".repeat(COOKIE_MAX))], "/a/"), "");
        let mut jar = Jar::default();
        jar.set("a=1; Secure", "/", &server(true), Instant::now());
        assert_eq!(jar.for_path("/", &server(true), Instant::now()).as_deref(), Some("a=1"));
    }

    #[test]
    fn cookies_end() {
        let past = "Expires=Wed, 21 Oct 2015 07:28:00 GMT";
        for end in ["Max-Age=0", "max-age=-1", past, "expires=Wed, 21-Oct-2015 07:28:00 GMT"] {
            assert_eq!(sent(&["a=1", "b=2", &format!("a=; {end}")], "/a/"), "b=2", "{end}");
        }
        let kept = format!("a=1; Max-Age=100; {past}");
        assert_eq!(sent(&[&kept, "b=2; Expires=soon", "c=3; Max-Age=soon"], "/a/"), "a=1; b=2; c=3");
        let (mut jar, now) = (Jar::default(), Instant::now());
        jar.set("a=1; Max-Age=100", "/", &server(false), now);
        assert!(jar.for_path("/", &server(false), now + Duration::from_secs(99)).is_some());
        assert!(jar.for_path("/", &server(false), now + Duration::from_secs(100)).is_none());
    }

    #[test]
    fn a_jar_has_room_for_so_many() {
        let fields: Vec<String> = (0..=COOKIES_MAX).map(|number| format!("c{number}=x")).collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let sent = sent(&fields, "/a/");
        assert_eq!(sent.split("; ").count(), COOKIES_MAX);
        assert!(sent.starts_with("c1=x; "), "the oldest gives way");
    }
}
