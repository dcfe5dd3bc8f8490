//! Whether a stored response may answer a request without the origin (RFC 9111 section 4.2, RFC 5861).

use crate::cache::control::Control;
use crate::cache::entry::{Entry, Micros};

/// Some days after which a guess at the lifetime deserves a warning, in seconds.
const DAY: i64 = 86_400;
/// How stale a response a client takes that sets no limit, in seconds: a year.
const ANY_STALE: i64 = 365 * DAY;

/// The state of a stored response, for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It answers the request.
    Fresh {
        /// In seconds.
        age: i64,
        /// The client takes it although it is stale.
        is_stale: bool,
        /// Its lifetime is a guess, and it is old.
        is_guess: bool,
    },
    /// The origin has to confirm it.
    Stale,
}

/// Judges a stored response at a moment. `client`: what the request says; `ignores`: as far as it is taken seriously
/// (`CacheIgnoreCacheControl`).
pub(super) fn judge(entry: &Entry, client: &Control, ignores: bool, now: Micros) -> Freshness {
    let own = &entry.control;
    if client.no_cache && !ignores || own.no_cache || own.invalidated {
        return Freshness::Stale;
    }
    let (age, lifetime) = (entry.age(now), entry.lifetime());
    let may_be_stale = client.max_stale && !own.forbids_stale() && own.s_maxage.is_none();
    let stale = if may_be_stale { client.max_stale_value.unwrap_or(ANY_STALE) } else { 0 };
    if age >= limit(entry, client, ignores).saturating_add(stale) {
        return Freshness::Stale;
    }
    Freshness::Fresh { age, is_stale: age >= lifetime, is_guess: is_guessed(entry) && age > DAY }
}

/// The age from which on a response is not fresh enough for a request, in seconds.
fn limit(entry: &Entry, client: &Control, ignores: bool) -> i64 {
    let lifetime = entry.lifetime();
    let wanted = client.max_age.filter(|_| !ignores).map_or(lifetime, |wanted| wanted.min(lifetime));
    wanted.saturating_sub(client.min_fresh.filter(|_| !ignores).unwrap_or(0))
}

/// Whether the lifetime of a response is a guess.
fn is_guessed(entry: &Entry) -> bool {
    let own = &entry.control;
    own.s_maxage.or(own.max_age).is_none() && !entry.fields.contains("Expires")
}

/// The age from which on a fresh response does not answer such a request any more, or only with a warning; in seconds.
pub(super) fn until(entry: &Entry, client: &Control, ignores: bool) -> i64 {
    let limit = limit(entry, client, ignores);
    if is_guessed(entry) { limit.min(DAY + 1) } else { limit }
}

/// Whether a stale response may go out for this reason: the origin allows so many seconds for it.
pub(super) fn is_within(entry: &Entry, grace: Option<i64>, now: Micros) -> bool {
    let limit = |grace: i64| entry.lifetime().saturating_add(grace);
    !entry.control.forbids_stale()
        && !entry.control.no_cache
        && !entry.control.invalidated
        && grace.is_some_and(|grace| entry.age(now) < limit(grace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::entry::SECOND;

    const NOW: Micros = 1_700_000_000 * SECOND;

    /// An entry with this `Cache-Control` that came so many seconds ago, and expires 100 seconds after that.
    fn entry(control: &str, ago: i64) -> Entry {
        let came = NOW - ago * SECOND;
        Entry {
            status: 200,
            date: came,
            expire: came + 100 * SECOND,
            request_time: came,
            response_time: came,
            control: Control::of(Some(control), None),
            ..Entry::default()
        }
    }

    #[test]
    fn freshness() {
        let fresh = |age| Freshness::Fresh { age, is_stale: false, is_guess: false };
        let stale = |age| Freshness::Fresh { age, is_stale: true, is_guess: false };
        for (own, ago, client, ignores, expected) in [
            ("", 5, "", false, fresh(5)),
            ("", 100, "", false, Freshness::Stale),
            ("max-age=5", 4, "", false, fresh(4)),
            ("max-age=5", 5, "", false, Freshness::Stale),
            ("max-age=5, s-maxage=50", 40, "", false, fresh(40)),
            ("max-age=50, s-maxage=5", 40, "", false, Freshness::Stale),
            ("max-age=50", 10, "max-age=5", false, Freshness::Stale),
            ("max-age=50", 10, "max-age=5", true, fresh(10)),
            ("max-age=50", 10, "no-cache", false, Freshness::Stale),
            ("max-age=50", 10, "no-cache", true, fresh(10)),
            ("max-age=50, no-cache", 10, "", true, Freshness::Stale),
            ("max-age=50", 10, "min-fresh=40", false, Freshness::Stale),
            ("max-age=50", 10, "min-fresh=39", false, fresh(10)),
            ("max-age=50", 60, "max-stale=11", false, stale(60)),
            ("max-age=50", 60, "max-stale=10", false, Freshness::Stale),
            ("max-age=50", 6000, "max-stale", false, stale(6000)),
            ("max-age=50, must-revalidate", 60, "max-stale", false, Freshness::Stale),
            ("max-age=50, proxy-revalidate", 60, "max-stale", false, Freshness::Stale),
            ("s-maxage=50", 60, "max-stale", false, Freshness::Stale),
        ] {
            let client = Control::of(Some(client), None);
            assert_eq!(judge(&entry(own, ago), &client, ignores, NOW), expected, "{own}, {ago}, {client:?}");
        }
        let guessed = Entry { expire: NOW + 3 * DAY * SECOND, ..entry("", 2 * DAY) };
        let judged = judge(&guessed, &Control::default(), false, NOW);
        assert_eq!(judged, Freshness::Fresh { age: 2 * DAY, is_stale: false, is_guess: true });
    }

    #[test]
    fn ages() {
        let mut old = entry("", 10);
        assert_eq!(old.age(NOW), 10);
        old.fields.set("Age", "30");
        assert_eq!(old.age(NOW), 40);
        old.date -= 60 * SECOND;
        assert_eq!(old.age(NOW), 70);
        old.request_time -= 5 * SECOND;
        assert_eq!(old.age(NOW), 75);
        // Older than any number of seconds that means something (RFC 9111 section 1.2.2).
        old.fields.set("Age", "99999999999999999999");
        assert_eq!(old.age(NOW), (1 << 31) + 15);
        // The clock was set back.
        assert_eq!(entry("", -5).age(NOW), 0);
    }

    #[test]
    fn grace() {
        let is_within = |own: &str, ago| {
            let entry = entry(own, ago);
            super::is_within(&entry, entry.control.stale_if_error, NOW)
        };
        assert!(is_within("max-age=10, stale-if-error=10", 19));
        assert!(!is_within("max-age=10, stale-if-error=10", 20));
        assert!(!is_within("max-age=10", 11));
        assert!(!is_within("max-age=10, stale-if-error=10, must-revalidate", 11));
        assert!(!is_within("max-age=10, stale-if-error=10, no-cache", 11));
    }
}
