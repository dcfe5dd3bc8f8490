//! The fields of a response, from the request into a storage and back.

use http::h1::response::BadField;
use server::request::ResponseHead;
use server::{FieldSink, Fields, Request};

use super::settings::CacheServer;
use super::storable::CONTENT_FIELDS;
use crate::cache::control::kept_out;
use crate::cache::entry::{Entry, Micros, SECOND, names};

/// The fields about a connection, or about a proxy and its neighbour (RFC 9111 section 3.1).
const OF_CONNECTION: [&str; 10] = [
    "Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authentication-Info",
    "Proxy-Authorization",
    "TE",
    "Trailer",
    "Trailers",
    "Transfer-Encoding",
    "Upgrade",
];

/// The conditions of a client, which make no sense for another response.
pub(super) const CONDITIONS: [&str; 5] =
    ["If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since"];

/// The fields of a response as they would go out now, except those that each of our responses gets anew.
pub(super) fn outgoing(request: &Request) -> Fields {
    struct Sink(Fields, bool);
    impl FieldSink for Sink {
        fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
            if self.1 || !["Date", "Server"].contains(&name) {
                self.0.add(name.to_string(), http::text::from_bytes(value).into_owned());
            }
            Ok(())
        }

        fn own_fields(&mut self) -> Result<(), BadField> {
            Ok(())
        }
    }
    let mut sink = Sink(Fields::default(), request.response.is_passed_on);
    // This sink takes all fields; those that cannot be sent are found later.
    let _ = request.fields_out(&mut sink);
    sink.0
}

/// Removes the fields that are not stored.
pub(super) fn without_unstored(request: &Request, mut fields: Fields) -> Fields {
    let lists = [fields.joined("Connection").unwrap_or_default()];
    let own = kept_out(&fields.joined("Cache-Control").unwrap_or_default());
    let ignored = request.host::<CacheServer>().ignore_headers.get();
    let listed = lists.iter().flat_map(|list| names(list)).chain(OF_CONNECTION);
    let given = own.iter().chain(ignored.into_iter().flatten()).map(String::as_str);
    listed.chain(given).for_each(|name| fields.remove(name));
    fields
}

/// The fields of a request by which its response varies.
pub(super) fn asked(request: &Request, response: &Fields) -> Fields {
    let mut fields = Fields::default();
    for name in names(&response.joined("Vary").unwrap_or_default()) {
        if let Some(value) = request.header_joined(name) {
            fields.set(name.to_string(), value.into_owned());
        }
    }
    fields
}

/// The fields of a stored response that a `304` has confirmed (RFC 9111 section 3.2).
pub(super) fn updated(old: &Fields, new: &Fields) -> Fields {
    let mut all = old.clone();
    let is_new = |name: &str| !CONTENT_FIELDS.iter().any(|fixed| fixed.eq_ignore_ascii_case(name));
    all.remove("Age");
    new.iter().for_each(|(name, _)| {
        if is_new(name) {
            all.remove(name)
        }
    });
    for (name, value) in new.iter().filter(|(name, _)| is_new(name)) {
        all.add(name.to_string(), value);
    }
    all
}

/// The fields that are not among the others in a response: the server knows what they say.
const APART: [&str; 4] = ["Content-Type", "Content-Encoding", "Content-Language", "Content-Length"];

/// Restores the status of a stored response, and what describes its content.
pub(super) fn restore_content(response: &mut ResponseHead, entry: &Entry) {
    response.set_status(entry.status);
    match entry.fields.get("Content-Type") {
        Some(text) => response.set_script_type(text.to_string()),
        None => response.clear_content_type(),
    }
    response.content_encoding = entry.fields.get("Content-Encoding").map(str::to_string);
    let languages = entry.fields.joined("Content-Language").unwrap_or_default();
    response.content_languages = names(&languages).map(str::to_string).collect();
}

/// Makes a stored response that of a request; only its body is missing.
pub(super) fn restore(request: &mut Request, entry: &Entry, now: Micros) {
    restore_content(&mut request.response, entry);
    let response = &mut request.response;
    for (name, _) in entry.fields.iter() {
        response.headers_out.remove(name);
        // A module may have set a cookie for this client.
        if !name.eq_ignore_ascii_case("Set-Cookie") {
            response.err_headers_out.remove(name);
        }
    }
    for (name, value) in entry.fields.iter() {
        if !APART.iter().any(|apart| apart.eq_ignore_ascii_case(name)) {
            response.headers_out.add(name.to_string(), value);
        }
    }
    let date = http::date::http_date(entry.date.div_euclid(SECOND));
    response.headers_out.set("Date", String::from_utf8_lossy(&date));
    response.headers_out.set("Age", entry.age(now).to_string());
    response.is_passed_on = true;
    // Whatever the handler says about its own response.
    response.no_local_copy = false;
}

/// Warns of what a cache has done to a response, as Apache does; once.
pub(super) fn warn(request: &mut Request, warning: &str) {
    let fields = &mut request.response.headers_out;
    if !fields.joined("Warning").is_some_and(|have| have.contains(&warning[..3])) {
        fields.merge("Warning", warning);
    }
}
