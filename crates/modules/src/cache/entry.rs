//! A stored response: its head, and what it takes to judge its age.

use http::date::parse_http_date;
use server::Fields;

use super::control::{Control, seconds};

/// Microseconds since 1970.
pub(crate) type Micros = i64;
/// Microseconds of a second.
pub(crate) const SECOND: Micros = 1_000_000;

/// What is known of a stored response beside its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) status: u16,
    /// When the origin made it.
    pub(crate) date: Micros,
    /// Until when it is fresh.
    pub(crate) expire: Micros,
    /// When we asked for it, and when it came.
    pub(crate) request_time: Micros,
    pub(crate) response_time: Micros,
    pub(crate) control: Control,
    /// It is the response to a `HEAD`.
    pub(crate) header_only: bool,
    /// Its fields.
    pub(crate) fields: Fields,
    /// The fields of the request that it answered.
    pub(crate) asked: Fields,
}

/// How a response grows old.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ageing {
    /// Its age when it came.
    initial: Micros,
    came: Micros,
}

impl Ageing {
    /// Its age at a moment, in seconds.
    pub(crate) fn at(self, now: Micros) -> i64 {
        self.initial.saturating_add(now.saturating_sub(self.came)).max(0) / SECOND
    }
}

impl Entry {
    /// Its age, in seconds.
    pub(crate) fn age(&self, now: Micros) -> i64 {
        self.ageing().at(now)
    }

    /// How it grows old (RFC 9111 section 4.2.3).
    pub(crate) fn ageing(&self) -> Ageing {
        let told = self.fields.get("Age").and_then(|text| seconds(text.trim())).unwrap_or(0);
        let apparent = self.response_time.saturating_sub(self.date).max(0);
        let delay = self.response_time.saturating_sub(self.request_time);
        let initial = apparent.max(told * SECOND).saturating_add(delay);
        Ageing { initial, came: self.response_time }
    }

    /// How long it is fresh, in seconds. What a shared cache is told goes before what all are told.
    pub(crate) fn lifetime(&self) -> i64 {
        let Control { s_maxage, max_age, .. } = self.control;
        s_maxage.or(max_age).unwrap_or(self.expire.saturating_sub(self.date) / SECOND)
    }

    /// Whether it also answers a request with other fields: those that it varies by are the same.
    pub(crate) fn answers<'a>(&self, field: impl Fn(&str) -> Option<std::borrow::Cow<'a, str>>) -> bool {
        names(&self.fields.joined("Vary").unwrap_or_default())
            .all(|name| name != "*" && self.asked.joined(name).as_deref() == field(name).as_deref())
    }
}

/// The moment that a field names.
pub(crate) fn micros(text: &str) -> Option<Micros> {
    parse_http_date(text.as_bytes()).and_then(|seconds| seconds.checked_mul(SECOND))
}

/// The names in a list of fields.
pub(crate) fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', ' ', '\t']).filter(|name| !name.is_empty())
}
