//! Flood protection: a client may not send frames without end that request nothing and carry nothing.
//!
//! Each such frame costs a token (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, unknown ones, DATA and CONTINUATION without
//! content). To reset a stream, as browsers do in bursts, costs several, because work has begun for it. A client earns
//! tokens over time, with each request, and with the bytes sent to it, which it has to answer with WINDOW_UPDATE. The
//! connection of a client without tokens ends with ENHANCE_YOUR_CALM (RFC 9113 section 10.5).

use std::time::Instant;

/// The initial and maximum number of tokens.
const BURST: f64 = 1_000.0;
/// Tokens earned per second.
const RATE: f64 = 20.0;
/// Tokens earned per request.
const REQUEST: f64 = 2.0;
/// The bytes sent that earn one token.
const BYTES: f64 = 256.0;
/// The cost of a stream reset, in tokens.
const RESET: f64 = 10.0;
/// The size of the client preface (RFC 9113 section 3.4), in bytes. It precedes all frames.
const PREFACE: usize = 24;
/// The size of a frame header, in bytes.
const HEAD: usize = 9;

/// Counts the frames that a client sends.
pub(super) struct Meter {
    tokens: f64,
    since: Instant,
    head: [u8; HEAD],
    /// Bytes of the next frame header received so far.
    have: usize,
    /// Bytes to skip before the next frame header.
    skip: usize,
    flood: Option<&'static str>,
}

impl Meter {
    pub(super) fn new() -> Meter {
        Meter { tokens: BURST, since: Instant::now(), head: [0; HEAD], have: 0, skip: PREFACE, flood: None }
    }

    /// The kind of frame that the client sends too many of.
    pub(super) fn flood(&self) -> Option<&'static str> {
        self.flood
    }

    /// Counts bytes sent to the client.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.tokens = (self.tokens + bytes as f64 / BYTES).min(BURST);
    }

    /// Counts bytes received from the client.
    pub(super) fn received(&mut self, mut bytes: &[u8]) {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEAD - self.have).min(bytes.len());
            if taken == 0 {
                return;
            }
            self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == HEAD {
                self.have = 0;
                let [a, b, c, kind, ..] = self.head;
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                self.frame(kind);
            }
        }
    }

    fn frame(&mut self, kind: u8) {
        let is_empty = self.skip == 0;
        let (name, cost) = match kind {
            0 if is_empty => ("empty DATA", 1.0),
            9 if is_empty => ("empty CONTINUATION", 1.0),
            0 | 9 => return,
            1 => ("HEADERS", -REQUEST),
            2 | 16 => ("PRIORITY", 1.0),
            3 => ("RST_STREAM", RESET),
            4 => ("SETTINGS", 1.0),
            6 => ("PING", 1.0),
            8 => ("WINDOW_UPDATE", 1.0),
            _ => ("unknown", 1.0),
        };
        self.tokens = (self.tokens - cost).min(BURST);
        if self.tokens < 0.0 {
            let now = Instant::now();
            self.tokens += (now - std::mem::replace(&mut self.since, now)).as_secs_f64().min(BURST / RATE) * RATE;
            if self.tokens < 0.0 {
                self.flood = Some(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, 0, 0, 0, 0, 1]);
        bytes.extend(payload);
        bytes
    }

    fn after(frames: &[Vec<u8>], times: usize) -> Option<&'static str> {
        let mut meter = Meter::new();
        meter.received(&[0; PREFACE]);
        for _ in 0..times {
            for one in frames {
                // The result does not depend on how the bytes are split.
                let (front, back) = one.split_at(one.len() / 2);
                meter.received(front);
                meter.received(back);
            }
        }
        meter.flood()
    }

    #[test]
    fn empty_frames_are_counted() {
        let (headers, data) = (frame(1, b"head"), frame(0, b"data"));
        assert_eq!(after(&[headers.clone(), data], 100_000), None);
        for (kind, payload, name) in [
            (0, &b""[..], "empty DATA"),
            (2, b"12345", "PRIORITY"),
            (4, b"", "SETTINGS"),
            (6, b"12345678", "PING"),
            (8, b"1234", "WINDOW_UPDATE"),
            (9, b"", "empty CONTINUATION"),
            (77, b"x", "unknown"),
        ] {
            assert_eq!(after(&[frame(kind, payload)], 900), None, "{name}");
            assert_eq!(after(&[frame(kind, payload)], 10_000), Some(name));
        }
        assert_eq!(after(&[headers.clone(), frame(3, b"1234")], 100), None);
        assert_eq!(after(&[headers, frame(3, b"1234")], 1000), Some("RST_STREAM"));
    }

    #[test]
    fn clients_of_long_answers_may_open_their_windows() {
        let mut meter = Meter::new();
        meter.received(&[0; PREFACE]);
        for _ in 0..100_000 {
            meter.sent(1024);
            meter.received(&frame(8, b"1234"));
        }
        assert_eq!(meter.flood(), None);
    }
}
