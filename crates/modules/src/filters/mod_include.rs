//! Server-side includes: pages that are assembled while they are sent.
//!
//! Apache manual: mod_include. Doubtful cases were measured on 2.4.71. A page is read and sent piece by piece. Each
//! included part is a separate subrequest, which may wait for a script while the beginning of the page is on its way.

mod conditions;
mod elements;
mod expand;
#[cfg(fuzzing)]
pub mod fuzzing;
mod include;
mod legacy;
mod page;
mod scan;
mod settings;
mod variables;

use std::sync::Arc;

use conf::directive::Args::{Flag, Take1};
use conf::values::one_of;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, on_or_off, row};
use server::core::options;
use server::{Body, Flow, Hook, Module, Order, OutputFilter, Phase, PhaseHook, Rank, Request};

use self::page::Page;
use self::settings::{END, ETAG, IncludeDir, IncludeServer, LAST_MODIFIED, LEGACY, START, Tags, UNDEFINED, XBitHack};
use self::variables::Variables;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "include_module", source: "mod_include.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::Fixups, Order::Last, PhaseHook::Now(find_page)),
        Hook::NamedFilter(&INCLUDES),
    ],
};

static INCLUDES: OutputFilter = OutputFilter {
    name: "INCLUDES",
    rank: Rank::RESOURCE,
    prepare: Some(prepare),
    unmodified: None,
    apply: |request, body| Box::pin(includes(request, body)),
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("XBitHack", Allowed::OPTIONS, Take1(set_xbithack), "Off", "Off, On, or Full"),
    row("SSIErrorMsg", Allowed::ANY, Take1(|c, v| { let v = v.to_string(); c.set(|d: &mut IncludeDir| &mut d.error, v) }), "\"[an error occurred while processing this directive]\"", "a string"),
    row("SSITimeFormat", Allowed::ANY, Take1(|c, v| { let v = v.to_string(); c.set(|d: &mut IncludeDir| &mut d.time_format, v) }), "\"%A, %d-%b-%Y %H:%M:%S %Z\"", "a strftime(3) formatted string"),
    row("SSIStartTag", Allowed::SERVER, Take1(|c, v| set_tag(c, v, |tags| &mut tags.start)), START, "SSI Start String Tag"),
    row("SSIEndTag", Allowed::SERVER, Take1(|c, v| set_tag(c, v, |tags| &mut tags.end)), END, "SSI End String Tag"),
    row("SSIUndefinedEcho", Allowed::ANY, Take1(|c, v| { let v = v.to_string(); c.set(|d: &mut IncludeDir| &mut d.undefined, v) }), UNDEFINED, "String to be displayed if an echoed variable is undefined"),
    row("SSILegacyExprParser", Allowed::LIMIT, Flag(|c, on| c.set(|d: &mut IncludeDir| &mut d.legacy, on)), on_or_off(LEGACY), "Whether to use the legacy expression parser compatible with <= 2.2.x. Limited to 'on' or 'off'"),
    row("SSILastModified", Allowed::LIMIT, Flag(|c, on| c.set(|d: &mut IncludeDir| &mut d.last_modified, on)), on_or_off(LAST_MODIFIED), "Whether to set the last modified header or respect an existing header. Limited to 'on' or 'off'"),
    row("SSIEtag", Allowed::LIMIT, Flag(|c, on| c.set(|d: &mut IncludeDir| &mut d.etag, on)), on_or_off(ETAG), "Whether to allow the generation of ETags within the server. Existing ETags will be preserved. Limited to 'on' or 'off'"),
];

fn set_xbithack(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [("Off", XBitHack::Off), ("On", XBitHack::On), ("Full", XBitHack::Full)];
    let value = one_of(value, &table).ok_or("XBitHack must be set to Off, On, or Full")?;
    cmd.set(|d: &mut IncludeDir| &mut d.xbithack, value)
}

fn set_tag(cmd: &mut Cmd<'_>, value: &str, field: fn(&mut Tags) -> &mut Option<String>) -> Outcome {
    if value.contains(|char: char| char.is_ascii_whitespace()) {
        return Err(format!("{} may not contain any whitespaces", cmd.row.name).into());
    }
    let origin = cmd.origin();
    *field(cmd.server.edit::<IncludeServer>().tags.edit(&origin)) = Some(value.to_string());
    Ok(())
}

/// The handler `server-parsed`, and files that `XBitHack` turns into pages.
fn find_page(request: &mut Request) -> Flow {
    if request.mapped.handler.as_deref() == Some("server-parsed") {
        if request.response.content_type().is_none_or(str::is_empty) {
            request.response.set_content_type("text/html");
        }
        request.mapped.handler = Some("default-handler".into());
    } else {
        let hack = request.dir::<IncludeDir>().xbithack.value_or(XBitHack::Off);
        let by_owner = || request.mapped.stat.is_some_and(|meta| meta.mode & 0o100 != 0);
        if hack == XBitHack::Off || !by_owner() || request.response.content_type() != Some("text/html") {
            return Flow::Declined;
        }
    }
    request.response.output_filters.push(INCLUDES.name.into());
    Flow::Declined
}

/// Whether `XBitHack Full` says that the page changes only with its file.
fn changes_with_file(request: &Request) -> bool {
    request.dir::<IncludeDir>().xbithack.value_or(XBitHack::Off) == XBitHack::Full
        && request.mapped.stat.is_some_and(|meta| meta.mode & 0o010 != 0)
}

/// Sets a page's fields before anybody has parsed it.
fn prepare(request: &mut Request) {
    if !changes_with_file(request) {
        request.response.no_local_copy = true;
    }
    if !request.dir::<IncludeDir>().etag() && request.mapped.stat.is_some() {
        // The tag is the file's own, and does not cover the included parts.
        request.response.headers_out.remove("ETag");
    }
}

/// The filter `INCLUDES`.
async fn includes(request: &mut Request, body: Body) -> Body {
    request.asks_beyond_head();
    if request.options() & options::INCLUDES == 0 {
        let text = format!(
            "AH01374: mod_include: Options +Includes (or IncludesNoExec) wasn't set, INCLUDES filter removed: {}",
            request.data.uri
        );
        request.log("include", Level::Warn, text);
        return body;
    }
    let known = request.page.take().and_then(|page| page.downcast::<Variables>().ok());
    let variables = match known {
        Some(variables) => variables,
        None => Arc::new(Variables::of(request)),
    };
    if let Some(args) = &request.data.args {
        variables.set_query(args);
    }
    request.response.headers_out.remove("Content-Length");
    let is_dated = request.response.headers_out.contains("Last-Modified");
    match request.dir::<IncludeDir>().last_modified() {
        true if is_dated => {}
        dated if dated || changes_with_file(request) => set_last_modified(request),
        _ => request.response.headers_out.remove("Last-Modified"),
    }
    if matches!(body, Body::Empty) {
        return body;
    }
    // A page may run commands and scripts.
    request.before_programs().await;
    let page = Page::of(request, variables);
    server::written(|out| page.write(body.into_stream(), out)).await
}

fn set_last_modified(request: &mut Request) {
    if let Some(meta) = request.mapped.stat {
        let date = http::date::http_date(meta.mtime.div_euclid(1_000_000_000) as i64);
        request.response.headers_out.set("Last-Modified", String::from_utf8_lossy(&date));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("XBitHack full", ""),
            ("XBitHack maybe", "XBitHack must be set to Off, On, or Full"),
            ("SSIStartTag \"<% \"", "SSIStartTag may not contain any whitespaces"),
            ("SSIEndTag \"\t%>\"", "SSIEndTag may not contain any whitespaces"),
            ("SSILegacyExprParser on", "SSILegacyExprParser not allowed here"),
            ("<Location />\nSSILegacyExprParser maybe\n</Location>", "SSILegacyExprParser must be On or Off"),
            ("<Location />\nSSIStartTag x\n</Location>", "SSIStartTag not allowed in <Location> context"),
        ]);
    }
}
