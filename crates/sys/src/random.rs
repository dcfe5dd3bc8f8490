//! Random numbers that nobody can guess, and that no other process has: a forked child never repeats its parent's.

/// Random bytes from the system.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // With a valid buffer it fails only on systems without getrandom(2), which this program does not run on.
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// A random number.
pub fn number() -> u64 {
    u64::from_ne_bytes(bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        assert_ne!(bytes::<16>(), bytes::<16>());
        assert_ne!(number(), number());
    }
}
