//! The table in `testdata` records the results of `SetEnvIfExpr` in Apache 2.4.71.

use super::*;

/// The outcome in the table's format: four groups in brackets, `false`, or `error`.
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

/// The table was made with PCRE2 10.42; these two have another meaning since 10.43 and 10.45.
#[test]
fn patterns_that_a_newer_pcre2_reads_differently() {
    assert_eq!(outcome("a{,2}", "aaa"), "[aa][][][]");
    assert_eq!(outcome(r"\x", "a"), "error");
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
    assert_eq!(regex.names(), [(1, "Site".to_string()), (3, "page".to_string())]);
    assert_eq!(Regex::new("plain", Flags::default()).unwrap().names(), []);
}

#[test]
fn further_matches() {
    for pattern in ["ab", "a(b)"] {
        let regex = Regex::new(pattern, Flags::default()).unwrap();
        let mut captures = Captures::default();
        assert_eq!(regex.captures_in(b"abxab", 1, &mut captures), Ok(true));
        assert_eq!(captures.span(0), Some(3..5));
        assert_eq!(regex.captures_in(b"abxab", 4, &mut captures), Ok(false));
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
        substitute(&mut out, template, subject, &captures, 100).expect("short");
        assert_eq!(out, expected, "{template}");
    }
}

#[test]
fn backtracking_has_a_bound() {
    let subject = "a".repeat(40) + "b";
    let regex = Regex::new(r"^(a+)+\1$", Flags::default()).unwrap();
    let told = regex.is_match(&subject).expect_err("too many steps");
    assert_eq!(told.to_string(), r"regular expression /^(a+)+\1$/ cannot be matched: match limit exceeded");
    assert_eq!(regex.captures(&subject, &mut Captures::default()), Err(told));
}

#[test]
fn reasons_for_invalid_patterns() {
    let told = |pattern| Regex::new(pattern, Flags::default()).expect_err("no pattern").to_string();
    assert_eq!(told("(a"), "missing closing parenthesis at offset 2");
    assert_eq!(told("[a"), "missing terminating ] for character class at offset 2");
}

/// A non-ASCII character counts as several bytes, a byte that is not a character as one.
#[test]
fn bytes_are_matched() {
    let text = |bytes: &[u8]| from_bytes(bytes).into_owned();
    let groups = |pattern: &str, subject: &str| {
        let mut captures = Captures::default();
        let found = Regex::new(pattern, Flags::default()).unwrap().captures(subject, &mut captures).unwrap();
        found.then(|| [0, 1, 2].map(|group| captures.get(group, subject).map(str::to_string)))
    };
    let some = |bytes: &[u8]| Some(text(bytes));
    assert_eq!(groups("^.$", "é"), None);
    assert_eq!(groups("^(.)(.)$", "é"), Some([some("é".as_bytes()), some(b"\xc3"), some(b"\xa9")]));
    assert_eq!(groups("(*UTF)^(.)$", "é"), Some([some("é".as_bytes()), some("é".as_bytes()), None]));
    assert_eq!(groups("é+", "éé"), Some([some("é".as_bytes()), None, None]));
    assert_eq!(groups("(?i)É", "é"), None);
    assert_eq!(groups("(*UTF)(?i)É", "é"), Some([some("é".as_bytes()), None, None]));
    assert_eq!(groups("(x)", &text(b"\xff\xfex")), Some([some(b"x"), some(b"x"), None]));
    assert_eq!(groups(r"^(.)\xfe", &text(b"\xff\xfex")), Some([some(b"\xff\xfe"), some(b"\xff"), None]));
    assert_eq!(groups(&text(b"\xc3"), "é"), Some([some(b"\xc3"), None, None]));
    assert_eq!(groups("[^x]x", &text(b"\xffx")), Some([some(b"\xffx"), None, None]));
    // A character of the private range stands for its own four bytes.
    assert_eq!(
        groups("^(..)..$", &text("\u{10ff41}".as_bytes())).map(|found| found[1].clone()),
        Some(some(b"\xf4\x8f"))
    );

    // The parts of a split character become one character again.
    let mut captures = Captures::default();
    let apart = Regex::new("^(.)(.)$", Flags::default()).unwrap();
    assert_eq!(apart.captures("é", &mut captures), Ok(true));
    let mut out = String::from("é");
    substitute(&mut out, "$1$2-$2$1", "é", &captures, 100).expect("short");
    assert_eq!(out, format!("éé-{}", text(b"\xa9\xc3")));
    let mut bytes = Vec::new();
    substitute_in(&mut bytes, "$1é$2$1", "é".as_bytes(), &captures, 5).expect("short enough");
    assert_eq!(substitute_in(&mut bytes, "$1", "é".as_bytes(), &captures, 5), Err(TooLong(5)));
    assert_eq!(bytes, b"\xc3\xc3\xa9\xa9\xc3");
}

/// The quick check gives the same results as PCRE2 alone.
#[test]
fn a_glance_is_never_wrong() {
    let patterns = [
        ".*",
        "^.*$",
        "(.*)",
        "^(.*)$",
        "^/a",
        "^/a+b",
        "/long(er)?$",
        "^/ab?c",
        "^a{2}bc",
        "x{,2}yz",
        r"^/a\.b",
        "a.b|cd",
        "^(?i)/a",
        r"\Qab\E",
        "ab.",
        "^é.",
        "[ab]cd",
        "^[^/]+/x{0}yz",
        r"^\x61b.",
    ];
    let subjects =
        ["", "/a", "/ab", "/aab", "/long", "/longer", "ab", "aabc", "a\nb", "yz", "xxyz", "/A", "cd", "b/yz", "éa"];
    for flags in
        [Flags::default(), Flags::ignoring_case(), Flags { multi_line: true, dot_all: false, ..Flags::default() }]
    {
        for pattern in patterns {
            let code = Code::new(pattern.as_bytes(), flags.options()).unwrap();
            for subject in subjects {
                let found = Regex::new(pattern, flags).unwrap().is_match(subject);
                assert_eq!(found.ok(), code.is_match(subject.as_bytes()).ok(), "{pattern} {subject} {flags:?}");
            }
        }
    }
}
