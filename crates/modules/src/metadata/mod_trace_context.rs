//! Gives each request its place in a trace that several servers and applications share.
//!
//! Not one of Apache's modules: docs/logs.md. W3C Trace Context, level 1.

mod channel;
mod children;
mod exporting;
mod settings;
mod span;

use std::sync::Arc;

use conf::directive::Args::{Take1, Words};
use conf::{Allowed, Context, Directive, Error, Level, ModuleInfo, row};
use runtime::HelperProcess;
use server::PhaseHook::Now;
use server::{Draft, Flow, HelperHook, Hook, Module, Order, Phase, RecordedTrace, Request, Server, new_id};
use sys::cred::Identity;

use settings::{Export, TraceServer, Traces, set_export, set_traces};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "trace_context_module",
        source: "mod_trace_context.c",
        linked: false,
        directives: DIRECTIVES,
    },
    // Before mod_setenvif and mod_headers, which may read the variables.
    hooks: &[
        Hook::Repeatable,
        Hook::Check(check),
        Hook::Phase(Phase::PostRead, Order::ReallyFirst, Now(join)),
        Hook::HelperProcess(&HELPER),
        Hook::LogWhere(|server| export(server).is_some(), hand_over),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("TraceContext", Allowed::SERVER, Take1(set_traces), "off", "Whether requests join the trace that their traceparent field names (on), always begin one (new), or are left alone (off)").syntax("on|new|off"),
    row("TraceExport", Allowed::GLOBAL, Words(set_export), "none", "The collector of OpenTelemetry to which the requests of recorded traces are sent, and the share of new traces that are recorded").syntax("http://host:port[/path] [sample=percent%] [service=name]|none"),
];

/// Says so if there is nothing to export.
fn check(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    let is_set = draft.main.get::<TraceServer>().export.get().is_some_and(Option::is_some);
    if is_set && draft.servers().all(|server| server.get::<TraceServer>().traces() == Traces::Off) {
        let text = "TraceExport: there are no traces, since TraceContext is off for all virtual hosts";
        context.note("trace_context", Level::Warn, text);
    }
    Ok(())
}

static HELPER: HelperHook = helper;

/// Where spans go, if they go anywhere.
fn export(server: &Server) -> Option<&Arc<Export>> {
    server.main().settings.get::<TraceServer>().export.get()?.as_ref()
}

fn helper(server: &Arc<Server>, _: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let Some(export) = export(server).cloned() else { return Ok(None) };
    let opened = channel::start_to_count().and_then(|()| export.open());
    let channel = opened.map_err(|error| format!("{}: TraceExport {}", sys::describe(&error), export.url))?;
    Ok(Some(HelperProcess {
        name: "traces",
        count: 1,
        privileged: false,
        starts_scripts: false,
        life: Box::new(move |orders| exporting::serve(&export, &channel, orders)),
    }))
}

/// How many spans were sent, and how many were lost. `None`: none are exported.
pub(crate) fn counts() -> Option<(u64, u64)> {
    channel::counts()
}

/// Hands the spans of a request over to the process that exports them.
fn hand_over(request: &mut Request) {
    if let (Some(export), Some(recorded)) = (export(request.server), &request.account.recorded) {
        children::lines(request, recorded).iter().for_each(|line| export.send(line));
        export.send(&span::line(request, recorded));
    }
}

/// What the field `traceparent` says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    /// 32 hexadecimal digits.
    trace: String,
    /// 16 hexadecimal digits.
    span: String,
    /// Two hexadecimal digits; the last bit: the trace is recorded.
    flags: String,
}

/// Puts the request's own span into its fields and environment. Scripts and servers behind this one see them as their parent.
fn join(request: &mut Request) -> Flow {
    let traces = request.host::<TraceServer>().traces();
    if traces == Traces::Off || request.is_subrequest() || request.previous().is_some() {
        return Flow::Declined;
    }
    request.asks_beyond_head();
    let parent = request.header_joined("traceparent").and_then(|text| read(&text)).filter(|_| traces == Traces::On);
    let span = new_id::<8>();
    let export = export(request.server);
    let (trace, flags) = match &parent {
        Some(parent) => (parent.trace.clone(), parent.flags.clone()),
        None => {
            let is_recorded = export.is_some_and(|export| export.picks());
            (new_id::<16>(), if is_recorded { "01" } else { "00" }.to_owned())
        }
    };
    if export.is_some() && is_sampled(&flags) {
        let parent = parent.as_ref().map(|parent| parent.span.clone());
        let recorded = RecordedTrace::new(trace.clone(), span.clone(), parent, flags.clone());
        request.account.recorded = Some(Arc::new(recorded));
    }
    let fields = request.headers_mut();
    // Another trace's state says nothing about this one.
    if parent.is_none() {
        fields.remove("tracestate");
    }
    fields.set("traceparent", format!("00-{trace}-{span}-{flags}"));
    request.env.set("TRACE_ID", trace);
    request.env.set("SPAN_ID", span);
    if let Some(parent) = parent {
        request.env.set("PARENT_SPAN_ID", parent.span);
    }
    Flow::Declined
}

/// Reads the field (section 3.2.2). Later versions may have more parts; what is malformed or consists of zeros is as good as absent.
fn read(text: &str) -> Option<Parent> {
    let is_digits = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_id = |text: &str, length: usize| is_digits(text, length) && text.bytes().any(|byte| byte != b'0');
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let has_more = parts.next().is_some();
    let is_version = is_digits(version, 2) && version != "ff" && !(version == "00" && has_more);
    let is_valid = is_version && is_id(trace, 32) && is_id(span, 16) && is_digits(flags, 2);
    is_valid.then(|| Parent { trace: trace.into(), span: span.into(), flags: flags.into() })
}

/// Whether the trace is recorded (section 3.2.2.5): the last bit.
fn is_sampled(flags: &str) -> bool {
    u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_fields_count() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        const SPAN: &str = "00f067aa0ba902b7";
        for (text, expected) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!(" 00-{TRACE}-{SPAN}-00 "), true),
            (format!("01-{TRACE}-{SPAN}-01-more"), true),
            (format!("00-{TRACE}-{SPAN}-01-more"), false),
            (format!("ff-{TRACE}-{SPAN}-01"), false),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), false),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), false),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), false),
            (format!("00-{TRACE}-{SPAN}"), false),
            (format!("00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01"), false),
            (String::new(), false),
        ] {
            assert_eq!(read(&text).is_some(), expected, "{text}");
        }
    }

    #[test]
    fn the_last_bit_tells_what_is_recorded() {
        assert_eq!(["00", "01", "02", "03", "ff"].map(is_sampled), [false, true, false, true, true]);
    }
}
