//! Cookies that rules set: `CO=name:value:domain:minutes:path:secure:httponly:samesite`.

use http::date::http_date;
use server::Request;

use super::pass::Pass;

/// Sets a cookie, unless one of that name was already set.
pub(super) fn add(pass: &mut Pass<'_>, text: &str) {
    let (divider, text) = match text.strip_prefix(';') {
        Some(rest) => (';', rest),
        None => (':', text),
    };
    // As with strtok(3), there are no empty parts.
    let mut parts = text.split(divider).filter(|part| !part.is_empty());
    let (Some(name), Some(value), Some(domain)) = (parts.next(), parts.next(), parts.next()) else { return };
    let note = format!("{name}_rewrite");
    if is_noted(pass.request, &note) {
        pass.trace_apart(5, |_| format!("skipping already set cookie '{name}'"));
        return;
    }
    let minutes = parts.next();
    let path = parts.next().unwrap_or("/");
    let (secure, http_only, same_site) = (parts.next(), parts.next(), parts.next());
    let mut cookie = format!("{name}={value}; path={path}; domain={domain}");
    let minutes = minutes.map_or(0, conf::values::atoi);
    if minutes != 0 {
        cookie.push_str(&format!("; expires={}", expiry(pass, i64::from(minutes))));
    }
    let says = |flag: Option<&str>, word: &str| {
        flag.is_some_and(|flag| flag == "1" || [word, "true"].iter().any(|yes| flag.eq_ignore_ascii_case(yes)))
    };
    if says(secure, "secure") {
        cookie.push_str("; secure");
    }
    if says(http_only, "HttpOnly") {
        cookie.push_str("; HttpOnly");
    }
    if let Some(site) = same_site.filter(|site| *site != "0" && !site.eq_ignore_ascii_case("false")) {
        cookie.push_str(&format!("; SameSite={site}"));
    }
    pass.trace_apart(5, |_| format!("setting cookie '{cookie}'"));
    pass.request.response.err_headers_out.add("Set-Cookie", cookie);
    pass.request.notes.set(note, "set");
}

/// Whether a note was set, for this path or one that led to it.
fn is_noted(request: &Request, note: &str) -> bool {
    let mut before = std::iter::successors(request.previous(), |previous| previous.before.as_ref());
    request.notes.contains(note) || before.any(|previous| previous.notes.contains(note))
}

/// `Wed, 25-Nov-2026 10:00:00 GMT`
fn expiry(pass: &Pass<'_>, minutes: i64) -> String {
    let now = pass.request.time().as_secs() as i64;
    let date = http_date(now + 60 * minutes);
    let date = String::from_utf8_lossy(&date);
    // The date of an HTTP field, with dashes.
    format!("{}-{}-{}", &date[..7], &date[8..11], &date[12..])
}
