//! Choices, as Apache makes them.

use super::super::accept::wishes;
use super::*;

fn variant(name: &str, media: &str, languages: &[&str], encoding: Option<&str>, length: u64) -> Variant {
    Variant {
        name: name.into(),
        media: Media::parse(media),
        languages: languages.iter().map(ToString::to_string).collect(),
        encoding: encoding.map(str::to_string),
        length: Some(length),
        ..Variant::default()
    }
}

#[test]
fn choices_as_apache_makes_them() {
    let variants = [
        variant("de", "text/html", &["de"], None, 10),
        variant("en", "text/html; qs=0.9", &["en"], None, 5),
        variant("fr.gz", "text/html", &["fr"], Some("x-gzip"), 7),
        variant("ps", "application/postscript;qs=0.5", &[], None, 1),
        variant("utf8", "text/html; charset=utf-8", &["de"], None, 20),
    ];
    let priority = ["en".to_string(), "de".to_string()];
    // Accept, Accept-Language, Accept-Encoding, Fallback: the choice.
    type Case = (&'static str, Option<&'static str>, Option<&'static str>, bool, Option<&'static str>);
    let table: [Case; 9] = [
        ("*/*", None, None, false, Some("utf8")),
        ("text/html", Some("en"), None, false, Some("en")),
        ("text/html", Some("fr"), None, false, Some("fr.gz")),
        ("text/html", Some("fr"), Some("gzip"), false, Some("fr.gz")),
        ("text/html", Some("fr"), Some("br"), false, None),
        ("text/html", Some("ja"), None, false, None),
        ("text/html", Some("ja"), None, true, Some("utf8")),
        ("application/*;q=0.3, text/html;q=0.1", Some("ja"), None, false, Some("ps")),
        ("text/html", Some("en-US"), None, false, Some("en")),
    ];
    for (accept, language, encoding, fallback, want) in table {
        let types: Vec<Media> = accept.split(',').map(|one| Media::parse(one.trim())).collect();
        let wishes = Wishes {
            typed: types.iter().any(|media| media.quality < 1.0),
            types,
            languages: language.map(wishes),
            encodings: encoding.map(wishes),
            charsets: None,
        };
        let terms = Terms::USUAL;
        let encoded = Encoded::All;
        let choice =
            Choice { wishes: &wishes, terms, priority: &priority, prefer: true, fallback, language: None, encoded };
        let chosen = choice.choose(&variants, &|at| variants[at].length);
        assert_eq!(chosen.best.map(|at| variants[at].name.as_str()), want, "{accept} {language:?} {encoding:?}");
    }
}
