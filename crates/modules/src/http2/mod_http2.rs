//! The settings of HTTP/2, and its variables for requests. The server's protocol implementation reads [`Http2`].
//!
//! Apache manual: mod_http2. Messages are those of Apache 2.4.71.

use std::sync::Arc;
use std::time::Duration;

use conf::directive::Args::{Take1, Take2, Take23, Take123};
use conf::values::{atoi, duration, on_off};
use conf::{
    Allowed, Cmd, Context, Directive, Error, InArgument as _, Level, Listed, ModuleInfo, Origin, Outcome, Refusal,
    Setting, Source, on_or_off, row, settings, shown,
};
use http::Decimal;
use server::PhaseHook::{Later, Now};
use server::{Draft, Fields, Flow, Hook, Http2, Module, Order, Phase, Request, StreamId, Waiting, WriteVariable};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "http2_module", source: "mod_http2.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Check(allow),
        Hook::Variable(variable),
        Hook::OwnVariable(STREAM_ID, write_id),
        Hook::OwnVariable(STREAM_TAG, write_tag),
        Hook::Phase(Phase::Fixups, Order::Last, Now(set_variables)),
        Hook::Phase(Phase::Fixups, Order::Last, Later { claims: has_hints, run: send_hints }),
    ],
};

settings! {
    /// The settings of a section.
    pub struct Http2Dir {
        resources: Listed<Hint>,
        hints: Listed<Hint>,
    }
}

impl Http2Dir {
    /// The fields of early hints, in Apache's order.
    fn all(&self) -> impl Iterator<Item = &Hint> {
        self.resources.iter().chain(self.hints.iter())
    }
}

/// A field of an early hint.
#[derive(Clone, Debug)]
struct Hint {
    name: String,
    value: String,
}

const SERVER: Allowed = Allowed::SERVER;
const AUTH: Allowed = Allowed::AUTH.or(SERVER);
const FILEINFO: Allowed = Allowed::FILEINFO;

const WORKERS: &str = "HTTP/2 has no workers of its own: those of the multi-processing module serve its requests.";
const NO_PUSH: &str = "Nothing is pushed: browsers no longer accept it.";
const WRITES: &str = "Data always goes out in records of full size.";

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("H2MaxSessionStreams", SERVER, Take1(|c, v| positive(c, |s| &mut s.max_session_streams, v)), shown!(Http2::MAX_SESSION_STREAMS), "maximum number of open streams per session"),
    row("H2WindowSize", SERVER, Take1(window_size), shown!(Http2::WINDOW_SIZE), "window size on client DATA"),
    row("H2MinWorkers", SERVER, Take1(|_, v| at_least(v, 1, "value must be > 0")), "", "minimum number of worker threads per child").without_effect(WORKERS),
    row("H2MaxWorkers", SERVER, Take1(|_, v| at_least(v, 1, "value must be > 0")), "", "maximum number of worker threads per child").without_effect(WORKERS),
    row("H2MaxWorkerIdleSeconds", SERVER, Take1(|_, v| time(v, "Invalid idle limit value").map(drop).in_argument(1)), "600", "maximum number of idle seconds before a worker shuts down").without_effect(WORKERS),
    row("H2StreamMaxMemSize", SERVER, Take1(stream_max_mem_size), shown!(Http2::STREAM_MAX_MEM_SIZE), "maximum number of bytes buffered in memory for a stream"),
    row("H2SerializeHeaders", SERVER, Take1(serialize_headers), "Off", "disabled, this directive has no longer an effect.").without_effect("As in Apache 2.4, with the same warning."),
    row("H2ModernTLSOnly", SERVER, Take1(any_switch), "On", "off to not impose RFC 7540 restrictions on TLS").without_effect("The server offers only TLS versions and ciphers that HTTP/2 allows."),
    row("H2Upgrade", AUTH, Take1(|c, v| flag(c, |s| &mut s.upgrade, v)), "On", "on to allow HTTP/1 Upgrades to h2/h2c").differs("It applies to clear text, and to a server or virtual host: a client changes the protocol before any directory is known."),
    row("H2Direct", SERVER, Take1(|c, v| flag(c, |s| &mut s.direct, v)), "On", "on to enable direct HTTP/2 mode").differs("It applies to clear text: over TLS a client that wants HTTP/2 has to say so in its handshake (ALPN)."),
    row("H2SessionExtraFiles", SERVER, Take1(session_extra_files), "", "number of extra file a session might keep open (obsolete)").without_effect("As in Apache 2.4, with the same warning."),
    row("H2TLSWarmUpSize", SERVER, Take1(|_, _| Ok(())), "1048576", "number of bytes on TLS connection before doing max writes").without_effect(WRITES),
    row("H2TLSCoolDownSecs", SERVER, Take1(|_, _| Ok(())), "1", "seconds of idle time on TLS before shrinking writes").without_effect(WRITES),
    row("H2Push", AUTH, Take1(any_switch), "On", "off to disable HTTP/2 server push").without_effect(NO_PUSH),
    row("H2PushPriority", SERVER, Take23(push_priority), "* After 16", "define priority of PUSHed resources per content type").without_effect(NO_PUSH),
    row("H2PushDiarySize", SERVER, Take1(push_diary_size), "256", "size of push diary").without_effect(NO_PUSH),
    row("H2CopyFiles", FILEINFO, Take1(any_switch), "Off", "on to perform copy of file data").without_effect("Files are read when they are sent."),
    row("H2PushResource", AUTH.or(FILEINFO), Take123(push_resource), "", "add a resource to be pushed in this location/on this server.").differs("The resource is announced in an early hint, with H2EarlyHints, and not pushed."),
    row("H2EarlyHints", SERVER, Take1(|c, v| flag(c, |s| &mut s.early_hints, v)), on_or_off(Http2::EARLY_HINTS), "on to enable interim status 103 responses").differs("Early hints of scripts are passed on even without it."),
    row("H2Padding", SERVER, Take1(padding), "0", "set payload padding").without_effect("Frames are not padded."),
    row("H2OutputBuffering", SERVER, Take1(any_switch), "On", "set stream output buffer on/off").without_effect("A handler's output is sent as soon as the client takes it."),
    row("H2StreamTimeout", SERVER, Take1(stream_timeout), "", "set stream timeout").differs("Without it, or with 0, Timeout applies."),
    row("H2MaxDataFrameLen", SERVER, Take1(max_data_frame_len), "0", "maximum number of bytes in a single HTTP/2 DATA frame"),
    row("H2MaxHeaderBlockLen", SERVER, Take1(|_, v| at_least(v, 0, "value must be 0 or larger")), "0", "maximum number of bytes in a response header block").without_effect("The fields of an answer are sent as they are, as over HTTP/1."),
    row("H2MaxStreamErrors", SERVER, Take1(max_stream_errors), "8", "maximum number of flow control errors tolerated"),
    row("H2EarlyHint", AUTH.or(FILEINFO), Take2(early_hint), "", "add a a 'Link:' header for a 103 Early Hints response."),
    row("H2ProxyRequests", FILEINFO, Take1(any_switch), "Off", "Enables forward proxy requests via HTTP/2").without_effect("Clients speak HTTP/1 with the forward proxy."),
    row("H2WebSockets", SERVER, Take1(|c, v| flag(c, |s| &mut s.websockets, v)), on_or_off(Http2::WEBSOCKETS), "off to disable WebSockets over HTTP/2"),
];

/// Enables HTTP/2: without this module it is not used, whatever `Protocols` says.
fn allow(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    let origin = Origin { source: Arc::new(Source::new("mod_http2")), line: 0 };
    let hosts = draft.hosts.iter_mut().map(|host| &mut host.server);
    [&mut draft.main].into_iter().chain(hosts).for_each(|server| server.edit::<Http2>().is_there.set(true, &origin));
    Ok(())
}

/// Checks an `On` or `Off` that has no effect.
fn any_switch(_: &mut Cmd<'_>, value: &str) -> Outcome {
    switch(value)?;
    Ok(())
}

fn at_least(value: &str, least: i32, message: &str) -> Outcome {
    if atoi(value) >= least { Ok(()) } else { Err(message.into()) }
}

fn switch(value: &str) -> Result<bool, String> {
    on_off(value).ok_or_else(|| "value must be On or Off".into())
}

fn time(value: &str, message: &str) -> Result<Duration, String> {
    duration(value, Duration::from_secs(1)).ok_or_else(|| message.into())
}

fn flag(cmd: &mut Cmd<'_>, field: fn(&mut Http2) -> &mut Setting<bool>, value: &str) -> Outcome {
    let value = switch(value)?;
    cmd.server_set(field, value)
}

fn positive(cmd: &mut Cmd<'_>, field: fn(&mut Http2) -> &mut Setting<u32>, value: &str) -> Outcome {
    at_least(value, 1, "value must be > 0")?;
    cmd.server_set(field, atoi(value).unsigned_abs())
}

fn window_size(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    at_least(value, 1024, "value must be >= 1024")?;
    cmd.server_set(|s: &mut Http2| &mut s.window_size, atoi(value).unsigned_abs())
}

fn stream_max_mem_size(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    at_least(value, 1024, "value must be >= 1024")?;
    cmd.server_set(|s: &mut Http2| &mut s.stream_max_mem_size, atoi(value).unsigned_abs() as usize)
}

fn max_data_frame_len(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    at_least(value, 0, "value must be 0 or larger")?;
    let most = atoi(value).unsigned_abs() as usize;
    cmd.server_set(|s: &mut Http2| &mut s.max_data_frame_len, Some(most).filter(|most| *most > 0))
}

fn max_stream_errors(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    at_least(value, 0, "value must be 0 or larger")?;
    let most = atoi(value).unsigned_abs() as usize;
    cmd.server_set(|s: &mut Http2| &mut s.max_stream_errors, Some(most).filter(|most| *most > 0))
}

fn stream_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let timeout = time(value, "Invalid timeout value")?;
    cmd.server_set(|s: &mut Http2| &mut s.stream_timeout, Some(timeout).filter(|timeout| !timeout.is_zero()))
}

fn serialize_headers(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    if value.eq_ignore_ascii_case("on") {
        const TEXT: &str =
            "AH10307: H2SerializeHeaders: this feature has been disabled and the directive to enable it is ignored.";
        cmd.context.note("http2", Level::Warn, TEXT);
    }
    Ok(())
}

fn session_extra_files(cmd: &mut Cmd<'_>, _: &str) -> Outcome {
    cmd.context.note("http2", Level::Warn, "H2SessionExtraFiles is obsolete and will be ignored");
    Ok(())
}

/// Checks `TYPE [after|before|interleaved] [WEIGHT]`.
fn push_priority(_: &mut Cmd<'_>, media_type: &str, dependency: &str, weight: Option<&str>) -> Outcome {
    if media_type.is_empty() {
        return Err(Refusal::argument(1, "1st argument must be a mime-type, like 'text/css' or '*'"));
    }
    if weight.is_none() && dependency.starts_with(|first: char| first.is_ascii_digit()) {
        return at_least(dependency, 1, "weight must be a number >= 1").in_argument(2);
    }
    match dependency.to_ascii_lowercase().as_str() {
        "before" if weight.is_some() => Err(Refusal::surplus(3, "dependency 'Before' does not allow a weight")),
        "before" => Ok(()),
        "after" | "interleaved" => match weight {
            Some(weight) => at_least(weight, 1, "weight must be a number >= 1").in_argument(3),
            None => Ok(()),
        },
        _ => Err(Refusal::argument(2, "dependency must be one of 'After', 'Before' or 'Interleaved'")),
    }
}

fn push_diary_size(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        ..0 => Err("value must be >= 0".into()),
        size if size > 0 && !size.unsigned_abs().is_power_of_two() => Err("value must a power of 2".into()),
        32_769.. => Err("value must <= 65536".into()),
        _ => Ok(()),
    }
}

fn padding(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match atoi(value) {
        ..0 => Err("number of bits must be >= 0".into()),
        9.. => Err("number of bits must be <= 8".into()),
        _ => Ok(()),
    }
}

/// Parses `[add] PATH [critical]`.
fn push_resource(cmd: &mut Cmd<'_>, first: &str, second: Option<&str>, third: Option<&str>) -> Outcome {
    let (path, last) = if first == "add" { (second.unwrap_or(first), third) } else { (first, second) };
    if first != "add" && third.is_some() {
        return Err("too many parameter".into());
    }
    let value = match last {
        None => format!("<{path}>; rel=preload"),
        Some("critical") => format!("<{path}>; rel=preload; critical"),
        Some(_) => return Err("unknown last parameter".into()),
    };
    cmd.push(|d: &mut Http2Dir| &mut d.resources, Hint { name: "Link".into(), value })
}

fn early_hint(cmd: &mut Cmd<'_>, name: &str, value: &str) -> Outcome {
    if name.is_empty() {
        return Err("Early Hint header name must not be empty".into());
    }
    if value.trim().is_empty() {
        return Err("Early Hint header value must not be empty/only space".into());
    }
    cmd.push(|d: &mut Http2Dir| &mut d.hints, Hint { name: name.into(), value: value.trim_start().into() })
}

/// The variables about HTTP/2, in Apache's order.
const NAMES: [&str; 7] = ["HTTP2", "H2PUSH", "H2_PUSH", "H2_PUSHED", "H2_PUSHED_ON", STREAM_ID, STREAM_TAG];

/// Those that each stream has its own value of.
const STREAM_ID: &str = "H2_STREAM_ID";
const STREAM_TAG: &str = "H2_STREAM_TAG";

/// The value of a variable. Requests over HTTP/1 only have `HTTP2` and `H2PUSH`.
fn variable(request: &Request, name: &str) -> Option<String> {
    if !NAMES.contains(&name) {
        return None;
    }
    Some(match (name, request.data.stream) {
        ("HTTP2", Some(_)) => "on".into(),
        ("HTTP2", None) | ("H2PUSH" | "H2_PUSH", _) => "off".into(),
        (STREAM_ID, _) => written(request, write_id),
        (STREAM_TAG, _) => written(request, write_tag),
        _ => String::new(),
    })
}

fn written(request: &Request, write: WriteVariable) -> String {
    let mut text = String::new();
    write(request, &mut text);
    text
}

fn write_id(request: &Request, text: &mut String) {
    if let Some(StreamId { number, .. }) = request.data.stream {
        text.push_str(Decimal::of(number.into()).as_str());
    }
}

fn write_tag(request: &Request, text: &mut String) {
    if let Some(StreamId { process, connection, number }) = request.data.stream {
        for (before, number) in [("", process.into()), ("-", connection), ("-", number.into())] {
            text.push_str(before);
            text.push_str(Decimal::of(number).as_str());
        }
    }
}

/// Sets the variables for scripts.
fn set_variables(request: &mut Request) -> Flow {
    if request.data.stream.is_some() && !request.is_subrequest() && !request.env.contains(NAMES[0]) {
        for name in NAMES {
            let own: Option<WriteVariable> = match name {
                STREAM_ID => Some(write_id),
                STREAM_TAG => Some(write_tag),
                _ => None,
            };
            if let Some(write) = own {
                if !request.env.contains(name) {
                    request.set_own_variable(name, write);
                    continue;
                }
                request.asks_beyond_head();
            }
            let value = variable(request, name).unwrap_or_default();
            request.env.add(name, value);
        }
    }
    Flow::Declined
}

/// Whether there are early hints to send.
fn has_hints(request: &Request) -> bool {
    request.data.stream.is_some()
        && !request.is_subrequest()
        && request.previous().is_none()
        && request.host::<Http2>().early_hints()
        && request.dir::<Http2Dir>().all().next().is_some()
}

/// Sends early hints (RFC 8297): the fields set so far by `Header early`, and the configured ones. As in Apache, they
/// appear only in the hint.
fn send_hints(request: &mut Request) -> Waiting<'_, Flow> {
    Box::pin(async {
        let mut hints: Fields = std::mem::take(&mut request.response.headers_out);
        let dir = request.dir.slots.clone();
        for Hint { name, value } in dir.get::<Http2Dir>().all() {
            hints.merge(name.clone(), value);
        }
        if let Err(error) = request.send_interim(103, &hints).await {
            request.log_os("http2", Level::Debug, &error, "early hints are not sent");
        }
        Flow::Declined
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{apply, check};

    #[test]
    fn errors_as_apache_has_them() {
        check(&[
            ("H2MaxSessionStreams 0", "value must be > 0"),
            ("H2MaxSessionStreams x", "value must be > 0"),
            ("H2MaxSessionStreams 5x", ""),
            ("H2WindowSize 1023", "value must be >= 1024"),
            ("H2WindowSize 1024", ""),
            ("H2MinWorkers -1", "value must be > 0"),
            ("H2MaxWorkerIdleSeconds x", "Invalid idle limit value"),
            ("H2MaxWorkerIdleSeconds 10ms", ""),
            ("H2StreamMaxMemSize on", "value must be >= 1024"),
            ("H2ModernTLSOnly 1", "value must be On or Off"),
            ("H2TLSWarmUpSize x", ""),
            ("H2PushPriority a b", "dependency must be one of 'After', 'Before' or 'Interleaved'"),
            ("H2PushPriority text/css before 5", "dependency 'Before' does not allow a weight"),
            ("H2PushPriority text/css after 0", "weight must be a number >= 1"),
            ("H2PushPriority text/css Interleaved 300", ""),
            ("H2PushDiarySize -1", "value must be >= 0"),
            ("H2PushDiarySize 5000", "value must a power of 2"),
            ("H2PushDiarySize 65536", "value must <= 65536"),
            ("H2PushDiarySize 32768", ""),
            ("H2PushResource a", ""),
            ("H2PushResource add a critical", ""),
            ("H2PushResource add a foo", "unknown last parameter"),
            ("H2EarlyHint Link '  '", "Early Hint header value must not be empty/only space"),
            ("H2Padding 9", "number of bits must be <= 8"),
            ("H2Padding -1", "number of bits must be >= 0"),
            ("H2StreamTimeout on", "Invalid timeout value"),
            ("H2MaxDataFrameLen -1", "value must be 0 or larger"),
            ("H2WebSockets yes", "value must be On or Off"),
            ("<Location />\nH2EarlyHints on\n</Location>", "H2EarlyHints not allowed in <Location> context"),
            ("<Location />\nH2Push off\nH2Upgrade on\nH2EarlyHint Link x\n</Location>", ""),
        ]);
    }

    #[test]
    fn zero_is_without_limit() {
        let settings = |lines: &str| apply(lines).expect("lines").server.get::<Http2>().clone();
        assert_eq!(settings("").max_stream_errors(), Some(8));
        assert_eq!(settings("H2MaxStreamErrors 0").max_stream_errors(), None);
        assert_eq!(settings("H2MaxDataFrameLen 0").max_data_frame_len(), None);
        assert_eq!(settings("H2MaxDataFrameLen 1000").max_data_frame_len(), Some(1000));
        assert_eq!(settings("H2StreamTimeout 5").stream_timeout(), Some(Duration::from_secs(5)));
    }
}
