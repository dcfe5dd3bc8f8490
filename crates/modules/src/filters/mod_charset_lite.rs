//! Texts in another charset: the filters `XLATEOUT`, for responses, and `XLATEIN`, for the bodies of requests.
//!
//! Apache manual: mod_charset_lite. The charsets are those of the Encoding Standard, by all their names there;
//! characters missing in the response's charset are sent as numeric character references. The body of a request is data:
//! if it cannot be translated exactly, that is an error.

use std::io;

use conf::directive::Args::{Iterate, Take1};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, row, settings};
use encoding_rs::{CoderResult, Decoder, DecoderResult, Encoder, EncoderResult, Encoding};
use runtime::CoopBudget;
use server::{
    Body, Flow, Hook, InputBody, InputChain, InputFilter, Module, Order, OutputFilter, Phase, PhaseHook, Rank, Request,
    ResponseChain, Writer,
};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "charset_lite_module", source: "mod_charset_lite.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::Fixups, Order::Middle, PhaseHook::Now(check)),
        Hook::NamedFilter(&XLATEOUT),
        Hook::InsertFilters(Order::ReallyLast, insert),
        Hook::InputFilter(&XLATEIN),
        Hook::InsertInputFilters(Order::ReallyLast, insert_input),
    ],
};

static XLATEOUT: OutputFilter = OutputFilter {
    name: "XLATEOUT",
    rank: Rank::RESOURCE,
    prepare: None,
    apply: |request, body| Box::pin(translate(request, body)),
};

static XLATEIN: InputFilter = InputFilter { name: "XLATEIN", rank: Rank::RESOURCE, apply: translate_body };

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("CharsetSourceEnc", Allowed::FILEINFO, Take1(|c, v| { let v = v.to_string(); c.set(|d: &mut CharsetDir| &mut d.source, v) }), "", "source (html,cgi,ssi) file charset").differs("The charsets are those of the Encoding Standard; there is no EBCDIC."),
    row("CharsetDefault", Allowed::FILEINFO, Take1(|c, v| { let v = v.to_string(); c.set(|d: &mut CharsetDir| &mut d.default, v) }), "", "name of default charset"),
    row("CharsetOptions", Allowed::FILEINFO, Iterate(set_option), "ImplicitAdd", "valid options: ImplicitAdd, NoImplicitAdd, TranslateAllMimeTypes, NoTranslateAllMimeTypes"),
];

settings! {
    /// The module's settings of a section.
    pub struct CharsetDir {
        source: Setting<String>,
        default: Setting<String>,
        implicit: Setting<bool> = true,
        all_types: Setting<bool> = false,
    }
}

fn set_option(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let (field, on): (fn(&mut CharsetDir) -> &mut Setting<bool>, bool) = match word.to_ascii_lowercase().as_str() {
        "implicitadd" => (|d| &mut d.implicit, true),
        "noimplicitadd" => (|d| &mut d.implicit, false),
        "translateallmimetypes" => (|d| &mut d.all_types, true),
        "notranslateallmimetypes" => (|d| &mut d.all_types, false),
        _ => return Err(format!("Invalid CharsetOptions option: {word}").into()),
    };
    cmd.set(field, on)
}

/// The charset of the server's text, and that of the response, if both are known and different.
fn charsets(dir: &CharsetDir) -> Option<(&str, &str)> {
    let (source, default) = (dir.source.get()?, dir.default.get()?);
    (!source.eq_ignore_ascii_case(default)).then_some((source, default))
}

/// The character sets between which a request's body is translated: `POST` and `PUT` have one.
fn input_charsets(request: &Request) -> Option<(&str, &str)> {
    let charsets = charsets(request.dir::<CharsetDir>())?;
    matches!(&*request.data.method, "POST" | "PUT").then_some(charsets)
}

/// Refuses a body that cannot be translated before anybody reads it.
fn check(request: &mut Request) -> Flow {
    let Some((source, default)) = input_charsets(request) else { return Flow::Declined };
    if Translation::open(default, source, true).is_some() {
        return Flow::Declined;
    }
    request.log("charset_lite", Level::Error, format!("AH01449: can't open translation {default}->{source}"));
    Flow::Status(500)
}

/// Answers are translated if both charsets are known, whether or not the filter is named.
fn insert(request: &mut Request, chain: &mut ResponseChain) {
    let dir = request.dir::<CharsetDir>();
    if charsets(dir).is_some() && dir.implicit() && !chain.has(XLATEOUT.name) {
        chain.add(XLATEOUT.rank, Box::new(XLATEOUT.apply));
    }
}

fn insert_input(request: &mut Request, chain: &mut InputChain) {
    let implicit = request.dir::<CharsetDir>().implicit();
    if input_charsets(request).is_some() && implicit && !chain.has(XLATEIN.name) {
        chain.add(XLATEIN.rank, Box::new(XLATEIN.apply));
    }
}

async fn translate(request: &mut Request, body: Body) -> Body {
    request.asks_beyond_head();
    let dir = request.dir.slots.clone();
    let dir = dir.get::<CharsetDir>();
    let Some((source, default)) = charsets(dir) else { return body };
    if request.is_subrequest() || matches!(body, Body::Empty) {
        return body;
    }
    let is_text = |kind: &str| ["text/", "message/"].iter().any(|front| kind.to_ascii_lowercase().starts_with(front));
    if !dir.all_types() && !request.response.content_type().is_some_and(is_text) {
        let kind = request.response.content_type().unwrap_or("(unknown)").to_string();
        request.log("charset_lite", Level::Debug, format!("mime type is {kind}; no translation selected"));
        return body;
    }
    let Some(translation) = Translation::open(source, default, false) else {
        request.log("charset_lite", Level::Error, format!("AH01453: can't open translation {source}->{default}"));
        return body;
    };
    request.response.headers_out.remove("Content-Length");
    server::written(|out| write(body.into_stream(), translation, None, out)).await
}

/// As in Apache, scripts that start before the body is read see the client's original length.
fn translate_body(request: &mut Request, body: InputBody) -> InputBody {
    let Some((source, default)) = input_charsets(request) else { return body };
    let Some(translation) = Translation::open(default, source, true) else { return body };
    let speaker = request.speaker();
    server::written_later(|out| write(body, translation, Some(speaker), out))
}

/// The size of a translation step, in bytes.
const STEP: usize = 8 * 1024;

async fn write(
    mut source: InputBody,
    mut translation: Translation,
    speaker: Option<Box<Request>>,
    out: Writer,
) -> io::Result<()> {
    let mut budget = CoopBudget::new();
    loop {
        let piece = source.next().await.transpose()?;
        let is_last = piece.is_none();
        let piece = piece.unwrap_or_default();
        let mut chunks = piece.chunks(STEP).peekable();
        loop {
            budget.step().await;
            let chunk = chunks.next().unwrap_or_default();
            let ends = is_last && chunks.peek().is_none();
            let made = translation.step(chunk, ends).map_err(|why| {
                speaker.iter().for_each(|speaker| speaker.log("charset_lite", Level::Error, why));
                io::Error::new(io::ErrorKind::InvalidData, why)
            })?;
            out.write(&made).await;
            if chunks.peek().is_none() {
                break;
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Decodes a text from one charset and encodes it in another, chunk by chunk.
struct Translation {
    decoder: Decoder,
    encoder: Encoder,
    /// Whether untranslatable text is an error.
    is_strict: bool,
}

impl Translation {
    /// `None`: one of the charsets is unknown, or can be read but not written (UTF-16).
    fn open(from: &str, to: &str, is_strict: bool) -> Option<Translation> {
        let find = |name: &str| Encoding::for_label(name.as_bytes());
        let (from, to) = (find(from)?, find(to)?);
        let (decoder, encoder) = (from.new_decoder_without_bom_handling(), to.new_encoder());
        (to.output_encoding() == to).then_some(Translation { decoder, encoder, is_strict })
    }

    /// Translates the next chunk of the text. `Err`: the message about text that is invalid or cannot be expressed.
    fn step(&mut self, chunk: &[u8], is_last: bool) -> Result<Vec<u8>, &'static str> {
        const INVALID: &str = "AH02194: xlate filter - an input character was invalid";
        let room = self.decoder.max_utf8_buffer_length(chunk.len()).unwrap_or(chunk.len() * 4 + 16);
        let mut text = String::with_capacity(room);
        // There is room for all of it.
        if !self.is_strict {
            _ = self.decoder.decode_to_string(chunk, &mut text, is_last);
        } else if let (DecoderResult::Malformed(..), read) =
            self.decoder.decode_to_string_without_replacement(chunk, &mut text, is_last)
        {
            let is_cut = is_last && read == chunk.len();
            return Err(if is_cut { "AH02196: xlate filter - incomplete char at end of input" } else { INVALID });
        }
        let mut made = Vec::with_capacity(text.len() * 2 + 16);
        let mut rest = &text[..];
        loop {
            let (is_done, read) = if self.is_strict {
                let (result, read) = self.encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut made, is_last);
                if let EncoderResult::Unmappable(_) = result {
                    return Err(INVALID);
                }
                (result == EncoderResult::InputEmpty, read)
            } else {
                let (result, read, _) = self.encoder.encode_from_utf8_to_vec(rest, &mut made, is_last);
                (result == CoderResult::InputEmpty, read)
            };
            if is_done {
                return Ok(made);
            }
            rest = &rest[read..];
            made.reserve(made.capacity().max(1024));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(from: &str, to: &str, is_strict: bool, pieces: &[&[u8]]) -> Result<Vec<u8>, &'static str> {
        let mut translation = Translation::open(from, to, is_strict).ok_or("no such translation")?;
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(translation.step(piece, false)?);
        }
        all.extend(translation.step(b"", true)?);
        Ok(all)
    }

    #[test]
    fn charsets() {
        let long = "é".repeat(50_000);
        for is_strict in [false, true] {
            let translated = |from, to, pieces| translated(from, to, is_strict, pieces).expect("a translation");
            assert_eq!(translated("iso-8859-1", "utf-8", &[b"caf\xe9"]), "café".as_bytes());
            assert_eq!(translated("utf-8", "iso-8859-15", &[b"\xe2\x82", b"\xac"]), [0xa4]);
            assert_eq!(translated("utf-8", "latin1", &[long.as_bytes()]), vec![0xe9; 50_000]);
        }
    }

    #[test]
    fn untranslatable_input() {
        let invalid = Err("AH02194: xlate filter - an input character was invalid");
        let cut = Err("AH02196: xlate filter - incomplete char at end of input");
        assert_eq!(translated("utf-8", "iso-8859-1", false, &["中".as_bytes()]), Ok(b"&#20013;".to_vec()));
        assert_eq!(translated("utf-8", "iso-8859-1", true, &["中".as_bytes()]), invalid);
        assert_eq!(translated("utf-8", "iso-8859-1", true, &[b"a\xffb"]), invalid);
        assert_eq!(translated("utf-8", "iso-8859-1", true, &[b"a\xc3"]), cut);
        for (from, to) in [("utf-8", "utf-16be"), ("utf-8", "klingon"), ("klingon", "utf-8")] {
            assert_eq!(translated(from, to, false, &[]), Err("no such translation"), "{from} {to}");
        }
    }

    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("CharsetOptions NoImplicitAdd translateallmimetypes", ""),
            ("CharsetOptions Odd", "Invalid CharsetOptions option: Odd"),
        ]);
    }
}
