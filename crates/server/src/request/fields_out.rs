//! The fields of a response, in the same form for every protocol.

use std::time::Duration;

use http::h1::response::BadField;

use crate::request::Request;

/// Writes fields.
pub trait FieldSink {
    /// Writes a field. `Err`: it must not be sent.
    fn field(&mut self, name: &str, value: &[u8]) -> Result<(), BadField>;

    /// Writes the protocol's own fields: the framing of the body, and the future of the connection.
    fn own_fields(&mut self) -> Result<(), BadField>;
}

/// Fields that only the server sets, once: configured values are not sent.
const OWN: [&str; 4] = ["Date", "Server", "Content-Length", "Transfer-Encoding"];

/// A field that cannot be sent because of a byte in its name or its value.
#[derive(Debug)]
pub struct Unsendable {
    /// The field's name.
    pub name: String,
    /// The field's value.
    pub value: String,
}

impl Unsendable {
    /// The field of this name, with this value.
    pub fn new(name: &str, value: &[u8]) -> Unsendable {
        Unsendable { name: name.to_string(), value: http::text::from_bytes(value).into_owned() }
    }

    /// Apache's log line about the fault in it.
    pub fn line(&self) -> String {
        let Unsendable { name, value } = self;
        if name.is_empty() {
            return "AH02428: Empty response header name, aborting request".into();
        }
        if !http::name::is_valid(&http::text::to_bytes(name)) {
            return format!("AH02429: Response header name '{name}' contains invalid characters, aborting request");
        }
        format!("AH02430: Response header '{name}' value of '{value}' contains invalid characters, aborting request")
    }
}

impl Request {
    /// Writes the fields of the response in Apache's order. `Err`: one that cannot be sent.
    pub fn fields_out(&self, sink: &mut impl FieldSink) -> Result<(), Unsendable> {
        let has_body = !http::status::is_bodyless(self.response.status());
        let is_one_of = |names: &[&str], name: &str| names.iter().any(|one| one.eq_ignore_ascii_case(name));
        // A 204 or 304 has no body to describe (RFC 9110 sections 15.3.5 and 15.4.5), but still has the fields of the
        // configuration or a script.
        let has_type = has_body && self.response.content_type().is_some();
        let is_kept = |name: &str| !(is_one_of(&OWN, name) || has_type && name.eq_ignore_ascii_case("Content-Type"));
        let mut put = |name: &str, value: &[u8]| sink.field(name, value).map_err(|_| Unsendable::new(name, value));
        let (always, out) = (&self.response.err_headers_out, &self.response.headers_out);
        let passed_on = |name: &str| match self.response.is_passed_on {
            true => always.get(name).or_else(|| out.get(name)),
            false => None,
        };
        match passed_on("Date") {
            Some(date) => put("Date", &http::text::to_bytes(date))?,
            None => with_date(sys::time::realtime_coarse(), |date| put("Date", date))?,
        }
        match passed_on("Server") {
            Some(server) => put("Server", &http::text::to_bytes(server))?,
            None if self.server.software.is_empty() => {}
            None => put("Server", self.server.software.as_bytes())?,
        }
        // As in Apache both tables count, even with fields of the same name.
        for (name, value) in self.response.err_headers_out.iter().filter(|(name, _)| !is_vary(name)) {
            if is_kept(name) {
                put(name, &http::text::to_bytes(value))?;
            }
        }
        for (name, value) in self.response.headers_out.iter().filter(|(name, _)| !is_vary(name) && is_kept(name)) {
            put(name, &http::text::to_bytes(value))?;
        }
        if let Some(vary) = vary(self) {
            put("Vary", &http::text::to_bytes(&vary))?;
        }
        if has_body {
            if let Some(encoding) = &self.response.content_encoding {
                put("Content-Encoding", encoding.as_bytes())?;
            }
            if !self.response.content_languages.is_empty() {
                put("Content-Language", self.response.content_languages.join(",").as_bytes())?;
            }
        }
        sink.own_fields().map_err(|_| Unsendable::new("Connection", b""))?;
        if let Some(text) = self.response.content_type().filter(|_| has_body) {
            let value = http::text::to_bytes(text);
            sink.field("Content-Type", &value).map_err(|_| Unsendable::new("Content-Type", &value))?;
        }
        Ok(())
    }
}

fn is_vary(name: &str) -> bool {
    name.eq_ignore_ascii_case("Vary")
}

/// The response's dependencies, from all sources, each name once: one field, as in Apache.
pub(super) fn vary(request: &Request) -> Option<String> {
    let fields = || {
        request
            .response
            .err_headers_out
            .iter()
            .chain(request.response.headers_out.iter())
            .filter(|(name, _)| is_vary(name))
    };
    // A field without names is sent as it is, as in Apache.
    fields().next()?;
    if request.env.contains("force-no-vary") {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for name in fields().flat_map(|(_, value)| value.split([',', ' ', '\t'])).filter(|name| !name.is_empty()) {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name);
        }
    }
    Some(names.join(","))
}

/// Passes the date of a present moment, a time since 1970, to `use_it`; it is formatted once a second.
pub(crate) fn with_date<T>(now: Duration, use_it: impl FnOnce(&http::date::HttpDate) -> T) -> T {
    thread_local! {
        static DATE: std::cell::RefCell<http::date::DateCache> = std::cell::RefCell::default();
    }
    DATE.with_borrow_mut(|cache| use_it(cache.text(now.as_secs() as i64)))
}
