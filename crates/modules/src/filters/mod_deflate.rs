//! Compression: the output filters `DEFLATE`, which makes gzip, and `INFLATE`, which undoes it; and the input filter `DEFLATE`,
//! which undoes it for the bodies of requests.
//!
//! Apache manual: mod_deflate.

pub(in crate::filters) mod coding;
mod gunzip;

use conf::directive::Args::{Take1, Take12};
use conf::values::{atoi, number, one_of, strtol};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Refusal, Setting, row, settings, shown};
use server::core::CoreDir;
use server::fields::add_vary;
use server::{Body, Filtering, Hook, InputBody, InputFilter, Module, OutputFilter, Rank, Request, RequestKind};

use self::coding::{Begun, Coding, Complain, Deflater, Inflater, RatioLimit};
use self::gunzip::Gunzip;
use super::compression::{AlterEtag, Notes, accepts, changed, code, unfit};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "deflate_module", source: "mod_deflate.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&DEFLATE), Hook::NamedFilter(&INFLATE), Hook::InputFilter(&BODIES)],
};

static BODIES: InputFilter = InputFilter { name: "DEFLATE", rank: Rank::CONTENT_SET, apply: gunzip };

static DEFLATE: OutputFilter = OutputFilter {
    name: "DEFLATE",
    rank: Rank::CONTENT_SET,
    prepare: None,
    unmodified: None,
    apply: |request, body| Box::pin(deflate(request, body)),
};
/// Runs before all others, which need the plain content.
static INFLATE: OutputFilter = OutputFilter {
    name: "INFLATE",
    rank: Rank(Rank::RESOURCE.0 - 1),
    prepare: None,
    unmodified: None,
    apply: |request, body| -> Filtering<'_> { Box::pin(inflate(request, body)) },
};

const SERVER: Allowed = Allowed::SERVER;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("DeflateFilterNote", SERVER, Take12(set_note), "", "Set a note to report on compression ratio"),
    row("DeflateWindowSize", SERVER, Take1(set_window), shown!(WINDOW), "Set the Deflate window size (1-15)"),
    row("DeflateBufferSize", SERVER, Take1(set_buffer), shown!(BUFFER), "Set the Deflate Buffer Size"),
    row("DeflateMemLevel", SERVER, Take1(set_memory), "9", "Set the Deflate Memory Level (1-9)").without_effect("The compression library has no such choice."),
    row("DeflateCompressionLevel", SERVER, Take1(set_level), shown!(LEVEL), "Set the Deflate Compression Level (1-9)").differs("Another library compresses, so the bytes differ."),
    row("DeflateAlterEtag", SERVER, Take1(set_etag), "AddSuffix", "Set how mod_deflate should modify ETAG response headers: 'AddSuffix' (default), 'NoChange' (2.2.x behavior), 'Remove'"),
    row("DeflateInflateLimitRequestBody", Allowed::ANY, Take1(set_inflate_limit), "", "Set a limit on size of inflated input"),
    row("DeflateInflateRatioLimit", Allowed::ANY, Take1(set_ratio_limit), shown!(RATIO_LIMIT), "Set the inflate ratio limit above which inflation is aborted (default: 200)"),
    row("DeflateInflateRatioBurst", Allowed::ANY, Take1(set_ratio_burst), shown!(RATIO_BURST), "Set the maximum number of following inflate ratios above limit (default: 3)"),
];

settings! {
    /// The module's settings of a server.
    pub struct DeflateServer {
        notes: Notes,
        window: Setting<u8> = WINDOW,
        buffer: Setting<usize> = BUFFER,
        /// Checked and stored for dumps; the compressor has a memory level of its own.
        memory: Setting<u8>,
        level: Setting<u32> = LEVEL,
        etag: Setting<AlterEtag>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct DeflateDir {
        inflate_limit: Setting<u64>,
        ratio_limit: Setting<u64> = RATIO_LIMIT,
        ratio_burst: Setting<u32> = RATIO_BURST,
    }
}

const BUFFER: usize = 8096;
const WINDOW: u8 = 15;
/// The compressor's windows begin here; zlib refuses smaller ones for gzip, too.
const WINDOW_MIN: u8 = 9;
const LEVEL: u32 = 6;
const RATIO_LIMIT: u64 = 200;
const RATIO_BURST: u32 = 3;
/// The length of gzip's fixed header, and its third byte: the only method there is.
const FRONT: u64 = 10;
const METHOD: u8 = 8;
/// Bodies up to this size are not worth compressing: the frame and the additional fields cost as much, in bytes.
const SMALL: u64 = 18 + 50;

fn set_note(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>) -> Outcome {
    let origin = cmd.origin();
    let set = cmd.server.edit::<DeflateServer>().notes.set(first, second, &origin);
    set.map_err(|kind| Refusal::argument(1, format!("Unknown note type {kind}")))
}

fn set_window(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        bits @ 1..=15 => cmd.server_set(|s: &mut DeflateServer| &mut s.window, bits as u8),
        _ => Err("DeflateWindowSize must be between 1 and 15".into()),
    }
}

fn set_buffer(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match usize::try_from(atoi(value)) {
        Ok(size) if size > 0 => cmd.server_set(|s: &mut DeflateServer| &mut s.buffer, size),
        _ => Err("DeflateBufferSize should be positive".into()),
    }
}

fn set_memory(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        level @ 1..=9 => cmd.server_set(|s: &mut DeflateServer| &mut s.memory, level as u8),
        _ => Err("DeflateMemLevel must be between 1 and 9".into()),
    }
}

fn set_level(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        level @ 1..=9 => cmd.server_set(|s: &mut DeflateServer| &mut s.level, level as u32),
        _ => Err("Compression Level must be between 1 and 9".into()),
    }
}

fn set_etag(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let value = one_of(value, &AlterEtag::NAMES)
        .ok_or("DeflateAlterETAG accepts only 'NoChange', 'AddSuffix', and 'Remove'")?;
    cmd.server_set(|s: &mut DeflateServer| &mut s.etag, value)
}

fn set_inflate_limit(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let limit = number(value).and_then(|limit| u64::try_from(limit).ok()).ok_or_else(|| match strtol(value) {
        i64::MIN | i64::MAX => "DeflateInflateLimitRequestBody is not parsable.",
        _ => "DeflateInflateLimitRequestBody requires a non-negative integer.",
    })?;
    cmd.set(|d: &mut DeflateDir| &mut d.inflate_limit, limit)
}

fn set_ratio_limit(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match u64::try_from(atoi(value)) {
        Ok(limit) if limit > 0 => cmd.set(|d: &mut DeflateDir| &mut d.ratio_limit, limit),
        _ => Err("DeflateInflateRatioLimit must be positive".into()),
    }
}

fn set_ratio_burst(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    match u32::try_from(atoi(value)) {
        Ok(burst) if burst > 0 => cmd.set(|d: &mut DeflateDir| &mut d.ratio_burst, burst),
        _ => Err("DeflateInflateRatioBurst must be positive".into()),
    }
}

/// The filter `DEFLATE`.
async fn deflate(request: &mut Request, body: Body) -> Body {
    if let Some(reason) = unfit(request, "no-gzip") {
        if request.logs("deflate", Level::Trace1) {
            request.log("deflate", Level::Trace1, format!("Not compressing ({reason})"));
        }
        return body;
    }
    let html = request.response.content_type().is_some_and(|text| text.starts_with("text/html"));
    if !html && request.env.get("gzip-only-text/html") == Some("1") {
        request.log("deflate", Level::Trace1, "Not compressing (gzip-only-text/html)");
        return body;
    }
    let (small, body) = is_small(body, request.response.flushes()).await;
    if small {
        request.log("deflate", Level::Trace1, "Not compressing very small response");
        return body;
    }
    // Set even if nothing is compressed: another client might get a different response.
    for before in request.response.err_headers_out.joined("Vary").unwrap_or_default().split(',') {
        if !before.trim().is_empty() {
            add_vary(&mut request.response.headers_out, before.trim());
        }
    }
    add_vary(&mut request.response.headers_out, "Accept-Encoding");
    let forced = request.env.contains("force-gzip");
    if !forced && !request.header_joined("Accept-Encoding").is_some_and(|accept| accepts(&accept, "gzip")) {
        request.log("deflate", Level::Trace1, "Not compressing (no Accept-Encoding: gzip or q=0)");
        return body;
    }
    let server = request.vhost;
    let conf = server.settings.get::<DeflateServer>();
    let window = conf.window();
    if window < WINDOW_MIN {
        let text = format!("AH01383: unable to init Zlib: deflateInit2 returned -2: URL {}", request.data.uri);
        request.log("deflate", Level::Error, text);
        return body;
    }
    request.response.content_encoding = None;
    request.response.headers_out.set("Content-Encoding", "gzip");
    if changed(request, conf.etag.value_or(AlterEtag::AddSuffix), "gzip") {
        return Body::Empty;
    }
    let coder = Deflater::new(conf.level(), window);
    code(request, "deflate", body, Box::new(coder), conf.buffer(), conf.notes.tell()).await
}

/// The filter `INFLATE`.
async fn inflate(request: &mut Request, body: Body) -> Body {
    let first = matches!(request.kind, RequestKind::Main);
    if !first
        || request.response.status() == 204
        || request.response.headers_out.contains("Content-Range")
        || !take_gzip(request)
    {
        return body;
    }
    let server = request.vhost;
    let conf = server.settings.get::<DeflateServer>();
    if changed(request, conf.etag.value_or(AlterEtag::AddSuffix), "gunzip") {
        return Body::Empty;
    }
    let begun = Begun::look(body, FRONT).await;
    let method = begun.byte(2);
    let body = begun.into_body();
    if method.is_some_and(|method| method != METHOD) {
        request.log("deflate", Level::Debug, "AH01404: inflate: data not deflated!");
        return body;
    }
    let coder = Inflater::new(conf.window().max(WINDOW_MIN), ratio_limit(request));
    code(request, "deflate", body, Box::new(coder), conf.buffer(), Box::new(|_, _| Vec::new())).await
}

fn ratio_limit(request: &Request) -> RatioLimit {
    let dir = request.dir::<DeflateDir>();
    RatioLimit { ratio: dir.ratio_limit(), burst: dir.ratio_burst(), hits: 0 }
}

/// The input filter `DEFLATE`. As in Apache, scripts that start before the body is read see the client's original
/// fields.
fn gunzip(request: &mut Request, body: InputBody) -> InputBody {
    if !matches!(request.kind, RequestKind::Main) || request.header("Content-Range").is_some() {
        return body;
    }
    let Some(rest) = request.header_joined("Content-Encoding").and_then(|list| without_gzip(&list).map(String::from))
    else {
        return body;
    };
    request.mapped.read_fields.push(("Content-Encoding", Some(rest).filter(|rest| !rest.is_empty())));
    request.mapped.read_fields.push(("Content-MD5", None));
    let limit = match request.dir::<DeflateDir>().inflate_limit.value_or(0) {
        0 => request.dir::<CoreDir>().limit_request_body(),
        limit => limit,
    };
    let coder = Gunzip::new(limit, ratio_limit(request));
    let size = request.host::<DeflateServer>().buffer();
    let speaker = request.speaker();
    let complain: Complain = Box::new(move |error| speaker.log("deflate", gunzip::level(error), error.to_string()));
    Box::new(Coding::new(body, Box::new(coder), size, Box::new(|_, _| Vec::new()), complain))
}

/// Removes `gzip` if it is the last encoding; `false` if it is not.
fn take_gzip(request: &mut Request) -> bool {
    let fields = [&mut request.response.headers_out, &mut request.response.err_headers_out];
    for fields in fields {
        let Some(list) = fields.joined("Content-Encoding") else { continue };
        let Some(rest) = without_gzip(&list) else { return false };
        match rest {
            "" => fields.remove("Content-Encoding"),
            rest => fields.set("Content-Encoding", rest),
        }
        return true;
    }
    let Some(rest) = request.response.content_encoding.as_deref().and_then(without_gzip) else { return false };
    request.response.content_encoding = (!rest.is_empty()).then(|| rest.to_string());
    true
}

fn without_gzip(list: &str) -> Option<&str> {
    let (rest, last) = list.rsplit_once(',').unwrap_or(("", list));
    match last.trim().to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => Some(rest.trim()),
        // `identity` means no encoding.
        "identity" if !rest.is_empty() => without_gzip(rest),
        _ => None,
    }
}

/// Whether a body is known to be small, and the body again. If it flushes, its first byte decides: more may be long in
/// coming.
async fn is_small(body: Body, flushes: bool) -> (bool, Body) {
    if let Some(length) = body.length() {
        return (length <= SMALL, body);
    }
    let enough = if flushes { 1 } else { SMALL + 1 };
    let begun = Begun::look(body, enough).await;
    (begun.seen < enough, begun.into_body())
}

#[cfg(test)]
mod tests;
