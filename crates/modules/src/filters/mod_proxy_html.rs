//! The links in pages of servers behind this one become links of this server: the filter `proxy-html`.
//!
//! Apache manual: mod_proxy_html. The order of rules was measured on 2.4.71. Apache writes the whole page anew; here every byte stays
//! as it is except the values of attributes, and scripts, that rules change.

mod attributes;
mod meta;
mod rule;
mod scan;
mod settings;

use std::io;

use conf::directive::Args::{Flag, Iterate, Iterate2, Take1, Take12, Words};
use conf::pattern::TooLong;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, on_or_off, row};
use encoding_rs::{Encoding, UTF_8};
use runtime::CoopBudget;
use server::{
    Body, BodyStream, Hook, Module, Order, OutputFilter, Rank, Request, ResponseChain, TEXT_MAX, Writer, evaluate,
};

use self::rule::{Active, Fault};
use self::scan::{Scan, Work};
use self::settings::{ProxyHtmlDir, add_event, add_fixup, add_link, add_rule, set_charset, set_doctype};
use super::mod_deflate::coding::Begun;
use super::mod_xml2enc::{self, CHARSET, XML2ENC};
use super::translation::Translation;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_html_module", source: "mod_proxy_html.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::NamedFilter(&PROXY_HTML), Hook::InsertFilters(Order::Middle, insert)],
};

static PROXY_HTML: OutputFilter = OutputFilter {
    name: "proxy-html",
    rank: Rank::RESOURCE,
    prepare: None,
    unmodified: None,
    apply: |request, body| Box::pin(filter(request, body)),
};

const NAME: &str = "proxy_html";
const CONF: Allowed = Allowed::CONF;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ProxyHTMLEvents", CONF, Iterate(add_event), "", "Strings to be treated as scripting events"),
    row("ProxyHTMLLinks", CONF, Iterate2(add_link), "", "Declare HTML Attributes"),
    row("ProxyHTMLURLMap", CONF, Words(add_rule), "", "Map URL From To"),
    row("ProxyHTMLDoctype", CONF, Take12(set_doctype), "", "(HTML|XHTML) [Legacy]").differs("Only the declaration is changed: elements and attributes stay as they are."),
    row("ProxyHTMLFixups", CONF, Iterate(add_fixup), "", "Options are lowercase, dospath").differs("They concern links only."),
    row("ProxyHTMLMeta", CONF, Flag(|c, on| c.set(|d: &mut ProxyHtmlDir| &mut d.meta, on)), on_or_off(false), "Fix META http-equiv elements"),
    row("ProxyHTMLInterp", CONF, Flag(|c, on| c.set(|d: &mut ProxyHtmlDir| &mut d.interpolate, on)), on_or_off(false), "Support interpolation and conditions in URLMaps"),
    row("ProxyHTMLExtended", CONF, Flag(|c, on| c.set(|d: &mut ProxyHtmlDir| &mut d.extended, on)), on_or_off(false), "Map URLs in Javascript and CSS"),
    row("ProxyHTMLStripComments", CONF, Flag(|c, on| c.set(|d: &mut ProxyHtmlDir| &mut d.strips_comments, on)), on_or_off(false), "Strip out comments"),
    row("ProxyHTMLBufSize", CONF, Take1(check_size), "8192", "Buffer size").without_effect("A script is buffered as it comes, up to 1 MB of it."),
    row("ProxyHTMLCharsetOut", CONF, Take1(set_charset), "UTF-8", "Usage: ProxyHTMLCharsetOut charset").differs("The charsets are those of the Encoding Standard."),
    row("ProxyHTMLEnable", CONF, Flag(|c, on| c.set(|d: &mut ProxyHtmlDir| &mut d.enable, on)), on_or_off(false), "Enable proxy-html and xml2enc filters"),
];

/// How much of a page is searched for elements that stand for header fields, in bytes.
const LOOK: u64 = 8 * 1024;
/// How much of a page is changed before others have their turn, in bytes.
const STEP: usize = 16 * 1024;

fn check_size(_: &mut Cmd<'_>, value: &str) -> Outcome {
    conf::values::number(value).map(|_| ()).ok_or("Invalid value for directive ProxyHTMLBufSize, expected integer")?;
    Ok(())
}

/// Inserts the filters where `ProxyHTMLEnable` is on.
fn insert(request: &mut Request, chain: &mut ResponseChain) {
    if !request.dir::<ProxyHtmlDir>().enable() {
        return;
    }
    let converts = request.server.language.has_module(mod_xml2enc::MODULE.info.id);
    for filter in [Some(&XML2ENC).filter(|_| converts), Some(&PROXY_HTML)].into_iter().flatten() {
        if !chain.has(filter.name) {
            chain.add(filter.rank, Box::new(filter.apply));
        }
    }
}

/// Why a response is left as it is; `None`: it is changed.
fn unfit(request: &Request) -> Option<&'static str> {
    let media_type = request.response.content_type().map(str::to_ascii_lowercase);
    let is_html = |text: &String| ["text/html", "application/xhtml+xml"].iter().any(|one| text.starts_with(one));
    match () {
        () if request.response.content_encoding.is_some()
            || request.response.headers_out.contains("Content-Encoding") =>
        {
            Some("the page is compressed: put the filter INFLATE before proxy-html")
        }
        () if request.env.contains("PROXY_HTML_FORCE") => None,
        () if request.mapped.backend_url().is_none() => Some("Non-proxy request; not inserting proxy-html filter"),
        () if request.dir::<ProxyHtmlDir>().links.get().is_none() => {
            Some("No links configured: nothing for proxy-html filter to do")
        }
        () if media_type.is_none() => Some("No content-type; bailing out of proxy-html filter"),
        () if !media_type.as_ref().is_some_and(is_html) => Some("Non-HTML content; not inserting proxy-html filter"),
        () => None,
    }
}

async fn filter(request: &mut Request, body: Body) -> Body {
    request.asks_beyond_head();
    if matches!(body, Body::Empty) {
        return body;
    }
    if let Some(why) = unfit(request) {
        let level = if why.starts_with("the page") { Level::Warn } else { Level::Debug };
        request.log(NAME, level, why);
        return body;
    }
    let dir = request.dir.slots.clone();
    let dir = dir.get::<ProxyHtmlDir>();
    let work = Work {
        rules: rules(request, dir),
        links: dir.links.get().cloned().unwrap_or_default(),
        events: dir.events.get().cloned().unwrap_or_default(),
        extended: dir.extended(),
        strips_comments: dir.strips_comments(),
        lowercase: dir.fixups.lowercase,
        dospath: dir.fixups.dospath,
        doctype: dir.doctype.get().cloned(),
    };
    request.response.headers_out.remove("Content-Length");
    let begun = Begun::look(body, if dir.meta() { LOOK } else { 0 }).await;
    let (start, failed, rest) = begun.into_parts();
    if dir.meta() {
        for (name, value) in meta::fields(&start) {
            request.response.headers_out.set(name, value);
        }
    }
    let translation = translation(request, dir);
    let speaker = request.speaker();
    server::written(|out| pass(speaker, (start, failed, rest), Scan::new(work), translation, out)).await
}

/// The rules of a request.
fn rules(request: &mut Request, dir: &ProxyHtmlDir) -> Vec<Active> {
    let mut rules = Vec::with_capacity(dir.rules.len());
    for (rule, origin) in dir.rules.entries() {
        if !dir.interpolate() {
            rules.push(rule.constant());
            continue;
        }
        match rule.condition.as_ref().map_or(Ok(true), |condition| evaluate(request, condition)) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                let text = format!("AH01421: Error evaluating expr: {error} ({origin})");
                request.log(NAME, Level::Error, text);
                continue;
            }
        }
        match rule.interpolated(&|text| interpolated(request, text)) {
            Ok(active) => rules.push(active),
            Err(why) => request.log(NAME, Level::Error, format!("a rule does not hold: {why} ({origin})")),
        }
    }
    rules
}

/// Replaces `${NAME|default}` in a text by variables of the request.
fn interpolated(request: &Request, text: &str) -> Result<String, TooLong> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, (inner, behind))) =
        rest.split_once("${").and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
    {
        let (name, default) = inner.split_once('|').unwrap_or((inner, ""));
        out.extend([before, request.env_value(name).unwrap_or(default)]);
        rest = behind;
        TooLong::check(out.len(), TEXT_MAX)?;
    }
    Ok(out + rest)
}

/// From UTF-8 to the charset of the output, which the response's type names from now on, and as in Apache nothing else.
fn translation(request: &mut Request, dir: &ProxyHtmlDir) -> Option<Translation> {
    let came = request.notes.get(CHARSET)?;
    let charset = dir.charset.get().map(|charset| if charset == "*" { came } else { charset });
    let translated = charset.and_then(|charset| {
        let is_other = Encoding::for_label(charset.as_bytes()).is_some_and(|found| found != UTF_8);
        let translation = Translation::open(UTF_8.name(), charset, false).filter(|_| is_other)?;
        Some((translation, charset))
    });
    let (translation, charset) = translated.map_or((None, "utf-8"), |(translation, name)| (Some(translation), name));
    let kind = request.response.content_type()?.split(';').next().unwrap_or_default().trim_end();
    let media_type = format!("{kind};charset={charset}");
    request.response.set_content_type(media_type);
    translation
}

async fn pass(
    speaker: Box<Request>,
    (start, mut failed, mut rest): (Vec<u8>, Option<io::Error>, Box<dyn BodyStream>),
    mut scan: Scan,
    mut translation: Option<Translation>,
    out: Writer,
) -> io::Result<()> {
    let (mut budget, mut made) = (CoopBudget::new(), Vec::new());
    let mut next = Some(Ok(start.into()));
    loop {
        let is_last = next.is_none();
        let piece: bytes::Bytes = next.transpose()?.unwrap_or_default();
        let mut chunks = piece.chunks(STEP).peekable();
        loop {
            budget.step().await;
            let chunk = chunks.next().unwrap_or_default();
            scan.step(chunk, is_last, &mut made);
            match &mut translation {
                None => out.write(&made).await,
                Some(translation) => {
                    out.write(&translation.step(&made, is_last).map_err(io::Error::other)?).await;
                }
            }
            made.clear();
            if chunks.peek().is_none() {
                break;
            }
        }
        if let Some(error) = failed.take() {
            return Err(error);
        }
        if is_last {
            break;
        }
        next = rest.next().await;
    }
    if let Some(fault) = scan.faults.first() {
        let why = match fault {
            Fault::TooLong(why) => why.to_string(),
            Fault::Match(why) => why.to_string(),
        };
        speaker.log(NAME, Level::Warn, format!("links of {} stay as they are: {why}", speaker.data.uri));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("ProxyHTMLLinks a href\nProxyHTMLEvents onclick onload\nProxyHTMLURLMap / /x/ Rl", ""),
            ("ProxyHTMLDoctype html5\nProxyHTMLDoctype XHTML Legacy\nProxyHTMLDoctype \"-//X\" XML", ""),
            ("ProxyHTMLCharsetOut *\nProxyHTMLCharsetOut latin1\nProxyHTMLFixups lowercase dospath reset", ""),
            ("ProxyHTMLURLMap a b h A=b\nProxyHTMLURLMap a b h \"reqenv('A') == 'b'\"", ""),
            ("ProxyHTMLURLMap a", "Usage: ProxyHTMLURLMap from-pattern to-pattern [flags] [cond]"),
            ("ProxyHTMLURLMap a b q", "ProxyHTMLURLMap: unknown flag q"),
            ("ProxyHTMLLinks a", "ProxyHTMLLinks requires at least two arguments, Declare HTML Attributes"),
            ("ProxyHTMLEnable maybe", "ProxyHTMLEnable must be On or Off"),
            ("ProxyHTMLFixups odd", "ProxyHTMLFixups must be lowercase, dospath or reset, and not odd"),
            ("ProxyHTMLBufSize x", "Invalid value for directive ProxyHTMLBufSize, expected integer"),
            ("ProxyHTMLCharsetOut utf-16", "ProxyHTMLCharsetOut: pages cannot be written in the charset utf-16"),
        ]);
    }
}
