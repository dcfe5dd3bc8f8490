//! Accepted and refused lines, and lists with quotes.

use super::*;

#[test]
fn lines_are_taken_or_refused() {
    crate::testing::check(&[
        ("Header set X-A b", ""),
        ("Header always set X-A: b env=!x", ""),
        ("Header onsuccess edit* Set-Cookie ^(.*)$ $1;Secure expr=true", ""),
        ("Header unset X-A env=x", ""),
        ("Header echo ^X-", ""),
        ("Header note X-A note", ""),
        ("Header set X-A b early\n<Location /x>\nHeader set X-A b early\n</Location>", ""),
        ("Header set X-A \"%e %s %{HTTPS}s\"", ""),
        ("RequestHeader setifempty X-A expr=%{REQUEST_URI}", ""),
        ("Header set X-A", "Header requires three arguments"),
        ("RequestHeader append X-A", "Header requires three arguments"),
        ("Header edit X-A b", "Header edit requires a match and a substitution"),
        ("Header edit X-A ( b", "Header edit regex could not be compiled"),
        ("Header set X-A b c", "Unknown parameter: c"),
        ("Header set X-A b env=c d", "Too many arguments to directive"),
        ("Header set X-A b c d e", "Header has too many arguments"),
        ("Header unset X-A b c", "header unset takes two arguments"),
        ("Header set X-A %q", "Unrecognized header format %q"),
        (
            "Header frobnicate X-A b",
            "first argument must be 'add', 'set', 'setifempty', 'append', 'merge', 'unset', 'echo', 'note', 'edit', or \
             'edit*'.",
        ),
    ]);
}

#[test]
fn items_of_lists() {
    for (list, item, has) in [
        ("a, b", "b", true),
        ("a, b", "B", false),
        ("\"a, b\"", "b", false),
        ("\"a, b\", c", "c", true),
        ("", "a", false),
        ("ab", "a", false),
    ] {
        assert_eq!(has_item(list, item), has, "{list} {item}");
    }
}
