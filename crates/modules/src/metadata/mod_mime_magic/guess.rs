//! Guesses the type of a file that no rule knows: by words typical of some kinds of texts, and by archive headers.

/// How much of a text is searched for words.
const WORDS: usize = 1024;

const HTML: &str = "text/html";
const PLAIN: &str = "text/plain";
const MAIL: &str = "message/rfc822";
const NEWS: &str = "message/news";

/// Words, and the type of a text that contains one of them first.
const NAMES: [(&str, &str); 40] = [
    ("<html>", HTML),
    ("<HTML>", HTML),
    ("<head>", HTML),
    ("<HEAD>", HTML),
    ("<title>", HTML),
    ("<TITLE>", HTML),
    ("<h1>", HTML),
    ("<H1>", HTML),
    ("<!--", HTML),
    ("<!DOCTYPE HTML", HTML),
    ("/*", PLAIN),
    ("#include", PLAIN),
    ("char", PLAIN),
    ("The", PLAIN),
    ("the", PLAIN),
    ("double", PLAIN),
    ("extern", PLAIN),
    ("float", PLAIN),
    ("real", PLAIN),
    ("struct", PLAIN),
    ("union", PLAIN),
    ("CFLAGS", PLAIN),
    ("LDFLAGS", PLAIN),
    ("all:", PLAIN),
    (".PRECIOUS", PLAIN),
    (".ascii", PLAIN),
    (".asciiz", PLAIN),
    (".byte", PLAIN),
    (".even", PLAIN),
    (".globl", PLAIN),
    ("clr", PLAIN),
    ("(input,", PLAIN),
    ("dcl", PLAIN),
    ("Received:", MAIL),
    (">From", MAIL),
    ("Return-Path:", MAIL),
    ("Cc:", MAIL),
    ("Newsgroups:", NEWS),
    ("Path:", NEWS),
    ("Organization:", NEWS),
];

/// The length of a record of an archive.
const RECORD: usize = 512;

/// The likely type of a file with this beginning, which ends with a NUL.
pub(super) fn guess(bytes: &[u8]) -> Option<String> {
    let at = |index: usize| bytes.get(index).copied().unwrap_or_default();
    let is_space = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b;
    if at(0) == b'.' {
        let start = 1 + bytes[1..].iter().take_while(|byte| is_space(**byte)).count();
        let (one, two) = (at(start), at(start + 1));
        if (one.is_ascii_alphanumeric() || one == b'\\') && (two.is_ascii_alphanumeric() || two == b'"') {
            return Some("application/x-troff".into());
        }
    }
    // Fortran.
    if matches!(at(0), b'c' | b'C') && is_space(at(1)) {
        return Some(PLAIN.into());
    }
    let text = &bytes[..bytes.len().min(WORDS)];
    let has_escapes = text.contains(&0x1b);
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    for word in text.split(|byte| b" \t\n\r\x0c".contains(byte)).filter(|word| !word.is_empty()) {
        let known = NAMES.iter().find(|(name, _)| name.as_bytes() == word);
        if let Some((_, kind)) = known {
            return Some(if has_escapes { format!("{kind} (with escape sequences)") } else { kind.to_string() });
        }
    }
    is_archive(bytes).then(|| "application/x-tar".into())
}

/// Whether the sum of a record's bytes equals the one stored in it, as in a tar archive.
fn is_archive(bytes: &[u8]) -> bool {
    const SUM: std::ops::Range<usize> = 148..156;
    let Some(record) = bytes.get(..RECORD) else { return false };
    let blanks = u64::from(b' ') * SUM.len() as u64;
    let all = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    octal(&record[SUM]) == Some(all(record) - all(&record[SUM]) + blanks)
}

/// A number in octal digits, perhaps with blanks around it.
fn octal(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii_start();
    if digits.is_empty() {
        return None;
    }
    let count = digits.iter().take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    let ends_well = digits.get(count).is_none_or(|byte| *byte == 0 || byte.is_ascii_whitespace());
    ends_well.then(|| digits[..count].iter().fold(0, |value, digit| value << 3 | u64::from(digit - b'0')))
}
