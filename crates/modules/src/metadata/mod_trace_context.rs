//! Gives each request its place in a trace that several servers and applications share.
//!
//! Not one of Apache's modules: docs/logs.md. W3C Trace Context, level 1.

use std::fmt::Write as _;

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Setting, row, settings};
use server::PhaseHook::Now;
use server::{Flow, Hook, Module, Order, Phase, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "trace_context_module",
        source: "mod_trace_context.c",
        linked: false,
        directives: DIRECTIVES,
    },
    // Before mod_setenvif and mod_headers, which may read the variables.
    hooks: &[Hook::Repeatable, Hook::Phase(Phase::PostRead, Order::ReallyFirst, Now(join))],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("TraceContext", Allowed::SERVER, Take1(set), "off", "Whether requests join the trace that their traceparent field names (on), always begin one (new), or are left alone (off)").syntax("on|new|off"),
];

/// What becomes of the trace that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traces {
    /// Nothing: its fields go on as they came.
    Off,
    /// The request joins the trace.
    On,
    /// The request begins another one: clients are strangers.
    New,
}

settings! {
    /// The module's settings of a server.
    pub struct TraceServer {
        traces: Setting<Traces> = Traces::Off,
    }
}

fn set(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let known = [("off", Traces::Off), ("on", Traces::On), ("new", Traces::New)];
    let found = known.into_iter().find(|(name, _)| value.eq_ignore_ascii_case(name));
    let (_, traces) = found.ok_or_else(|| format!("TraceContext: '{value}' is none of on, new and off"))?;
    cmd.server_set(|s: &mut TraceServer| &mut s.traces, traces)
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
    let span = digits(&sys::random::bytes::<8>());
    let (trace, flags) = match &parent {
        Some(parent) => (parent.trace.clone(), parent.flags.clone()),
        None => (digits(&sys::random::bytes::<16>()), "00".to_owned()),
    };
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

fn digits(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
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
    fn lines() {
        crate::testing::check(&[
            ("TraceContext on", ""),
            ("TraceContext New", ""),
            ("TraceContext maybe", "TraceContext: 'maybe' is none of on, new and off"),
        ]);
    }
}
