//! From a script's output to the server's response, whatever ran the script.

use std::time::Duration;

use conf::Level;
use http::Version;
use server::paths::base_name;
use server::{Body, HandlerResult, Keep, Request};

use super::fields;
use super::header::{Fault, HEADER_MAX, Parser, ResponseHeader};
use crate::caller::Caller;
use crate::gate::NotAdmitted;
use crate::script::{self, Event, Output, Script};
use crate::script_log::FailedRun;

/// How long to wait for the end of an output before the response begins: a response of known length is one write, and
/// keeps the connection open for HTTP/1.0 clients too. Nobody notices the delay.
const MOMENT: Duration = Duration::from_millis(2);
/// How many interim responses a script may send.
const INTERIM_MAX: usize = 16;
/// How much of a failed script's output is kept for the script log, in bytes.
const LOGGED_MAX: usize = 64 * 1024;

/// Turns a script's output into a response.
pub(crate) async fn relay(request: &mut Request, script: Script, caller: &Caller) -> HandlerResult {
    // Other protocols have no textual head to pass on.
    if caller.nph && request.data.version < Version::Http2 {
        return HandlerResult::Raw(stream(request, script, None));
    }
    match read_header(request, script, caller).await {
        Ok((script, header)) => send(request, script, header, caller).await,
        Err(status) => HandlerResult::Status(status),
    }
}

/// There is no memory for the script: the client may try again.
pub(crate) fn turn_away(request: &mut Request, caller: &Caller, why: &NotAdmitted) -> HandlerResult {
    request.log(caller.module, Level::Error, format!("{} is not started: {}", request.mapped.filename, why.reason));
    let fields = &mut request.response.err_headers_out;
    fields.set("Retry-After", why.retry.as_secs().max(1).to_string());
    // A balancer may send any request on to another server, also one that must not run twice (docs/fleet.md).
    fields.set("X-Tsubame-Not-Started", "1");
    HandlerResult::Status(503)
}

/// Reads the header. `Err`: there is none, and this is the status.
pub(crate) async fn read_header(
    request: &mut Request,
    mut script: Script,
    caller: &Caller,
) -> Result<(Script, ResponseHeader), u16> {
    let mut parser = if caller.nph { Parser::with_status_line() } else { Parser::default() };
    let mut interim = InterimResponses::default();
    loop {
        match parser.advance(&script.output) {
            Ok(Some(length)) => {
                script.output.drain(..length);
                let header = std::mem::take(&mut parser).into_header();
                if !header.is_interim() {
                    return Ok((script, header));
                }
                if !interim.allow(length) {
                    return Err(bad_header(request, script, &parser, Fault::TooLong, caller).await);
                }
                let fields = fields::interim(request, header)?;
                if let Err(error) = request.send_interim(103, &fields).await {
                    request.log_os(caller.module, Level::Debug, &error, "early hints of a script are not sent");
                }
                continue;
            }
            Ok(None) => {}
            Err(fault) => return Err(bad_header(request, script, &parser, fault, caller).await),
        }
        let (status, text) = match script.next(request).await {
            Event::Output => continue,
            Event::Ended => (500, too_early(&parser, base_name(&request.mapped.filename))),
            Event::TimedOut => {
                script.fail(request, Event::TimedOut);
                let name = base_name(&request.mapped.filename);
                (504, format!("Script timed out before returning headers: {name}"))
            }
            event => return Err(script.fail(request, event)),
        };
        fields::complain_to_client(request, caller.module, &text);
        log_failure(request, caller, status, &script, "", &[]);
        return Err(status);
    }
}

/// A script's interim responses (103, RFC 8297).
#[derive(Default)]
struct InterimResponses {
    number: usize,
    bytes: usize,
}

impl InterimResponses {
    /// Whether one more of this length is acceptable.
    fn allow(&mut self, length: usize) -> bool {
        self.number += 1;
        self.bytes += length;
        self.number <= INTERIM_MAX && self.bytes <= HEADER_MAX
    }
}

fn too_early(parser: &Parser, name: &str) -> String {
    let what =
        if parser.has_begun() { "Premature end of script headers" } else { "End of script output before headers" };
    format!("{what}: {name}")
}

/// Handles an unusable header. The script may still write everything it wants, unless its header has no end: then
/// neither has its output, and the script ends now.
async fn bad_header(request: &mut Request, mut script: Script, parser: &Parser, fault: Fault, caller: &Caller) -> u16 {
    let name = base_name(&request.mapped.filename).to_string();
    let (text, line) = match fault {
        Fault::Malformed(line) => {
            (format!("malformed header from script '{name}': Bad header: {}", fields::shown(&line)), line)
        }
        Fault::TooLong => {
            fields::complain_to_client(request, caller.module, &too_early(parser, &name));
            log_failure(request, caller, 500, &script, "", &[]);
            return 500;
        }
    };
    fields::complain_to_client(request, caller.module, &text);
    script.output.drain(..parser.read());
    refuse_output(request, script, caller, 500, &line).await;
    500
}

/// Lets a script run to its end, although its output is not sent.
async fn refuse_output(request: &Request, mut script: Script, caller: &Caller, status: u16, line: &str) {
    let mut kept = Vec::new();
    while caller.log.is_some() && kept.len() < LOGGED_MAX {
        kept.append(&mut script.output);
        if script.has_ended() || !matches!(script.next(request).await, Event::Output) {
            break;
        }
    }
    if !script.has_ended()
        && let Err(event) = script.drain(request).await
    {
        script.fail(request, event);
    }
    log_failure(request, caller, status, &script, line, &kept);
}

fn log_failure(request: &Request, caller: &Caller, status: u16, script: &Script, line: &str, output: &[u8]) {
    if let Some(log) = &caller.log {
        log.failure(request, &FailedRun { status, body: script.body_start(), line, output });
    }
}

/// From a header to a response.
pub(crate) async fn send(
    request: &mut Request,
    mut script: Script,
    header: ResponseHeader,
    caller: &Caller,
) -> HandlerResult {
    let decided = header.status.is_some();
    let length =
        header.content_length.clone().filter(|_| caller.trusts_length || request.env.contains("ap_trust_cgilike_cl"));
    if let Err(status) = fields::apply(request, header, caller.module, !caller.as_is) {
        drop(script);
        return HandlerResult::Status(status);
    }
    if request.response.status() == 200
        && let Some(location) = request.response.headers_out.get("Location").map(str::to_string)
    {
        return redirect(request, script, location, caller).await;
    }
    if let Some(status) = request.unmet_condition().filter(|_| !decided) {
        refuse_output(request, script, caller, status, "").await;
        if status != 304 {
            return HandlerResult::Status(status);
        }
        request.response.set_status(status);
        return HandlerResult::Body(Body::Empty);
    }
    let promised = length.and_then(|text| text.trim().parse().ok());
    // A response that is already complete has a length, and ranges. An empty one to HEAD does not tell the length for
    // GET.
    let whole = match promised {
        None => script.complete(request, MOMENT).await,
        Some(length) => script.has_ended() && script.output.len() as u64 == length,
    };
    if whole && !(request.data.header_only && script.output.is_empty()) {
        return HandlerResult::Body(Body::Bytes(std::mem::take(&mut script.output).into()));
    }
    HandlerResult::Body(stream(request, script, promised))
}

pub(crate) fn stream(request: &Request, mut script: Script, promised: Option<u64>) -> Body {
    script.settle();
    Body::Stream(Box::new(Output { script, speaker: request.speaker(), promised }))
}

/// `Location` without `Status`: a path of this server continues here, everything else goes to the client.
async fn redirect(request: &mut Request, mut script: Script, location: String, caller: &Caller) -> HandlerResult {
    if let Err(event) = script.drain(request).await {
        script.fail(request, event);
    }
    drop(script);
    if !location.starts_with('/') {
        return HandlerResult::Status(302);
    }
    // The field was for this server, whatever the result.
    request.response.headers_out.remove("Location");
    // The body was for this script; the new response is made without it, as in Apache.
    loop {
        match request.body.read().await {
            Ok(Some(_)) => runtime::yield_now().await,
            Ok(None) => break,
            Err(error) => {
                return HandlerResult::Status(script::fail(
                    request,
                    caller.module,
                    caller.timeout_message,
                    caller.timeout,
                    Event::Body(error),
                ));
            }
        }
    }
    request.headers_mut().remove("Content-Length");
    HandlerResult::Redirect { uri: location, keep: Keep { method: false, media_type: true } }
}
