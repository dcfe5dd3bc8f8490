//! The table in `testdata` was made by asking Apache 2.4.71 through `SetEnvIfExpr`.

use super::*;

/// In the words of the table: four groups in brackets, `false`, or `error`.
fn outcome(pattern: &str, subject: &str) -> String {
    let Ok(regex) = Regex::new(pattern, Flags::default()) else {
        return "error".to_owned();
    };
    let mut captures = Captures::default();
    let matched = regex.captures(subject, &mut captures).unwrap();
    assert_eq!(regex.is_match(subject), Ok(matched), "{pattern}");
    if !matched {
        return "false".to_owned();
    }
    let groups = [0, 1, 2, 9].map(|n| captures.get(n, subject).unwrap_or_default());
    groups.map(|group| format!("[{group}]")).concat()
}

#[test]
fn patterns_match_as_in_apache() {
    let mut differences = String::new();
    for line in include_str!("../../testdata/patterns.txt").lines() {
        let (row, expected) = line.rsplit_once('\t').expect("three columns");
        let (pattern, subject) = row.split_once('\t').expect("three columns");
        let found = outcome(pattern, subject);
        if found != expected {
            differences += &format!("\n{pattern} on {subject}: Apache {expected}, we {found}");
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// Apache accepts these; they have no counterpart here.
#[test]
fn what_is_not_supported_is_an_error() {
    for pattern in [
        "(?R)",
        "(?1)(a)",
        "(?-1)",
        "(?&n)(?<n>a)",
        "(?|(a)|(b))",
        "(?^)a",
        "(?J)a",
        "a{2}{3}",
        "(*ACCEPT)a",
        r"\X",
        r"\C",
    ] {
        assert!(Regex::new(pattern, Flags::default()).is_err(), "{pattern}");
    }
}

#[test]
fn options_end_with_their_group() {
    for (pattern, subject, expected) in [
        ("(a(?i)b|c)d", "Cd", true),
        ("(a(?i)b|c)d", "CD", false),
        ("(a(?i)b|c)d", "aBd", true),
        ("(?i)a|b", "B", true),
        ("(?x) a b # c", "ab", true),
        ("(?i)a(?-i)b", "Ab", true),
        ("(?i)a(?-i)b", "AB", false),
    ] {
        let regex = Regex::new(pattern, Flags::default()).unwrap();
        assert_eq!(regex.is_match(subject), Ok(expected), "{pattern} {subject}");
    }
}

fn is_literal(pattern: &str, flags: Flags) -> bool {
    let regex = Regex::new(pattern, flags).unwrap();
    matches!(regex.matcher, Matcher::Literal(_))
}

#[test]
fn plain_patterns_need_no_engine() {
    for pattern in ["Mozilla/2", "^WebDrive", r"MSIE 4\.0b2;", r"^\.ht", r"\.txt$", "^/a$", "", "^", "$", "]", "a}"] {
        assert!(is_literal(pattern, Flags::default()), "{pattern}");
        assert!(is_literal(pattern, Flags::ignoring_case()), "{pattern}");
    }
    for pattern in [".", "a.b", "[a]", "a|b", "a+", r"\d", "(a)", "a$b", "a^", "{a"] {
        assert!(!is_literal(pattern, Flags::default()), "{pattern}");
    }
}

#[test]
fn literals_without_case() {
    for (pattern, subject, expected) in [
        ("curl", "xCURLx", true),
        ("^curl", "CuRl/7", true),
        ("^curl", "xcurl", false),
        (r"\.TXT$", "a.txt", true),
        ("^a$", "A", true),
        ("^a$", "AA", false),
        ("aab", "aAAB", true),
        ("k", "\u{212a}", false),
    ] {
        let regex = Regex::new(pattern, Flags::ignoring_case()).unwrap();
        assert_eq!(regex.is_match(subject), Ok(expected), "{pattern} {subject}");
    }
}

#[test]
fn default_flags() {
    let matches = |pattern, flags, subject| Regex::new(pattern, flags).unwrap().is_match(subject);
    let strict = Flags::default();
    let loose = Flags { dollar_end_only: false, dot_all: false, ..strict };
    assert_eq!(matches("a.b", strict, "a\nb"), Ok(true));
    assert_eq!(matches("a.b", loose, "a\nb"), Ok(false));
    assert_eq!(matches("a$", strict, "a\n"), Ok(false));
    assert_eq!(matches("a$", loose, "a\n"), Ok(true));
    assert_eq!(matches("(a)$", loose, "a\nb"), Ok(false));
    let extended = Flags { extended: true, ..strict };
    assert_eq!(matches("a b # c", extended, "ab"), Ok(true));
}

#[test]
fn groups_have_numbers_and_names() {
    let regex = Regex::new("(?<Site>[^/]+)/(x)(?<page>.*)", Flags::default()).unwrap();
    assert_eq!(regex.groups(), 3);
    let names: Vec<_> = regex.names().collect();
    assert_eq!(names, [(1, "Site"), (3, "page")]);
    assert_eq!(Regex::new("plain", Flags::default()).unwrap().names().count(), 0);
}

#[test]
fn further_matches() {
    for pattern in ["ab", "a(b)"] {
        let regex = Regex::new(pattern, Flags::default()).unwrap();
        let mut captures = Captures::default();
        assert_eq!(regex.captures_at("abxab", 1, &mut captures), Ok(true));
        assert_eq!(captures.span(0), Some(3..5));
        assert_eq!(regex.captures_at("abxab", 4, &mut captures), Ok(false));
        assert!(captures.is_empty());
    }
}

/// Values taken with `SetEnvIf Request_URI "^/(t)/(f)?" "V=..."` for `/t/f.txt`.
#[test]
fn substitution_is_apaches() {
    let subject = "/t/f.txt";
    let regex = Regex::new("^/(t)/(f)?", Flags::default()).unwrap();
    let mut captures = Captures::default();
    assert_eq!(regex.captures(subject, &mut captures), Ok(true));
    for (template, expected) in [
        ("&", "&"),
        ("$0", "/t/f"),
        ("$1", "t"),
        ("$9", ""),
        (r"\$1", "$1"),
        (r"\&", "&"),
        (r"\\x", r"\x"),
        (r"\x", "x"),
        ("[&]$1&$", "[&]t&$"),
        ("$$1", "$t"),
        ("$10", "t0"),
        ("${1}", "${1}"),
        (r"a\", r"a\"),
        ("$a", "$a"),
        (r"\\$1", r"\t"),
        ("é$1é", "été"),
    ] {
        let mut out = String::new();
        substitute(&mut out, template, subject, &captures);
        assert_eq!(out, expected, "{template}");
    }
}

#[test]
fn backtracking_has_a_bound() {
    let subject = "a".repeat(40) + "b";
    let regex = Regex::new(r"^(a+)+\1$", Flags::default()).unwrap();
    assert_eq!(regex.is_match(&subject), Err(regex.too_costly()));
    assert_eq!(regex.captures(&subject, &mut Captures::default()), Err(regex.too_costly()));
    let linear = Regex::new("^(a+)+$", Flags::default()).unwrap();
    assert_eq!(linear.is_match(&subject), Ok(false));
}
