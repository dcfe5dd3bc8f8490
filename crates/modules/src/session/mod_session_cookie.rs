//! Sessions stored by the client, in a cookie.
//!
//! Apache manual: mod_session_cookie; fields measured on 2.4.71.

use conf::directive::Args::{Flag, Raw};
use conf::{Cmd, Directive, Level, ModuleInfo, Outcome, Setting, SettingsMap, on_or_off, row, settings};
use server::{Module, Request};

use super::data::PLACES;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "session_cookie_module",
        source: "mod_session_cookie.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("SessionCookieName", PLACES, Raw(|c, rest| set(c, rest, |d| &mut d.cookie)), "", "The name of the RFC2109 cookie carrying the session"),
    row("SessionCookieName2", PLACES, Raw(|c, rest| set(c, rest, |d| &mut d.cookie2)), "", "The name of the RFC2965 cookie carrying the session"),
    row("SessionCookieRemove", PLACES, Flag(|c, on| c.set(|d: &mut CookieDir| &mut d.remove, on)), on_or_off(false), "Set to 'On' to remove the session cookie from the headers and hide the cookie from a backend server or process"),
];

/// A name, and the attributes after the value.
pub(super) type Cookie = (String, String);

settings! {
    /// The module's settings of a section.
    pub struct CookieDir {
        cookie: Setting<Cookie>,
        cookie2: Setting<Cookie>,
        remove: Setting<bool>,
    }
}

/// The default attributes of a cookie.
const ATTRIBUTES: &str = "HttpOnly;Secure;Version=1";

fn set(cmd: &mut Cmd<'_>, rest: &str, field: fn(&mut CookieDir) -> &mut Setting<Cookie>) -> Outcome {
    let cookie = parse(rest).ok_or_else(|| format!("{} cannot be empty, or contain '=' or '&'.", cmd.row.name))?;
    cmd.set(field, cookie)
}

/// A name, followed by attributes; `None`: the name is invalid.
pub(super) fn parse(rest: &str) -> Option<Cookie> {
    let rest = rest.trim_ascii();
    let (name, attributes) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    if name.is_empty() || name.contains(['=', '&']) {
        return None;
    }
    let attributes = attributes.trim_ascii_start();
    let attributes = if attributes.is_empty() { ATTRIBUTES } else { attributes };
    Some((name.to_string(), attributes.to_string()))
}

/// The client's text, empty if it sent none; `None` if no cookie is configured.
pub(super) fn read(request: &mut Request, slots: &SettingsMap) -> Option<String> {
    let dir = slots.get::<CookieDir>();
    let (name, _) = dir.cookie.get().or(dir.cookie2.get())?;
    Some(take(request, name, dir.remove.value_or(false)))
}

/// Whether a cookie is configured.
pub(super) fn is_configured(slots: &SettingsMap) -> bool {
    name(slots).is_some()
}

/// The name of the cookie.
pub(super) fn name(slots: &SettingsMap) -> Option<&str> {
    let dir = slots.get::<CookieDir>();
    dir.cookie.get().or(dir.cookie2.get()).map(|(name, _)| name.as_str())
}

/// Whether others do not see the cookie.
pub(super) fn is_hidden(slots: &SettingsMap) -> bool {
    is_configured(slots) && slots.get::<CookieDir>().remove.value_or(false)
}

/// The value of a cookie, empty if the client sent none, or several. `remove`: hides it from everybody else.
pub(super) fn take(request: &mut Request, name: &str, remove: bool) -> String {
    let (values, others) = find(request, name);
    if values.len() > 1 {
        let uri = &request.data.uri;
        let text = format!("AH00011: ap_cookie: client submitted cookie '{name}' more than once: {uri}");
        request.log("core", Level::Error, text);
        return String::new();
    }
    if remove && !values.is_empty() {
        match others.is_empty() {
            true => request.headers_mut().remove("Cookie"),
            false => request.headers_mut().set("Cookie", others.join("; ")),
        }
    }
    values.into_iter().next().unwrap_or_default()
}

/// The values of a cookie, and the other cookies.
fn find(request: &Request, name: &str) -> (Vec<String>, Vec<String>) {
    let all = request.header_joined("Cookie").unwrap_or_default();
    let (mut values, mut others) = (Vec::new(), Vec::new());
    for cookie in all.split([';', ',']).map(str::trim).filter(|cookie| !cookie.is_empty()) {
        match cookie.split_once('=') {
            Some((have, value)) if have == name => values.push(value.trim_matches('"').to_string()),
            _ => others.push(cookie.to_string()),
        }
    }
    (values, others)
}

/// Sends the session to the client, or removes it if nothing is left of it.
pub(super) fn write(request: &mut Request, slots: &SettingsMap, text: &str, max_age: i64) {
    let dir = slots.get::<CookieDir>();
    send(request, [dir.cookie.get(), dir.cookie2.get()], text, max_age);
}

/// Sends a text to the client in cookies of the two kinds; an empty one removes them.
pub(super) fn send(request: &mut Request, cookies: [Option<&Cookie>; 2], text: &str, max_age: i64) {
    for (field, cookie) in ["Set-Cookie", "Set-Cookie2"].into_iter().zip(cookies) {
        let Some((name, attributes)) = cookie else { continue };
        let age = match (text, max_age) {
            ("", _) => "Max-Age=0;".to_string(),
            (_, 1..) => format!("Max-Age={max_age};"),
            _ => String::new(),
        };
        request.response.err_headers_out.add(field, format!("{name}={text};{age}{attributes}"));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn directives() {
        let wrong = |name: &str| format!("{name} cannot be empty, or contain '=' or '&'.");
        crate::testing::check(&[
            ("SessionCookieName", &wrong("SessionCookieName")),
            ("SessionCookieName a=b", &wrong("SessionCookieName")),
            ("SessionCookieName2 a&b path=/", &wrong("SessionCookieName2")),
            ("SessionCookieName a HttpOnly;Secure;path=/\nSessionCookieRemove On", ""),
        ]);
    }
}
