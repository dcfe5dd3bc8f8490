//! Flood protection: a client may not send frames without end that request nothing and carry nothing.
//!
//! Each such frame costs a token (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, unknown ones, DATA and CONTINUATION without
//! content). To reset a stream, as browsers do in bursts, costs several, because work has begun for it. A client earns
//! tokens over time, with each request, and with the bytes sent to it, which it has to answer with WINDOW_UPDATE. The
//! connection of a client without tokens ends with ENHANCE_YOUR_CALM (RFC 9113 section 10.5).

use std::time::Instant;

use super::frame::kind;

/// The initial and maximum number of tokens.
const BURST: i64 = 1_000 * TOKEN;
/// A token, in the unit of this module: the bytes sent that earn one.
const TOKEN: i64 = 256;
/// Tokens earned per second.
const RATE: i64 = 20 * TOKEN;
/// Tokens earned per request.
const REQUEST: i64 = 2 * TOKEN;
/// The cost of a stream reset.
const RESET: i64 = 10 * TOKEN;

/// Counts the frames that a client sends.
pub(super) struct Meter {
    left: i64,
    /// When time last earned tokens; `None`: not yet, so the beginning does not read the clock.
    since: Option<Instant>,
}

impl Meter {
    pub fn new() -> Meter {
        Meter { left: BURST, since: None }
    }

    /// Counts bytes sent to the client.
    pub fn sent(&mut self, bytes: usize) {
        self.left = (self.left + bytes as i64).min(BURST);
    }

    /// Counts a frame. `Err`: the client sends too many of this kind.
    pub fn frame(&mut self, kind: u8, is_empty: bool) -> Result<(), &'static str> {
        let (name, cost) = match kind {
            kind::HEADERS => {
                self.left = (self.left + REQUEST).min(BURST);
                return Ok(());
            }
            kind::DATA if is_empty => ("empty DATA", TOKEN),
            kind::CONTINUATION if is_empty => ("empty CONTINUATION", TOKEN),
            kind::DATA | kind::CONTINUATION => return Ok(()),
            kind::PRIORITY | kind::PRIORITY_UPDATE => ("PRIORITY", TOKEN),
            kind::RST_STREAM => ("RST_STREAM", RESET),
            kind::SETTINGS => ("SETTINGS", TOKEN),
            kind::PING => ("PING", TOKEN),
            kind::WINDOW_UPDATE => ("WINDOW_UPDATE", TOKEN),
            kind::GOAWAY => ("GOAWAY", TOKEN),
            _ => ("unknown", TOKEN),
        };
        self.left -= cost;
        if self.left < 0 {
            let now = Instant::now();
            // The first time counts as a second of patience.
            let passed = self.since.replace(now).map_or(1_000, |since| (now - since).as_millis().min(100_000) as i64);
            self.left = (self.left + passed * RATE / 1_000).min(BURST);
        }
        if self.left < 0 { Err(name) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(frames: &[(u8, bool)], times: usize) -> Option<&'static str> {
        let mut meter = Meter::new();
        let mut all = (0..times).flat_map(|_| frames);
        all.find_map(|(kind, is_empty)| meter.frame(*kind, *is_empty).err())
    }

    #[test]
    fn frames_that_carry_nothing_are_counted() {
        assert_eq!(after(&[(kind::HEADERS, false), (kind::DATA, false)], 100_000), None);
        for (kind, is_empty, name) in [
            (kind::DATA, true, "empty DATA"),
            (kind::PRIORITY, false, "PRIORITY"),
            (kind::SETTINGS, true, "SETTINGS"),
            (kind::PING, false, "PING"),
            (kind::WINDOW_UPDATE, false, "WINDOW_UPDATE"),
            (kind::CONTINUATION, true, "empty CONTINUATION"),
            (77, false, "unknown"),
        ] {
            assert_eq!(after(&[(kind, is_empty)], 900), None, "{name}");
            assert_eq!(after(&[(kind, is_empty)], 10_000), Some(name));
        }
        let rapid = [(kind::HEADERS, false), (kind::RST_STREAM, false)];
        assert_eq!((after(&rapid, 100), after(&rapid, 1000)), (None, Some("RST_STREAM")));
    }

    #[test]
    fn clients_of_long_answers_may_open_their_windows() {
        let mut meter = Meter::new();
        for _ in 0..100_000 {
            meter.sent(1024);
            assert_eq!(meter.frame(kind::WINDOW_UPDATE, false), Ok(()));
        }
    }
}
