//! Unique numbers across threads, processes and starts of the server: they tell requests and connections apart in logs.

use std::cell::Cell;

/// A unique number.
///
/// Each thread draws 128 random bits, and counts from there: no thread needs to know of another, and only the first
/// number of a thread costs a system call.
#[derive(Clone, Copy, Debug)]
pub struct Unique {
    random: [u64; 2],
    count: u64,
}

impl Unique {
    /// The next number of this thread.
    pub fn draw() -> Unique {
        thread_local! {
            static NEXT: Cell<Option<Unique>> = const { Cell::new(None) };
        }
        let this =
            NEXT.get().unwrap_or_else(|| Unique { random: [sys::random::number(), sys::random::number()], count: 0 });
        NEXT.set(Some(Unique { count: this.count + 1, ..this }));
        this
    }

    /// As 16 bytes, in which a thread can count to 2^48.
    pub fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.random[0].to_be_bytes());
        bytes[8..].copy_from_slice(&self.random[1].to_be_bytes());
        bytes[10..].copy_from_slice(&self.count.to_be_bytes()[2..]);
        bytes
    }

    /// As a number, never 0. Successive numbers of a thread do not look alike.
    pub fn number(self) -> u64 {
        // An odd number, so that no number repeats before all have come (2^64 divided by the golden ratio).
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        self.random[0].wrapping_add(self.count.wrapping_mul(STEP)).max(1)
    }
}

/// Encodes bytes as letters, digits, `-` and `_` (RFC 4648 section 5, without padding).
pub fn letters(bytes: &[u8]) -> String {
    let mut text = String::new();
    push_letters(bytes, &mut text);
    text
}

/// Appends bytes as such letters.
pub fn push_letters(bytes: &[u8], text: &mut String) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let end = text.len() + (bytes.len() * 8).div_ceil(6);
    text.reserve(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        text.extend([18, 12, 6, 0].map(|shift| char::from(ALPHABET[(group >> shift) as usize & 63])));
    }
    text.truncate(end);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn letters_of_rfc_4648() {
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(letters(bytes.as_bytes()), text);
        }
        assert_eq!(letters(&[0xfb, 0xff, 0xfe]), "-__-");
        let mut text = String::from("before ");
        push_letters(b"fo", &mut text);
        assert_eq!(text, "before Zm8");
    }

    #[test]
    fn nothing_comes_twice() {
        let draw = || (0..10_000).map(|_| Unique::draw()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(draw)).collect();
        let all: Vec<Unique> = threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect();
        assert_eq!(all.len(), 80_000);
        assert_eq!(all.iter().map(|one| one.bytes()).collect::<HashSet<_>>().len(), all.len());
        assert_eq!(all.iter().map(|one| one.number()).collect::<HashSet<_>>().len(), all.len());
    }
}
