//! A cookie that identifies a browser.
//!
//! Apache manual: mod_usertrack. Doubtful cases were measured on 2.4.71.

use std::sync::Arc;

use conf::directive::Args::{Flag, Take1};
use conf::pattern::{Captures, Flags, Regex};
use conf::values::{atoi, one_of};
use conf::{Allowed, Cmd, Directive, Gathered, ModuleInfo, Outcome, Setting, on_or_off, row, settings};
use server::PhaseHook::Now;
use server::{Flow, Hook, Module, Order, Phase, Request};

use crate::metadata::periods;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "usertrack_module", source: "mod_usertrack.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Phase(Phase::Fixups, Order::ReallyFirst, Now(track))],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("CookieExpires", Allowed::FILEINFO, Take1(set_expires), "", "an expiry date code").differs("In `.htaccess` it has no effect; there Apache changes the whole server."),
    row("CookieDomain", Allowed::FILEINFO, Take1(set_domain), "", "domain to which this cookie applies"),
    row("CookieStyle", Allowed::FILEINFO, Take1(set_style), "Netscape", "'Netscape', 'Cookie' (RFC2109), or 'Cookie2' (RFC2965)"),
    row("CookieTracking", Allowed::FILEINFO, Flag(|c, on| edit(c, |track| track.enabled = on)), on_or_off(false), "whether or not to enable cookies"),
    row("CookieName", Allowed::FILEINFO, Take1(set_name), NAME, "name of the tracking cookie"),
    row("CookieSameSite", Allowed::FILEINFO, Take1(set_same_site), "", "SameSite setting"),
    row("CookieSecure", Allowed::FILEINFO, Flag(|c, on| edit(c, |track| track.secure = on)), on_or_off(false), "is cookie secure"),
    row("CookieHttpOnly", Allowed::FILEINFO, Flag(|c, on| edit(c, |track| track.http_only = on)), on_or_off(false), "is cookie http only"),
];

/// The default name of the cookie.
const NAME: &str = "Apache";

/// The note that logs show (`%{cookie}n`).
const NOTE: &str = "cookie";

settings! {
    /// The module's settings of a section. As in Apache, a section with any of these lines inherits none.
    pub struct UserTrackDir {
        track: Gathered<Track>,
    }
}

settings! {
    /// How long cookies last, in seconds.
    pub struct UserTrackServer {
        expires: Setting<i32>,
    }
}

#[derive(Clone, Debug, Default)]
struct Track {
    enabled: bool,
    style: Style,
    /// The cookie's name, with the pattern that finds it.
    name: Option<(String, Arc<Regex>)>,
    domain: Option<String>,
    same_site: Option<&'static str>,
    secure: bool,
    http_only: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Style {
    #[default]
    Netscape,
    Cookie,
    Cookie2,
}

fn edit(cmd: &mut Cmd<'_>, change: impl FnOnce(&mut Track)) -> Outcome {
    let origin = cmd.origin();
    change(cmd.dir.edit::<UserTrackDir>().track.edit(&origin));
    Ok(())
}

fn set_expires(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let seconds = if digit(text.as_bytes().first()) && digit(text.as_bytes().last()) {
        atoi(text)
    } else {
        periods::seconds(text).map_err(|fault| match fault {
            periods::Fault::NoNumber(_) => "bad expires code, numeric value expected.",
            periods::Fault::NoUnit => "bad expires code, missing <type>",
            periods::Fault::UnknownUnit(_) => "bad expires code, unrecognized type",
        })?
    };
    cmd.server_set(|s: &mut UserTrackServer| &mut s.expires, seconds)
}

fn set_domain(cmd: &mut Cmd<'_>, domain: &str) -> Outcome {
    match domain.strip_prefix('.') {
        None => Err("CookieDomain values must begin with a dot".into()),
        Some(rest) if !rest.contains('.') => Err("CookieDomain values must contain at least one embedded dot".into()),
        Some(_) => edit(cmd, |track| track.domain = Some(domain.to_string())),
    }
}

fn set_style(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let styles = [
        ("Netscape", Style::Netscape),
        ("Cookie", Style::Cookie),
        ("RFC2109", Style::Cookie),
        ("Cookie2", Style::Cookie2),
        ("RFC2965", Style::Cookie2),
    ];
    let style = one_of(text, &styles).ok_or_else(|| format!("Invalid {} keyword: '{text}'", cmd.row.name))?;
    edit(cmd, |track| track.style = style)
}

fn set_name(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let pattern = pattern(name)?;
    edit(cmd, |track| track.name = Some((name.to_string(), pattern)))
}

fn set_same_site(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let known = [("strict", "SameSite=Strict"), ("lax", "SameSite=Lax"), ("none", "SameSite=None")];
    let same_site = one_of(text, &known).ok_or("CookieSameSite accepts 'Strict', 'Lax', or 'None'")?;
    edit(cmd, |track| track.same_site = Some(same_site))
}

/// A pattern that finds the value of a cookie in a `Cookie` field.
fn pattern(name: &str) -> Result<Arc<Regex>, String> {
    let mut escaped = String::new();
    for c in name.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    let pattern = format!("^{escaped}=([^;,]+)|[;,][ \t]*{escaped}=([^;,]+)");
    Regex::new(&pattern, Flags::default()).map(Arc::new).map_err(|_| "Regular expression could not be compiled.".into())
}

fn track(request: &mut Request) -> Flow {
    let dir = request.dir.slots.clone();
    let track = &dir.get::<UserTrackDir>().track;
    let Some(conf) = track.get().filter(|track| track.enabled && !request.is_subrequest()) else {
        return Flow::Declined;
    };
    let named = match &conf.name {
        Some(named) => named.clone(),
        None => match pattern(NAME) {
            Ok(pattern) => (NAME.to_string(), pattern),
            Err(_) => return Flow::Declined,
        },
    };
    let mut captures = Captures::default();
    if let Some(cookies) = request.header_joined("Cookie").map(std::borrow::Cow::into_owned) {
        match named.1.captures(&cookies, &mut captures) {
            Ok(true) => {
                let value = captures.get(1, &cookies).or_else(|| captures.get(2, &cookies)).unwrap_or_default();
                request.notes.set(NOTE, value);
                return Flow::Declined;
            }
            Ok(false) => {}
            Err(why) => match track.origin() {
                Some(origin) => return request.undecided("usertrack", &why, origin),
                None => return Flow::Status(500),
            },
        }
    }
    let micros = request.time().as_micros();
    let value = format!("{:x}.{micros:x}", sys::random::number() as u32);
    let cookie = conf.cookie(&named.0, &value, request);
    let name = if conf.style == Style::Cookie2 { "Set-Cookie2" } else { "Set-Cookie" };
    request.response.err_headers_out.add(name, cookie);
    request.notes.set(NOTE, value);
    Flow::Ok
}

impl Track {
    fn cookie(&self, name: &str, value: &str, request: &Request) -> String {
        let mut cookie = format!("{name}={value}; path=/");
        let expires = request.host::<UserTrackServer>().expires.value_or(0);
        if expires != 0 && self.style == Style::Netscape {
            let now = request.time().as_secs() as i64;
            let date = http::date::http_date(now + i64::from(expires));
            let date = String::from_utf8_lossy(&date);
            // `Sun, 06 Nov 1994 08:49:37 GMT` as `Sun, 06-Nov-94 08:49:37 GMT`.
            cookie +=
                &format!("; expires={}{}-{}-{}{}", &date[..5], &date[5..7], &date[8..11], &date[14..16], &date[16..]);
        } else if expires != 0 {
            cookie += &format!("; max-age={expires}");
        }
        if let Some(domain) = &self.domain {
            cookie += &format!("; domain={domain}");
            cookie += if self.style == Style::Cookie2 { "; version=1" } else { "" };
        }
        if let Some(same_site) = self.same_site {
            cookie += &format!("; {same_site}");
        }
        cookie += if self.secure { "; Secure" } else { "" };
        cookie + if self.http_only { "; HttpOnly" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("CookieDomain a.b", "CookieDomain values must begin with a dot"),
            ("CookieDomain .ab", "CookieDomain values must contain at least one embedded dot"),
            ("CookieStyle Cookie3", "Invalid CookieStyle keyword: 'Cookie3'"),
            ("CookieSameSite maybe", "CookieSameSite accepts 'Strict', 'Lax', or 'None'"),
            ("CookieExpires \"plus x\"", "bad expires code, numeric value expected."),
            ("CookieExpires \"2\"", ""),
            ("CookieExpires \"2 \"", "bad expires code, missing <type>"),
            ("CookieExpires \"2 eons\"", "bad expires code, unrecognized type"),
            ("CookieName a-b.c\nCookieStyle rfc2965\nCookieExpires \"plus 2 weeks\"", ""),
        ]);
    }
}
