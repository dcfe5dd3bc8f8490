//! A pattern is compiled or refused, its groups lie within the subject, and the fast paths around PCRE2 (literal texts,
//! a pre-check) give the same result as PCRE2.
//!
//! An input is a byte of options, a line with the pattern, and the subject.

#![no_main]

use conf::pattern::{Captures, Flags, Regex, substitute, substitute_in};
use http::text::{from_bytes, to_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((options, rest)) = data.split_first() else { return };
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return };
    let (pattern, subject) = (from_bytes(&rest[..end]), from_bytes(&rest[end + 1..]));
    let is_set = |bit: u8| options & bit != 0;
    let flags = Flags {
        ignore_case: is_set(1),
        multi_line: is_set(2),
        dot_all: !is_set(4),
        dollar_end_only: !is_set(8),
        extended: is_set(16),
    };
    let Ok(regex) = Regex::new(&pattern, flags) else { return };
    // An empty group disables the fast paths: the pattern is no longer literal, and the pre-check decides nothing.
    let asked = Regex::new(&format!("(?:){pattern}"), flags);

    let bytes = to_bytes(&subject);
    let (mut captures, mut in_bytes) = (Captures::default(), Captures::default());
    let found = regex.captures(&subject, &mut captures);
    assert_eq!(regex.captures_in(&bytes, 0, &mut in_bytes), found);
    let Ok(found) = found else { return };
    assert_eq!(found, !captures.is_empty());
    if let Ok(yes) = regex.is_match(&subject) {
        assert_eq!(yes, found);
    }
    // Items such as `(*UTF)` work only at the start of a pattern, where the empty group is now.
    if let (Ok(asked), false) = (asked, pattern.starts_with("(*")) {
        if let Ok(yes) = asked.is_match(&subject) {
            assert_eq!(yes, found);
        }
    }
    for group in 0..=regex.groups() {
        let span = captures.span(group);
        assert_eq!(span, in_bytes.span(group));
        let text = span.map(|span| &bytes[span]);
        assert_eq!(captures.get(group, &subject).map(to_bytes).as_deref(), text);
    }
    let (mut text, mut raw) = (String::new(), Vec::new());
    substitute(&mut text, "a$0b$1$2\\$", &subject, &captures, usize::MAX).expect("no limit");
    substitute_in(&mut raw, "a$0b$1$2\\$", &bytes, &captures, usize::MAX).expect("no limit");
    assert_eq!(*to_bytes(&text), *raw);
    assert_eq!(from_bytes(&raw), text);
    // Whatever does not fit is not made.
    let (max, mut short) = (raw.len() / 2, Vec::new());
    let fits = substitute_in(&mut short, "a$0b$1$2\\$", &bytes, &captures, max).is_ok();
    assert!(short.len() <= max && !fits);
});
