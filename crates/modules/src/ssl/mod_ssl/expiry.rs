//! Warns of certificates that expire soon: for the error log, the status page and metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use conf::Level;
use server::{Server, VirtualHost};

use super::{context, managed};

const DAY: i64 = 24 * 60 * 60;
/// How often the parent checks, in seconds.
const LOOK: i64 = 60;
/// Days before expiry at which the log gets a line, and its level. Each step is logged once.
const STEPS: [(i64, Level); 3] = [(30, Level::Warn), (7, Level::Warn), (1, Level::Error)];

/// The expiry of a certificate.
#[derive(Clone, Debug)]
pub struct Expiry {
    /// Name of the virtual host, and the port of its connections.
    pub host: String,
    /// The position of the certificate in its virtual host.
    pub index: usize,
    /// The file of the certificate.
    pub file: String,
    /// The end of validity, in seconds since 1970.
    pub end: i64,
    /// Whether it is renewed automatically.
    pub is_renewed: bool,
}

impl Expiry {
    /// Whole days left; negative: it has expired.
    pub fn days(&self) -> i64 {
        (self.end - now()).div_euclid(DAY)
    }

    /// The warning, if the certificate expires soon or has expired.
    pub fn warning(&self) -> Option<(Level, String)> {
        let now = now();
        warning(self.end, now).filter(|_| !self.is_renewed || self.end < now)
    }
}

/// The warning for a certificate that ends at `end`, if that is soon or past.
pub fn warning(end: i64, now: i64) -> Option<(Level, String)> {
    let (level, days) = (step(end, now)?.1, (end - now).div_euclid(DAY));
    let text = match days {
        ..=-2 => format!("expired {} days ago: clients refuse it", -days),
        -1 => "has expired: clients refuse it".into(),
        0 => "expires within a day".into(),
        1 => "expires in 1 day".into(),
        _ => format!("expires in {days} days"),
    };
    Some((level, text))
}

/// The step that a certificate has reached: days left, and the level. For an expired one, the days since.
fn step(end: i64, now: i64) -> Option<(i64, Level)> {
    if end < now {
        return Some(((end - now).div_euclid(DAY), Level::Error));
    }
    STEPS.iter().rev().find(|(days, _)| end - now <= days * DAY).copied()
}

fn now() -> i64 {
    sys::time::realtime().as_secs().cast_signed()
}

/// The expiry of every certificate in effect, for all virtual hosts.
pub fn all(server: &Server) -> Vec<Expiry> {
    server.hosts.iter().flat_map(of).collect()
}

fn of(host: &VirtualHost) -> Vec<Expiry> {
    let Some(context) = context::of(host) else { return Vec::new() };
    let ends = context.published.ends(host.index).unwrap_or_else(|| context.ends.clone());
    let fetched = managed::manager(&host.settings).and_then(|manager| manager.names(host));
    let is_renewed = fetched.is_some();
    let each = fetched.unwrap_or_else(|| context.files.clone()).into_iter().zip(ends).enumerate();
    each.map(|(index, (file, end))| Expiry { host: host.label(), index, file, end, is_renewed }).collect()
}

/// The warnings logged so far.
#[derive(Default)]
struct Logged {
    /// The time of the last check.
    at: i64,
    /// The last step of each certificate, keyed by its file and its end. For an expired one it changes daily.
    steps: BTreeMap<(String, i64), i64>,
}

static LOGGED: Mutex<Logged> = Mutex::new(Logged { at: 0, steps: BTreeMap::new() });

/// Logs certificates that expire soon: at the start of the server, and when one reaches the next step. The parent calls
/// it every second; it reads no file, and checks once a minute.
pub fn tell(server: &Server) {
    let mut told = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    let now = now();
    if (told.at..told.at + LOOK).contains(&now) {
        return;
    }
    told.at = now;
    let mut steps = BTreeMap::new();
    for expiry in all(server) {
        let (Some((step, _)), Some((level, text))) = (step(expiry.end, now), expiry.warning()) else { continue };
        let Expiry { host, index, file, end, .. } = expiry;
        let key = (file.clone(), end);
        // Several virtual hosts may share a certificate.
        if told.steps.get(&key) != Some(&step) && !steps.contains_key(&key) {
            runtime::log::log("ssl", level, format_args!("certificate {host}:{index} from {file} {text}"));
        }
        steps.insert(key, step);
    }
    told.steps = steps;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_words() {
        for (left, want) in [
            (31 * DAY, None),
            (30 * DAY, Some((30, "expires in 30 days"))),
            (8 * DAY, Some((30, "expires in 8 days"))),
            (7 * DAY - 1, Some((7, "expires in 6 days"))),
            (DAY + 1, Some((7, "expires in 1 day"))),
            (DAY, Some((1, "expires in 1 day"))),
            (60, Some((1, "expires within a day"))),
            (-60, Some((-1, "has expired: clients refuse it"))),
            (-3 * DAY, Some((-3, "expired 3 days ago: clients refuse it"))),
        ] {
            let now = 1_000_000_000;
            let got = step(now + left, now).map(|(step, _)| (step, warning(now + left, now).expect("a text").1));
            assert_eq!(got, want.map(|(step, text)| (step, text.to_string())), "{left}");
        }
    }
}
