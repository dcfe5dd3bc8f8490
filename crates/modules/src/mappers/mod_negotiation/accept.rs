//! The client's preferences: the `Accept` fields and `Negotiate`.

use http::accept::preferences;
use server::Request;

/// A media type with its parameters for negotiation, for both accepted and available types.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Media {
    /// The type, or a range of types, in lower case.
    pub(super) name: String,
    /// `q` in an `Accept` field, `qs` in a description.
    pub(super) quality: f32,
    /// `level`; HTML has a default one.
    pub(super) level: f32,
    /// `charset`, in lower case; empty if missing.
    pub(super) charset: String,
}

impl Media {
    /// Parses a type with its parameters, in the form of `Content-Type`.
    pub(super) fn parse(text: &str) -> Media {
        let mut parts = text.split(';').map(str::trim);
        let mut media = Media::plain(parts.next().unwrap_or_default(), 1.0);
        parts.for_each(|part| media.parameter(part));
        media
    }

    pub(super) fn plain(name: &str, quality: f32) -> Media {
        let name = name.to_ascii_lowercase();
        let level = match name.as_str() {
            "text/html" | INCLUDES => 2.0,
            INCLUDES_3 => 3.0,
            _ => 0.0,
        };
        Media { name, quality, level, charset: String::new() }
    }

    fn parameter(&mut self, part: &str) {
        let Some((name, value)) = part.split_once('=') else { return };
        let value = value.trim().trim_matches('"').to_ascii_lowercase();
        match name.trim().to_ascii_lowercase().as_str() {
            "q" | "qs" => self.quality = quality(&value),
            "level" => self.level = conf::values::atoi(&value) as f32,
            "charset" => self.charset = value,
            _ => {}
        }
    }

    /// Whether it is HTML, perhaps after processing of includes.
    pub(super) fn is_html(&self) -> bool {
        matches!(self.name.as_str(), "text/html" | INCLUDES | INCLUDES_3)
    }
}

/// The types of HTML with server-side includes.
pub(super) const INCLUDES: &str = "text/x-server-parsed-html";
pub(super) const INCLUDES_3: &str = "text/x-server-parsed-html3";

/// Parses a source quality: thousandths, as in the `Accept` fields; an invalid one counts as 1.
fn quality(text: &str) -> f32 {
    let field = format!("x;q={text}");
    preferences(field.as_bytes()).next().map_or(1.0, |p| f32::from(p.quality) / 1000.0)
}

/// The client's preferences. `None` if it sent no such field.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    pub(super) types: Vec<Media>,
    /// Whether an `Accept` element has a quality below 1: then wildcards are taken seriously.
    pub(super) typed: bool,
    pub(super) encodings: Option<Vec<Wish>>,
    pub(super) charsets: Option<Vec<Wish>>,
    pub(super) languages: Option<Vec<Wish>>,
}

/// A value in lower case with its quality.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wish {
    pub(super) value: String,
    pub(super) quality: f32,
}

/// The type of scripts, for the comparison of variants.
pub(super) const SCRIPT: &str = "application/x-httpd-cgi";

impl Wishes {
    /// Scripts get the best rating if there is input for them, otherwise the worst.
    pub(super) fn rate_scripts(&mut self, wanted: bool, terms: &Terms) {
        let quality = match (terms.rvsa, wanted) {
            (true, _) => 0.0,
            (false, true) => 2.0,
            (false, false) => 0.001,
        };
        self.types.push(Media::plain(SCRIPT, quality));
    }

    /// Parses the fields of a request.
    pub(super) fn of(request: &Request) -> Wishes {
        let list = |name| request.header_joined(name).map(|value| wishes(&value));
        let types = request.header_joined("Accept").map(|value| {
            preferences(value.as_bytes())
                .map(|p| {
                    let mut media = Media::plain(&String::from_utf8_lossy(p.value), f32::from(p.quality) / 1000.0);
                    String::from_utf8_lossy(p.parameters).split(';').for_each(|part| media.parameter(part));
                    media
                })
                .collect::<Vec<_>>()
        });
        let typed = types.iter().flatten().any(|media| media.quality < 1.0);
        Wishes {
            // Without the field anything is accepted.
            types: types.unwrap_or_else(|| vec![Media::plain("*/*", 1.0)]),
            typed,
            encodings: list("Accept-Encoding"),
            charsets: list("Accept-Charset"),
            languages: list("Accept-Language"),
        }
    }
}

/// The elements of a list with qualities.
pub(super) fn wishes(value: &str) -> Vec<Wish> {
    let wish = |p: http::accept::Preference<'_>| Wish {
        value: String::from_utf8_lossy(p.value).to_ascii_lowercase(),
        quality: f32::from(p.quality) / 1000.0,
    };
    preferences(value.as_bytes()).map(wish).collect()
}

/// The method of choice, and the client's demands (RFC 2295).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// The client can choose itself.
    pub(super) transparent_client: bool,
    /// Wants the list of variants with every response.
    pub(super) alternates: bool,
    /// The server may choose a variant; otherwise it sends the list.
    pub(super) may_choose: bool,
    /// By the algorithm of RFC 2296, not by Apache's.
    pub(super) rvsa: bool,
    /// The fields are taken literally.
    pub(super) exact: bool,
}

impl Terms {
    /// For clients without support for all this.
    pub(super) const USUAL: Terms =
        Terms { transparent_client: false, alternates: false, may_choose: true, rvsa: false, exact: false };

    /// Parses `Negotiate`.
    pub(super) fn of(request: &Request) -> Terms {
        let Some(negotiate) = request.header_joined("Negotiate") else { return Terms::USUAL };
        // Lynx claims this, but cannot do it.
        if negotiate == "trans" && request.header("User-Agent").is_some_and(|agent| agent.starts_with("Lynx")) {
            return Terms::USUAL;
        }
        let mut terms = Terms { may_choose: false, ..Terms::USUAL };
        for token in negotiate.split(',').map(str::trim) {
            let is_version = token.starts_with(|c: char| c.is_ascii_digit());
            if !is_version && !matches!(token, "trans" | "vlist" | "guess-small" | "*") {
                continue;
            }
            terms.transparent_client = true;
            terms.alternates = true;
            if token == "1.0" {
                (terms.may_choose, terms.rvsa, terms.exact) = (true, true, true);
            } else if token == "*" {
                (terms.may_choose, terms.exact) = (true, true);
            }
        }
        terms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_parameters() {
        let table = [
            ("text/html; qs=0.8", "text/html", 0.8, 2.0, ""),
            ("text/html; charset=ISO-8859-2; qs=0.5", "text/html", 0.5, 2.0, "iso-8859-2"),
            ("Text/Plain;Level=3;charset=\"x\"", "text/plain", 1.0, 3.0, "x"),
            ("a/b; qs=2", "a/b", 1.0, 0.0, ""),
            ("a/b; qs=.25", "a/b", 0.25, 0.0, ""),
            ("text/x-server-parsed-html3", "text/x-server-parsed-html3", 1.0, 3.0, ""),
        ];
        for (text, name, quality, level, charset) in table {
            let want = Media { name: name.into(), quality, level, charset: charset.into() };
            assert_eq!(Media::parse(text), want, "{text}");
        }
    }

    #[test]
    fn lists() {
        let got = wishes("en;q=0.5, DE, *;q=0");
        let got: Vec<_> = got.iter().map(|wish| (wish.value.as_str(), wish.quality)).collect();
        assert_eq!(got, [("en", 0.5), ("de", 1.0), ("*", 0.0)]);
    }
}
