//! Types and languages by extension.

use super::*;

#[test]
fn lines_as_measured() {
    crate::testing::check(&[
        (
            "AddType text/x",
            "AddType requires at least two arguments, a mime type followed by one or more file extensions",
        ),
        (
            "AddType \"\" .x",
            "AddType requires at least two arguments, a mime type followed by one or more file extensions",
        ),
        (
            "AddCharset x",
            "AddCharset requires at least two arguments, a charset (e.g., iso-2022-jp), followed by one or more file extensions",
        ),
        (
            "AddOutputFilter x",
            "AddOutputFilter requires at least two arguments, output filter name (or ; delimited names) followed by one or more file extensions",
        ),
        ("RemoveHandler", "RemoveHandler requires at least one argument, one or more file extensions"),
        (
            "DefaultLanguage a b",
            "DefaultLanguage takes one argument, language to use for documents with no other language file extension",
        ),
        ("TypesConfig", "TypesConfig takes one argument, the MIME types config file"),
        ("ModMimeUsePathInfo on", "ModMimeUsePathInfo not allowed here"),
        ("<Directory />\nModMimeUsePathInfo yes\n</Directory>", "ModMimeUsePathInfo must be On or Off"),
        ("MultiviewsMatch x", "Unrecognized option 'x'"),
        ("MultiviewsMatch Any Handlers", "Handlers is incompatible with Any and NegotiatedOnly"),
        ("MultiviewsMatch Handlers Any", "Any is incompatible with NegotiatedOnly, Filters and Handlers"),
        ("MultiviewsMatch Filters NegotiatedOnly", "NegotiatedOnly is incompatible with Any, Filters and Handlers"),
        ("MultiviewsMatch NegotiatedOnly Filters", "Filters is incompatible with Any and NegotiatedOnly"),
        ("MultiviewsMatch Handlers Filters\nTypesConfig x\nAddType junk .x", ""),
    ]);
}

#[test]
fn names_at_their_dots() {
    let parts = |name| {
        let Parts { first, extensions } = Parts::of(name);
        format!("{first}|{}", extensions.collect::<Vec<_>>().join("|"))
    };
    let table = [
        ("a.b.html", "a|b|html"),
        (".png", ".png|"),
        ("..txt.html", "..txt|html"),
        ("bad..html", "bad|html"),
        ("noext", "noext|"),
        ("", "|"),
        ("...", "...|"),
        ("a.", "a|"),
    ];
    for (name, want) in table {
        assert_eq!(parts(name), want, "{name}");
    }
}

#[test]
fn unclaimed_extensions() {
    let types = Types::parse("text/html html\n".into()).unwrap_or_default();
    let lines = "AddLanguage fr .fr\nAddHandler h .h\nAddOutputFilter f .f\n";
    let cases = [
        ("", "a.html.fr", Some("a")),
        ("", "a.X.html.h", Some("a X h")),
        ("", "a.h.f", None),
        ("", "a", None),
        ("MultiviewsMatch Handlers", "a.h.f", Some("a f")),
        ("MultiviewsMatch Filters Handlers", "a.h.f.q", Some("a q")),
        ("MultiviewsMatch Any", "a.q", Some("a")),
    ];
    for (line, name, want) in cases {
        let dir = crate::testing::apply(&format!("{lines}{line}")).map(|applied| applied.dir).unwrap_or_default();
        let got = unclaimed_parts(dir.get::<MimeDir>(), Some(&types), name).map(|parts| parts.join(" "));
        assert_eq!(got.as_deref(), want, "{line} {name}");
    }
}
