//! The verdicts of `Require` lines, alone and together.

use super::*;

fn inside(lines: &str) -> String {
    format!("<Location />\n{lines}\n</Location>")
}

/// The messages are those of 2.4.71.
#[test]
fn directives() {
    let table = [
        ("Require all GRANTED", ""),
        ("Require", "Unknown Authz provider: "),
        ("Require foo bar", "Unknown Authz provider: foo"),
        ("Require All granted", "Unknown Authz provider: All"),
        ("Require all granted foo", "Argument for 'Require all' must be 'granted' or 'denied'"),
        ("Require method GET HEAD PROPFIND", ""),
        ("Require method get", "Invalid Method 'get'"),
        ("Require env a b", ""),
        ("Require expr \"%{REQUEST_URI} == '/x'\"", ""),
        ("Require expr %{FOO} == '/x'", "Cannot parse expression in require line: Variable 'FOO' does not exist"),
        ("Require ip", "'require ip' requires an argument"),
        ("Require ip foo", "ip address 'foo' appears to be invalid"),
        ("Require ip 10 10/8", "ip address '10/8' appears to be invalid: The specified IP address is invalid."),
        ("Require host %{FOO}", "Cannot parse expression in require line: Variable 'FOO' does not exist"),
        ("Require local\nRequire forward-dns a.example\nRequire host .example\nRequire user a\nRequire valid-user", ""),
        ("Require not ip 10", "negative Require directive has no effect in <RequireAny> directive"),
        (
            "<RequireNone>\nRequire ip 10\n</RequireNone>",
            "<RequireNone> directive has no effect in <RequireAny> directive",
        ),
        (
            "<RequireAll>\n<RequireNone>\nRequire not ip 10\n</RequireNone>\n</RequireAll>",
            "negative Require directive has no effect in <RequireNone> directive",
        ),
        ("<RequireAll>\n</RequireAll>", "<RequireAll> directive contains no authorization directives"),
        (
            "<RequireAll x>\nRequire all granted\n</RequireAll>",
            "<RequireAll> directive doesn't take additional arguments",
        ),
        ("<RequireAll>\nAuthMerging And\nAuthName x\nRequire all granted\n</RequireAll>", ""),
        ("<RequireAll>\nOptions All\n</RequireAll>", "Options not allowed in <RequireAll> context"),
        (
            "<RequireAll>\n<Files x>\n</Files>\n</RequireAll>",
            "<Files> cannot occur within <Limit> or <LimitExcept> section",
        ),
        ("<RequireAll>\n<Limit GET>\nRequire all granted\n</Limit>\n</RequireAll>", ""),
        ("<Limit GET>\n<RequireAll>\nRequire all granted\n</RequireAll>\n</Limit>", ""),
        ("AuthMerging Foo", "AuthMerging must be one of: Off | And | Or"),
        ("AuthzSendForbiddenOnFailure foo", "AuthzSendForbiddenOnFailure must be On or Off"),
    ];
    for (lines, want) in table {
        crate::testing::check(&[(&inside(lines), want)]);
    }
    crate::testing::check(&[
        ("Require all granted", "Require not allowed here"),
        ("<VirtualHost *>\nRequire all granted\n</VirtualHost>", "Require not allowed in <VirtualHost> context"),
        ("<AuthzProviderAlias ip lan \"10 127\">\n</AuthzProviderAlias>\n<Location />\nRequire lan\n</Location>", ""),
        (
            "<AuthzProviderAlias ip lan foo>\n</AuthzProviderAlias>",
            "Can't parse 'Require ip foo': ip address 'foo' appears to be invalid",
        ),
        ("<AuthzProviderAlias foo lan x>\n</AuthzProviderAlias>", "Unknown Authz provider: foo"),
        (
            "<AuthzProviderAlias ip>\n</AuthzProviderAlias>",
            "<AuthzProviderAlias> directive requires additional arguments",
        ),
        (
            "<VirtualHost *>\n<AuthzProviderAlias ip lan 10>\n</AuthzProviderAlias>\n</VirtualHost>",
            "<AuthzProviderAlias> cannot occur within <VirtualHost> section",
        ),
    ]);
}

fn complaints(lines: &str) -> Vec<String> {
    let applied = crate::testing::apply(&inside(lines)).expect("correct lines");
    applied.server.get::<Complaints>().texts.iter().cloned().collect()
}

#[test]
fn sections_that_let_nobody_in_are_reported() {
    let text = "AH01624: <RequireAll> directive contains only negative authorization directives";
    assert_eq!(complaints("<RequireAll>\nRequire not ip 10\n</RequireAll>"), [text]);
    assert_eq!(
        complaints("<RequireAll>\nRequire not ip 10\n<RequireNone>\nRequire ip 11\n</RequireNone>\n</RequireAll>"),
        [text]
    );
    let fine = "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 11\n</RequireNone>\n</RequireAll>";
    assert!(complaints(fine).is_empty());
}

#[test]
fn inner_rules_replace_unless_they_are_merged() {
    let rules = |kind| Some(Arc::new(Group::new(kind)));
    let origin = conf::Origin { source: Arc::new(conf::Source::new("f")), line: 1 };
    let wanted = |merging: Option<Merging>, rules| Wanted { merging: merging.map(|m| (m, origin.clone())), rules };
    let kind = |wanted: &Wanted| wanted.rules.as_ref().map(|rules| rules.kind());
    let outer = wanted(None, rules(Combination::Any));
    for (inner, want) in [
        (wanted(None, None), Some(Combination::Any)),
        (wanted(None, rules(Combination::All)), Some(Combination::All)),
        (wanted(Some(Merging::Off), None), None),
        (wanted(Some(Merging::And), None), Some(Combination::Any)),
        (wanted(Some(Merging::And), rules(Combination::All)), Some(Combination::MergedAll)),
        (wanted(Some(Merging::Or), rules(Combination::All)), Some(Combination::MergedAny)),
    ] {
        assert_eq!(kind(&Wanted::merge(&outer, &inner)), want, "{inner:?}");
    }
    let nothing = Wanted::default();
    assert_eq!(
        kind(&Wanted::merge(&nothing, &wanted(Some(Merging::And), rules(Combination::All)))),
        Some(Combination::All)
    );
}
