//! Texts in another charset: the output filter `XLATEOUT`.
//!
//! Apache manual: mod_charset_lite. The charsets are those of the Encoding Standard, by all their names there; what has no
//! character in the charset of the answer is sent as a numeric character reference.

use std::io;

use conf::directive::Args::{Iterate, Take1};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, settings};
use encoding_rs::{Decoder, Encoder, Encoding};
use server::filters::{Chain, OutputFilter, Rank};
use server::{Body, BodyStream, Hook, Module, Order, Request, Slices, Writer};

use crate::row;

/// The module.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "charset_lite_module", source: "mod_charset_lite.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::NamedFilter(&XLATEOUT), Hook::InsertFilters(Order::ReallyLast, insert)],
};

static XLATEOUT: OutputFilter = OutputFilter {
    name: "XLATEOUT",
    rank: Rank::RESOURCE,
    prepare: None,
    apply: |request, body| Box::pin(translate(request, body)),
};

const BODIES: &str = "It holds for answers; the bodies of requests are not translated.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("CharsetSourceEnc", Allowed::FILEINFO, Take1(|c, v| { let v = v.to_string(); c.set(|d: &mut CharsetDir| &mut d.source, v) }), "", "source (html,cgi,ssi) file charset").differs("The charsets are those of the Encoding Standard; there is no EBCDIC."),
    row("CharsetDefault", Allowed::FILEINFO, Take1(|c, v| { let v = v.to_string(); c.set(|d: &mut CharsetDir| &mut d.default, v) }), "", "name of default charset").differs(BODIES),
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
        _ => return Err(format!("Invalid CharsetOptions option: {word}")),
    };
    cmd.set(field, on)
}

/// Answers are translated where both charsets are known, named filter or not.
fn insert(request: &mut Request, chain: &mut Chain) {
    let dir = request.dir::<CharsetDir>();
    if dir.source.is_set() && dir.default.is_set() && dir.implicit() {
        chain.add(XLATEOUT.rank, Box::new(XLATEOUT.apply));
    }
}

async fn translate(request: &mut Request, body: Body) -> Body {
    let dir = request.dir.slots.clone();
    let dir = dir.get::<CharsetDir>();
    let (Some(source), Some(default)) = (dir.source.get(), dir.default.get()) else { return body };
    if source.eq_ignore_ascii_case(default) || request.is_lookup() || matches!(body, Body::Empty) {
        return body;
    }
    let is_text = |kind: &str| ["text/", "message/"].iter().any(|front| kind.to_ascii_lowercase().starts_with(front));
    if !dir.all_types() && !request.answer.content_type().is_some_and(is_text) {
        let kind = request.answer.content_type().unwrap_or("(unknown)").to_string();
        request.log("charset_lite", Level::Debug, format!("mime type is {kind}; no translation selected"));
        return body;
    }
    let find = |name: &str| Encoding::for_label(name.as_bytes());
    let (Some(from), Some(to)) = (find(source), find(default)) else {
        request.log("charset_lite", Level::Error, format!("AH01449: can't open translation {source}->{default}"));
        return body;
    };
    request.answer.headers_out.remove("Content-Length");
    let (decoder, encoder) = (from.new_decoder_without_bom_handling(), to.new_encoder());
    server::written(|out| write(body.into_stream(), decoder, encoder, out)).await
}

/// How much is translated at once, in bytes.
const STEP: usize = 8 * 1024;

async fn write(
    mut source: Box<dyn BodyStream>,
    mut decoder: Decoder,
    mut encoder: Encoder,
    out: Writer,
) -> io::Result<()> {
    let mut slices = Slices::new();
    loop {
        let piece = source.next().await.transpose()?;
        let is_last = piece.is_none();
        let piece = piece.unwrap_or_default();
        let mut chunks = piece.chunks(STEP).peekable();
        loop {
            slices.step().await;
            let chunk = chunks.next().unwrap_or_default();
            let ends = is_last && chunks.peek().is_none();
            out.write(&step(&mut decoder, &mut encoder, chunk, ends)).await;
            if chunks.peek().is_none() {
                break;
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Translates a chunk.
fn step(decoder: &mut Decoder, encoder: &mut Encoder, chunk: &[u8], is_last: bool) -> Vec<u8> {
    let room = decoder.max_utf8_buffer_length(chunk.len()).unwrap_or(chunk.len() * 4 + 16);
    let mut text = String::with_capacity(room);
    // There is room for all of it.
    let _ = decoder.decode_to_string(chunk, &mut text, is_last);
    let mut made = Vec::with_capacity(text.len() * 2 + 16);
    let mut rest = &text[..];
    loop {
        let (result, read, _) = encoder.encode_from_utf8_to_vec(rest, &mut made, is_last);
        rest = &rest[read..];
        match result {
            encoding_rs::CoderResult::InputEmpty => return made,
            encoding_rs::CoderResult::OutputFull => made.reserve(made.capacity().max(1024)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(from: &str, to: &str, pieces: &[&[u8]]) -> Vec<u8> {
        let find = |name: &str| Encoding::for_label(name.as_bytes()).expect("a charset");
        let (mut decoder, mut encoder) = (find(from).new_decoder_without_bom_handling(), find(to).new_encoder());
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(step(&mut decoder, &mut encoder, piece, false));
        }
        all.extend(step(&mut decoder, &mut encoder, b"", true));
        all
    }

    #[test]
    fn charsets() {
        assert_eq!(translated("iso-8859-1", "utf-8", &[b"caf\xe9"]), "café".as_bytes());
        assert_eq!(translated("utf-8", "iso-8859-15", &[b"\xe2\x82", b"\xac"]), [0xa4]);
        assert_eq!(translated("utf-8", "iso-8859-1", &["中".as_bytes()]), b"&#20013;");
        let long = "é".repeat(50_000);
        assert_eq!(translated("utf-8", "latin1", &[long.as_bytes()]), vec![0xe9; 50_000]);
    }

    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("CharsetOptions NoImplicitAdd translateallmimetypes", ""),
            ("CharsetOptions Odd", "Invalid CharsetOptions option: Odd"),
        ]);
    }
}
