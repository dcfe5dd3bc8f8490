//! Texts in another charset: the filters `XLATEOUT`, for responses, and `XLATEIN`, for the bodies of requests.
//!
//! Apache manual: mod_charset_lite. The charsets are those of the Encoding Standard, by all their names there;
//! characters missing in the response's charset are sent as numeric character references. The body of a request is data:
//! if it cannot be translated exactly, that is an error.

use std::io;

use conf::directive::Args::{Iterate, Take1};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, row, settings};
use runtime::CoopBudget;
use server::{
    Body, Flow, Hook, InputBody, InputChain, InputFilter, Module, Order, OutputFilter, Phase, PhaseHook, Rank, Request,
    ResponseChain, Writer,
};

use super::translation::Translation;

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
    unmodified: None,
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

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("CharsetOptions NoImplicitAdd translateallmimetypes", ""),
            ("CharsetOptions Odd", "Invalid CharsetOptions option: Odd"),
        ]);
    }
}
