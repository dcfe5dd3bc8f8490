//! From the header of a script's response to the fields of the server's response.

use std::borrow::Cow;

use conf::Level;
use http::date::{http_date, parse_http_date};
use http::text::to_bytes;
use server::paths::base_name;
use server::{Fields, Request, Unsendable};

use super::header::ResponseHeader;

/// How much of a line a message shows, in characters.
const SHOWN: usize = 30;

/// Copies the header of a script's response into the server's response. `Err`: it must not be sent, and this is the
/// status.
///
/// The script's fields go into the table that applies to all responses, including errors ("always" in the manual of
/// mod_headers); those that Apache knows go into the other one. `joins`: fields with the same name become one.
pub fn apply(request: &mut Request, header: ResponseHeader, module: &'static str, joins: bool) -> Result<(), u16> {
    check(request, &header)?;
    if let Some(text) = &header.status {
        status(request, text.trim_end(), module);
    }
    if let Some(text) = &header.content_type {
        match media_type(text) {
            // As good as none.
            empty if empty.is_empty() => request.response.clear_content_type(),
            named => request.response.set_script_type(named),
        }
    }
    let known = [("Location", header.location), ("ETag", header.etag), ("Content-Range", header.content_range)];
    for (name, value) in known {
        if let Some(value) = value {
            request.response.headers_out.set(name, value);
        }
    }
    if let Some(modified) = header.last_modified.and_then(|text| parse_http_date(text.as_bytes())) {
        // Nothing can have changed in the future.
        let date = http_date(modified.min(sys::time::realtime_coarse().as_secs() as i64));
        request.response.headers_out.set("Last-Modified", String::from_utf8_lossy(&date));
    }
    let put = |out: &mut Fields, name: Cow<'static, str>, value: String| match joins {
        true if !name.eq_ignore_ascii_case("Set-Cookie") => out.merge(name, &value),
        _ => out.add(name, value),
    };
    // As in Apache, each name except that one has a single field now, even if the configuration has added several
    // before.
    let out = &mut request.response.err_headers_out;
    for (name, value) in std::mem::take(out).iter() {
        put(out, name.to_string().into(), value.to_string());
    }
    for (name, value) in header.fields {
        match () {
            () if name.eq_ignore_ascii_case("Connection") => {
                // Framing and connection belong to the server, but a script may ask for the end.
                if value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close")) {
                    request.env.set("nokeepalive", "1");
                }
            }
            () if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) => {}
            () => put(out, name.into(), value),
        }
    }
    Ok(())
}

/// The fields of a script's interim response. `Err`: they must not be sent, and this is the status.
pub(crate) fn interim(request: &Request, header: ResponseHeader) -> Result<Fields, u16> {
    check(request, &header)?;
    let mut interim = Fields::default();
    let is_ours = |name: &str| OURS.iter().chain(&["Connection"]).any(|ours| name.eq_ignore_ascii_case(ours));
    for (name, value) in header.fields.into_iter().filter(|(name, _)| !is_ours(name)) {
        interim.add(name, value);
    }
    Ok(interim)
}

/// Fields about the use of this connection, or that the server makes itself.
const OURS: [&str; 4] = ["Transfer-Encoding", "Keep-Alive", "Date", "Server"];

/// Refuses names and values that cannot be sent as fields (RFC 9110 section 5).
fn check(request: &Request, header: &ResponseHeader) -> Result<(), u16> {
    let known = [
        ("Content-Type", &header.content_type),
        ("Location", &header.location),
        ("ETag", &header.etag),
        ("Content-Range", &header.content_range),
    ];
    let known = known.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let others = header.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in known.chain(others) {
        if !http::name::is_valid(&to_bytes(name)) || has_control(value) {
            request.log("http", Level::Error, Unsendable::new(name, &to_bytes(value)).line());
            return Err(500);
        }
    }
    Ok(())
}

/// Whether a text has control characters that no field may carry (RFC 9110 section 5.5).
fn has_control(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t')
}

/// Applies a status. Three digits with a reason are sent as they are; other texts are an error of the script.
fn status(request: &mut Request, text: &str, module: &'static str) {
    let number = conf::values::atoi(text);
    if !(100..=599).contains(&number) {
        let name = base_name(&request.mapped.filename);
        request.log(module, Level::Error, format!("Invalid status line from script '{name}': {}", shown(text)));
    }
    // A script that names a status has decided: the request's conditions change nothing any more.
    request.response.no_local_copy = true;
    let digits = text.as_bytes().iter().take_while(|byte| byte.is_ascii_digit()).count();
    let status = match (u16::try_from(number), text[digits..].strip_prefix(' ')) {
        (Ok(status @ 100..=999), Some(reason)) if digits == 3 && !reason.is_empty() && !has_control(reason) => {
            return request.response.set_status_line(status, text.to_string());
        }
        (Ok(status @ 100..=999), _) if digits == text.len() => status,
        // Not a status line (control characters are not for clients), but a number with a reason of its own.
        (Ok(status), _) if !http::status::reason(status).is_empty() => status,
        _ => 500,
    };
    request.response.set_status(status);
}

/// A media type in lower case, except for its parameters.
pub fn media_type(text: &str) -> String {
    let mut text = text.trim_end().to_string();
    let end = text.find(';').unwrap_or(text.len());
    text[..end].make_ascii_lowercase();
    text
}

/// Logs a script's error, and passes it to the maker of the error page (`REDIRECT_ERROR_NOTES`).
pub(crate) fn complain_to_client(request: &mut Request, module: &'static str, text: &str) {
    request.log(module, Level::Error, text);
    request.notes.set("error-notes", http::uri::escape_html(text).into_owned());
}

/// The beginning of a bad line, for messages.
pub fn shown(line: &str) -> String {
    line.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        assert_eq!(media_type("TEXT/Plain; Charset=UTF-8  "), "text/plain; Charset=UTF-8");
        assert_eq!(media_type("Text/HTML "), "text/html");
    }
}
