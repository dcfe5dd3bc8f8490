//! The choice among variants: rates each for the client, and finds the best.
//!
//! Apache manual: "Content Negotiation"; RFC 2296 for clients that ask for it.

use std::cmp::Ordering;

use super::accept::{INCLUDES, INCLUDES_3, Media, Terms, Wish, Wishes};

/// The most variants of a resource: each is examined for each request, and listed in the response.
pub(super) const VARIANTS_MAX: usize = 1000;

/// One of several files, or texts in a type map, that stand for the same resource.
#[derive(Clone, Debug, Default)]
pub(super) struct Variant {
    /// The name of the file, relative to the directory; for a text inside a type map, the map's own.
    pub(super) name: String,
    /// The text itself, if it is in the type map.
    pub(super) body: Option<bytes::Bytes>,
    /// The type; its quality is that of the source.
    pub(super) media: Media,
    /// In lower case, except for `DefaultLanguage`, which keeps its spelling, and is compared with `Accept-Language`
    /// that way.
    pub(super) languages: Vec<String>,
    pub(super) encoding: Option<String>,
    pub(super) description: String,
    /// The length, if known.
    pub(super) length: Option<u64>,
}

impl Variant {
    fn is_plain(&self) -> bool {
        self.encoding.as_deref().is_none_or(|coding| matches!(coding, "" | "7bit" | "8bit" | "binary"))
    }
}

/// How well a variant suits the client in each respect.
#[derive(Clone, Copy, Debug)]
struct Rating {
    media: f32,
    language: f32,
    encoding: f32,
    charset: f32,
    /// The position in `LanguagePriority`.
    priority: Option<usize>,
    level: f32,
    /// Whether nothing was guessed.
    definite: bool,
}

/// What the choice depends on: the client's wishes, and the settings.
pub(super) struct Choice<'a> {
    pub(super) wishes: &'a Wishes,
    pub(super) terms: Terms,
    /// `LanguagePriority`, in lower case.
    pub(super) priority: &'a [String],
    /// `ForceLanguagePriority Prefer`
    pub(super) prefer: bool,
    /// `ForceLanguagePriority Fallback`
    pub(super) fallback: bool,
    /// `prefer-language`
    pub(super) language: Option<&'a str>,
    /// `no-gzip` and `gzip-only-text/html`: the encoded variants to consider.
    pub(super) encoded: Encoded,
}

/// The encoded variants to consider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoded {
    All,
    Html,
    None,
}

/// The result of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The best variant, if any suits.
    pub(super) best: Option<usize>,
    /// May be sent; otherwise the client gets the list.
    pub(super) sure: bool,
}

impl Choice<'_> {
    /// Chooses. `length` finds the length of a variant; called only if everything else is equal.
    pub(super) fn choose(&self, variants: &[Variant], length: &dyn Fn(usize) -> Option<u64>) -> Chosen {
        if self.language.is_some() {
            let chosen = self.choose_for(variants, self.language, length);
            if chosen.best.is_some() && chosen.sure {
                return chosen;
            }
        }
        self.choose_for(variants, None, length)
    }

    fn choose_for(
        &self,
        variants: &[Variant],
        language: Option<&str>,
        length: &dyn Fn(usize) -> Option<u64>,
    ) -> Chosen {
        let no_language = self.no_language(variants);
        let mut best: Option<(usize, Rating)> = None;
        for (index, variant) in variants.iter().enumerate() {
            if self.is_hidden(variant, language) {
                continue;
            }
            let rating = self.rate(variant, language.is_some(), no_language);
            if !self.terms.may_choose {
                continue;
            }
            let better = if self.terms.rvsa {
                better_by_rvsa(variants, (index, &rating), best.as_ref())
            } else {
                better(variants, (index, &rating), best.as_ref(), length)
            };
            if better {
                best = Some((index, rating));
            }
        }
        let sure = best.is_some_and(|(_, rating)| !self.terms.rvsa || rating.definite);
        Chosen { best: best.map(|(index, _)| index), sure }
    }

    /// The quality of a variant without a language if others have one.
    fn no_language(&self, variants: &[Variant]) -> f32 {
        if !self.terms.exact && variants.iter().any(|v| !v.languages.is_empty()) { 0.0001 } else { 1.0 }
    }

    /// Whether a variant is out of consideration.
    fn is_hidden(&self, variant: &Variant, language: Option<&str>) -> bool {
        let encoded = !variant.is_plain() && variant.encoding.as_deref() != Some("identity");
        let hidden = match self.encoded {
            Encoded::All => false,
            Encoded::Html => encoded && !variant.media.name.starts_with("text/html"),
            Encoded::None => encoded,
        };
        hidden || language.is_some_and(|wanted| !variant.languages.iter().any(|have| have == wanted))
    }

    /// Why `best` won, for an explanation: each other variant, and its disadvantage.
    pub(super) fn reason(&self, variants: &[Variant], best: usize, length: &dyn Fn(usize) -> Option<u64>) -> String {
        let language = self.language.filter(|wanted| self.choose_for(variants, Some(wanted), length).sure);
        let rate = |at: usize| self.rate(&variants[at], language.is_some(), self.no_language(variants));
        let why = |at: usize| match rate(at) {
            _ if self.is_hidden(&variants[at], language) => "not considered",
            _ if self.terms.rvsa => "quality",
            rating if !rating.is_acceptable(&variants[at]) => "not acceptable",
            rating => {
                difference(variants, (best, &rate(best)), (at, &rating), length).map_or("comes later", |(_, by)| by)
            }
        };
        let others: Vec<String> = (0..variants.len())
            .filter(|at| *at != best)
            .map(|at| format!("{} ({})", variants[at].name, why(at)))
            .collect();
        match &others[..] {
            [] => "the only variant".into(),
            others => format!("before {}", others.join(", ")),
        }
    }

    fn rate(&self, variant: &Variant, language_is_given: bool, no_language: f32) -> Rating {
        let mut rating = Rating {
            media: 0.0,
            language: 1.0,
            encoding: self.encoding(variant),
            charset: 1.0,
            priority: None,
            level: 0.0,
            definite: true,
        };
        self.rate_media(variant, &mut rating);
        if !language_is_given {
            self.rate_language(variant, &mut rating, no_language);
        }
        self.rate_charset(variant, &mut rating);
        rating
    }

    /// The most specific range counts: `type/subtype` before `type/*` before `*/*`.
    fn rate_media(&self, variant: &Variant, rating: &mut Rating) {
        let mut specific = 0;
        for wish in &self.wishes.types {
            let Some(found) = specificity(wish, &variant.media) else { continue };
            if found == 3 {
                rating.level = variant.media.level;
            }
            if found <= specific {
                continue;
            }
            specific = found;
            // Clients that send no qualities do not mean their wildcards.
            rating.media = match specific {
                1 if !self.terms.exact && !self.wishes.typed => 0.01,
                2 if !self.terms.exact && !self.wishes.typed => 0.02,
                _ => wish.quality,
            };
        }
        rating.definite &= specific == 3 || specific == 0;
    }

    fn rate_language(&self, variant: &Variant, rating: &mut Rating, no_language: f32) {
        if variant.languages.is_empty() {
            if !self.terms.exact {
                rating.language = no_language;
            }
            return;
        }
        match &self.wishes.languages {
            None => rating.definite = false,
            Some(wishes) => self.rate_languages(&variant.languages, wishes, rating),
        }
        let prefer = self.prefer && rating.language > 0.0;
        let fallback = self.fallback && rating.language == 0.0;
        if !prefer && !fallback {
            return;
        }
        let place = |language: &String| {
            let language = language.to_ascii_lowercase();
            self.priority.iter().position(|one| language.starts_with(one.as_str()))
        };
        if let Some(place) = variant.languages.iter().filter_map(place).min() {
            rating.priority = Some(place);
            if fallback {
                rating.language = 0.0001;
                rating.definite = false;
            }
        }
    }

    /// Each language is rated by its longest matching range, the variant by the best of its languages.
    fn rate_languages(&self, languages: &[String], wishes: &[Wish], rating: &mut Rating) {
        let star = wishes.iter().find(|wish| wish.value == "*");
        let (mut best, mut remote, mut by_star): (Option<f32>, f32, bool) = (None, 0.0, false);
        for language in languages {
            let mut fitting: Option<&Wish> = None;
            for wish in wishes.iter().filter(|wish| wish.value != "*") {
                let fits = language
                    .strip_prefix(wish.value.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
                if fits && fitting.is_none_or(|have| wish.value.len() > have.value.len()) {
                    fitting = Some(wish);
                }
                // A client that wants `en-US` is better served with `en` than with nothing.
                if fitting.is_none()
                    && !self.terms.exact
                    && wish.value.split_once('-').is_some_and(|(primary, _)| language.starts_with(primary))
                {
                    remote = 0.001;
                }
            }
            match fitting {
                Some(wish) => best = Some(best.map_or(wish.quality, |best| best.max(wish.quality))),
                None => by_star |= star.is_some(),
            }
        }
        if let Some(star) = star.filter(|star| by_star && best.is_none_or(|best| star.quality > best)) {
            best = Some(star.quality);
            rating.definite = false;
        }
        rating.language = best.unwrap_or(remote);
    }

    fn rate_charset(&self, variant: &Variant, rating: &mut Rating) {
        let charset = variant.media.charset.as_str();
        let Some(wishes) = &self.wishes.charsets else {
            rating.definite &= charset.is_empty();
            return;
        };
        let is_text = variant.media.name.starts_with("text/");
        let charset = match charset {
            "" if !is_text || self.terms.exact => return,
            // The default of texts in HTTP/1.1.
            "" => "iso-8859-1",
            charset => charset,
        };
        rating.charset = match wishes.iter().find(|wish| wish.value == charset) {
            Some(wish) => wish.quality,
            None => match wishes.iter().rfind(|wish| wish.value == "*") {
                Some(star) => {
                    rating.definite = false;
                    star.quality
                }
                None => f32::from(u8::from(charset == "iso-8859-1")),
            },
        };
    }

    fn encoding(&self, variant: &Variant) -> f32 {
        let Some(wishes) = &self.wishes.encodings else { return if variant.is_plain() { 1.0 } else { 0.5 } };
        let (coding, otherwise) = match &variant.encoding {
            Some(coding) if !variant.is_plain() => (coding.as_str(), 0.0),
            _ => ("identity", 0.0001),
        };
        let bare = |coding: &str| coding.strip_prefix("x-").unwrap_or(coding).to_string();
        let named = wishes.iter().find(|wish| bare(&wish.value) == bare(coding));
        named.or_else(|| wishes.iter().rfind(|wish| wish.value == "*")).map_or(otherwise, |wish| wish.quality)
    }
}

/// The precision of a match: 1 for `*/*`, 2 for `type/*`, 3 for the type itself.
fn specificity(wish: &Media, have: &Media) -> Option<u8> {
    if matches!(wish.name.as_str(), "*" | "*/*") {
        return Some(1);
    }
    if let Some(main) = wish.name.strip_suffix("/*") {
        return have.name.strip_prefix(main).is_some_and(|rest| rest.starts_with('/')).then_some(2);
    }
    let same =
        wish.name == have.name || wish.name == "text/html" && matches!(have.name.as_str(), INCLUDES | INCLUDES_3);
    (same && wish.level >= have.level).then_some(3)
}

fn better_by_rvsa(variants: &[Variant], new: (usize, &Rating), best: Option<&(usize, Rating)>) -> bool {
    let quality =
        |at: usize, rating: &Rating| rating.media * variants[at].media.quality * rating.charset * rating.language;
    let q = quality(new.0, new.1);
    if new.1.encoding == 0.0 || q <= 0.0 {
        return false;
    }
    best.is_none_or(|(at, best)| {
        let other = quality(*at, best);
        q > other || q == other && new.1.encoding > best.encoding
    })
}

impl Rating {
    fn is_acceptable(&self, variant: &Variant) -> bool {
        ![self.encoding, self.language, self.charset, self.media, variant.media.quality].contains(&0.0)
    }
}

fn better(
    variants: &[Variant],
    new: (usize, &Rating),
    best: Option<&(usize, Rating)>,
    length: &dyn Fn(usize) -> Option<u64>,
) -> bool {
    if !new.1.is_acceptable(&variants[new.0]) {
        return false;
    }
    let Some((at, have)) = best else { return true };
    difference(variants, new, (*at, have), length).is_some_and(|(order, _)| order.is_gt())
}

/// The first difference that makes one variant better than another, and its name; in Apache's order.
fn difference(
    variants: &[Variant],
    (new, rating): (usize, &Rating),
    (at, have): (usize, &Rating),
    length: &dyn Fn(usize) -> Option<u64>,
) -> Option<(Ordering, &'static str)> {
    let (variant, other) = (&variants[new], &variants[at]);
    let by = |a: f32, b: f32| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
    let place = |rating: &Rating| rating.priority.unwrap_or(usize::MAX);
    // A client that accepts an unusual charset has a reason.
    let unusual = |variant: &Variant| !matches!(variant.media.charset.as_str(), "" | "iso-8859-1");
    let signed = |length: Option<u64>| length.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
    let order: [(&str, &dyn Fn() -> Ordering); 8] = [
        ("type", &|| by(rating.media * variant.media.quality, have.media * other.media.quality)),
        ("language", &|| by(rating.language, have.language)),
        ("LanguagePriority", &|| place(have).cmp(&place(rating))),
        ("level", &|| by_level(variant, rating, other, have)),
        ("charset", &|| by(rating.charset, have.charset)),
        ("charset", &|| if unusual(variant) && !unusual(other) { Ordering::Greater } else { Ordering::Equal }),
        ("encoding", &|| by(rating.encoding, have.encoding)),
        ("size", &|| signed(length(at)).cmp(&signed(length(new)))),
    ];
    order.iter().map(|(name, compare)| (compare(), *name)).find(|(order, _)| order.is_ne())
}

/// The highest level named by the client, otherwise the lowest.
fn by_level(variant: &Variant, rating: &Rating, other: &Variant, have: &Rating) -> Ordering {
    let comparable = match variant.media.is_html() {
        true => other.media.is_html(),
        false => variant.media.name == other.media.name,
    };
    if !comparable {
        return Ordering::Equal;
    }
    let by = |a: f32, b: f32| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
    by(rating.level, have.level).then_with(|| by(other.media.level, variant.media.level))
}

#[cfg(test)]
mod tests;
