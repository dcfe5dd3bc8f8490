//! Pages in UTF-8, whatever charset they come in: the filter `xml2enc`.
//!
//! Apache manual: mod_xml2enc. The charsets are those of the Encoding Standard. A page that is in UTF-8 already passes as it is.

mod sniff;

use std::io;

use conf::directive::Args::{Iterate, Iterate2, Take1};
use conf::settings::{Gathered, Keyed};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, row, settings};
use encoding_rs::{Encoding, UTF_8};
use runtime::CoopBudget;
use server::{Body, BodyStream, Hook, Module, OutputFilter, Rank, Request, Writer};

use self::sniff::{charset_in, sniff, start_of};
use super::mod_deflate::coding::Begun;
use super::translation::Translation;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "xml2enc_module", source: "mod_xml2enc.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&XML2ENC)],
};

pub(super) static XML2ENC: OutputFilter = OutputFilter {
    name: "xml2enc",
    rank: Rank::RESOURCE,
    prepare: None,
    unmodified: None,
    apply: |request, body| Box::pin(filter(request, body)),
};

/// The note with the charset in which a page came.
pub(super) const CHARSET: &str = "xml2enc_charset";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("xml2EncDefault", Allowed::ANY.or(Allowed::CONF), Take1(set_default), "", "Usage: xml2EncDefault charset").differs("The charsets are those of the Encoding Standard."),
    row("xml2EncAlias", Allowed::GLOBAL, Iterate2(add_alias), "", "EncodingAlias charset alias [more aliases]"),
    row("xml2StartParse", Allowed::ANY.or(Allowed::CONF), Iterate(add_start), "", "Ignore anything in front of the first of these elements"),
];

settings! {
    /// The module's settings of a section.
    pub struct Xml2EncDir {
        default: Setting<String>,
        starts: Gathered<Vec<String>>,
    }
}

settings! {
    /// The further names of charsets, in lower case.
    pub struct Xml2EncServer {
        aliases: Keyed<String, String>,
    }
}

/// How much of a page is looked at for its charset, as the HTML standard has it.
const LOOK: u64 = 1024;
/// How much of it is looked at for the element with which it begins, as in Apache.
const LOOK_FOR_START: u64 = 8 * 1024;
/// The charset of pages about which nothing is known.
const USUAL: &str = "ISO-8859-1";
/// The size of a translation step, in bytes.
const STEP: usize = 8 * 1024;

fn set_default(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    if Encoding::for_label(name.as_bytes()).is_none() {
        return Err("Invalid or unsupported default charset".into());
    }
    cmd.set(|d: &mut Xml2EncDir| &mut d.default, name.to_string())
}

fn add_alias(cmd: &mut Cmd<'_>, charset: &str, alias: &str) -> Outcome {
    if Encoding::for_label(charset.as_bytes()).is_none() {
        return Err(format!("xml2EncAlias: there is no charset {charset}").into());
    }
    cmd.server_put(|s: &mut Xml2EncServer| &mut s.aliases, alias.to_ascii_lowercase(), charset.to_string())
}

fn add_start(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    let origin = cmd.origin();
    cmd.dir.edit::<Xml2EncDir>().starts.edit(&origin).push(name.to_string());
    Ok(())
}

/// Whether a media type is one of a text.
fn is_text(media_type: &str) -> bool {
    let lower = media_type.to_ascii_lowercase();
    lower.starts_with("text/") || lower.starts_with("application/xml") || lower.contains("+xml")
}

async fn filter(request: &mut Request, body: Body) -> Body {
    request.asks_beyond_head();
    let Some(media_type) = request.response.content_type().map(str::to_string).filter(|text| is_text(text)) else {
        return body;
    };
    if matches!(body, Body::Empty) || request.notes.contains(CHARSET) {
        return body;
    }
    if request.response.content_encoding.is_some() || request.response.headers_out.contains("Content-Encoding") {
        request.log("xml2enc", Level::Warn, "the page is compressed: put the filter INFLATE before xml2enc");
        return body;
    }
    let dir = request.dir.slots.clone();
    let dir = dir.get::<Xml2EncDir>();
    let announced = charset_in(media_type.as_bytes());
    let starts = dir.starts.get().map_or(&[][..], |starts| starts);
    let begun = Begun::look(body, if starts.is_empty() { LOOK } else { LOOK_FOR_START }).await;
    let (mut start, failed, rest) = begun.into_parts();
    if !starts.is_empty() {
        match start_of(&start, starts) {
            Some(at) => drop(start.drain(..at)),
            None => request.log("xml2enc", Level::Warn, "AH01429: Failed to find start of recognised HTML!"),
        }
    }
    let sniffed = sniff(&start);
    let named = announced.or(sniffed.charset).or_else(|| dir.default.get().cloned()).unwrap_or_else(|| USUAL.into());
    let aliases = &request.host::<Xml2EncServer>().aliases;
    let charset = aliases.get(&named.to_ascii_lowercase()).cloned().unwrap_or_else(|| named.clone());
    let Some(encoding) = Encoding::for_label(charset.as_bytes()) else {
        let text = format!("AH01435: Charset {named} not supported.  Consider aliasing it?");
        request.log("xml2enc", Level::Warn, text);
        return server::written(|out| pass(start, failed, rest, None, out)).await;
    };
    let translation = (encoding != UTF_8).then(|| Translation::open(encoding.name(), UTF_8.name(), false)).flatten();
    if translation.is_some() {
        sniffed.declarations.into_iter().rev().for_each(|place| drop(start.drain(place)));
    }
    start.drain(..sniffed.mark);
    request.notes.set(CHARSET, charset);
    request.response.headers_out.remove("Content-Length");
    request.response.set_content_type(with_charset(&media_type, "utf-8"));
    server::written(|out| pass(start, failed, rest, translation, out)).await
}

/// A media type with another charset, in the place of the former one.
fn with_charset(media_type: &str, charset: &str) -> String {
    const NAME: &str = "charset=";
    let mut at = 0;
    for part in media_type.split(';') {
        let value = part.len() - part.trim_start().len() + NAME.len();
        if part.trim_start().get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)) {
            return [&media_type[..at + value], charset, &media_type[at + part.len()..]].concat();
        }
        at += part.len() + 1;
    }
    [media_type.trim_end(), ";", NAME, charset].concat()
}

/// Passes a body on, in another charset if there is a translation.
async fn pass(
    start: Vec<u8>,
    mut failed: Option<io::Error>,
    mut rest: Box<dyn BodyStream>,
    mut translation: Option<Translation>,
    out: Writer,
) -> io::Result<()> {
    let mut budget = CoopBudget::new();
    let mut next = Some(Ok(start.into()));
    while let Some(piece) = next {
        let piece: bytes::Bytes = piece?;
        for chunk in piece.chunks(STEP) {
            budget.step().await;
            match &mut translation {
                None => out.write(chunk).await,
                Some(translation) => out.write(&translation.step(chunk, false).map_err(io::Error::other)?).await,
            }
        }
        if let Some(error) = failed.take() {
            return Err(error);
        }
        next = rest.next().await;
    }
    if let Some(translation) = &mut translation {
        out.write(&translation.step(b"", true).map_err(io::Error::other)?).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        assert_eq!(with_charset("text/html", "utf-8"), "text/html;charset=utf-8");
        assert_eq!(with_charset("text/html; Charset=x; q=1", "utf-8"), "text/html; Charset=utf-8; q=1");
        assert_eq!(with_charset("a/b+xml; charset=x", "utf-8"), "a/b+xml; charset=utf-8");
        for (text, want) in
            [("text/css", true), ("image/svg+xml", true), ("application/xml", true), ("image/png", false)]
        {
            assert_eq!(is_text(text), want, "{text}");
        }
    }

    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("xml2EncDefault koi8-r\nxml2EncAlias utf-8 utf8mb4 x\nxml2StartParse html body", ""),
            ("xml2EncDefault odd", "Invalid or unsupported default charset"),
            (
                "xml2EncAlias utf-8",
                "xml2EncAlias requires at least two arguments, EncodingAlias charset alias [more aliases]",
            ),
            ("xml2EncAlias odd x", "xml2EncAlias: there is no charset odd"),
        ]);
    }
}
