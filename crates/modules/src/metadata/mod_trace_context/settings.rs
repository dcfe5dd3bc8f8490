//! The settings of mod_trace_context, and the functions of its directives.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use conf::{Cmd, Outcome, Refusal, Setting, settings};

use super::channel::Channel;
use crate::http_client;

/// What becomes of the trace that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traces {
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
        pub(super) traces: Setting<Traces> = Traces::Off,
        pub(super) export: Setting<Option<Arc<Export>>>,
    }
}

/// The line `TraceExport`.
#[derive(Debug)]
pub(super) struct Export {
    /// The collector, as written.
    pub(super) url: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
    /// The name of this server in traces.
    pub(super) service: String,
    /// Of 2^64 new traces, how many are recorded.
    share: u64,
    channel: Mutex<Option<Arc<Channel>>>,
}

impl Export {
    /// Whether a trace that begins here is to be recorded.
    pub(super) fn picks(&self) -> bool {
        self.share == u64::MAX || sys::random::number() < self.share
    }

    /// Opens a new channel, for the children and the exporter of the next generation: two exporters must not share one.
    pub(super) fn open(&self) -> io::Result<Arc<Channel>> {
        let channel = Arc::new(Channel::new()?);
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel.clone());
        Ok(channel)
    }

    /// Hands a span over.
    pub(super) fn send(&self, line: &[u8]) {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        channel.iter().for_each(|channel| channel.send(line));
    }
}

pub(super) fn set_traces(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let known = [("off", Traces::Off), ("on", Traces::On), ("new", Traces::New)];
    let found = known.into_iter().find(|(name, _)| value.eq_ignore_ascii_case(name));
    let (_, traces) = found.ok_or_else(|| format!("TraceContext: '{value}' is none of on, new and off"))?;
    cmd.server_set(|s: &mut TraceServer| &mut s.traces, traces)
}

pub(super) fn set_export(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let export = match words {
        [] => return Err(Refusal::missing("TraceExport takes the URL of a collector, or none")),
        [only] if only.eq_ignore_ascii_case("none") => None,
        [url, options @ ..] => Some(Arc::new(read(url, options)?)),
    };
    cmd.server_set(|s: &mut TraceServer| &mut s.export, export)
}

/// The longest name of a service, in bytes.
const SERVICE_MAX: usize = 128;

fn read(url: &str, options: &[String]) -> Result<Export, Refusal> {
    let wrong = |what: &str| Refusal::argument(1, format!("TraceExport: '{url}' {what}"));
    let uri: http_types::Uri = url.parse().map_err(|_| wrong("is no URL, such as http://127.0.0.1:4318/v1/traces"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(wrong(
                "is encrypted, and spans are sent over http:// only: name a collector on this machine, which encrypts",
            ));
        }
        _ => return Err(wrong("is no URL, such as http://127.0.0.1:4318/v1/traces")),
    }
    let (host, port) = http_client::endpoint(&uri).map_err(|_| wrong("names no host"))?;
    // The OpenTelemetry Protocol names this path for collectors that are named by their address alone.
    let path = uri.path_and_query().map(|path| path.as_str()).filter(|path| *path != "/").unwrap_or("/v1/traces");
    let mut export = Export {
        url: url.into(),
        host,
        port,
        path: path.into(),
        service: "tsubame".into(),
        share: u64::MAX,
        channel: Mutex::default(),
    };
    for (number, word) in options.iter().enumerate() {
        let wrong = |what: &str| Refusal::argument(number + 2, format!("TraceExport: '{word}' {what}"));
        match word.split_once('=') {
            Some(("sample", share)) => {
                export.share =
                    share_of(share).ok_or_else(|| wrong("is no share from 0% to 100%, such as sample=10%"))?;
            }
            Some(("service", name)) => {
                let is_name = (1..=SERVICE_MAX).contains(&name.len());
                export.service =
                    is_name.then(|| name.to_string()).ok_or_else(|| wrong("is no name of 1 to 128 bytes"))?;
            }
            _ => return Err(wrong("is neither sample= nor service=")),
        }
    }
    Ok(export)
}

/// Of 2^64, how many are so many percent.
fn share_of(text: &str) -> Option<u64> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then(|| (percent / 100.0 * 2f64.powi(64)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        for (text, share) in [
            ("100%", Some(u64::MAX)),
            ("0%", Some(0)),
            ("50%", Some(1 << 63)),
            ("0.1%", Some(18_446_744_073_709_552)),
            ("101%", None),
            ("-1%", None),
            ("nan%", None),
            ("10", None),
        ] {
            assert_eq!(share_of(text), share, "{text}");
        }
    }

    #[test]
    fn lines() {
        const NO_URL: &str = "is no URL, such as http://127.0.0.1:4318/v1/traces";
        let wrong = |word: &str, what: &str| format!("TraceExport: '{word}' {what}");
        crate::testing::check(&[
            ("TraceContext on", ""),
            ("TraceContext New", ""),
            ("TraceContext maybe", "TraceContext: 'maybe' is none of on, new and off"),
            ("TraceExport none", ""),
            ("TraceExport http://127.0.0.1:4318", ""),
            ("TraceExport http://[::1]:4318/v1/traces sample=0.1% service=shop", ""),
            ("TraceExport 127.0.0.1:4318", &wrong("127.0.0.1:4318", NO_URL)),
            ("TraceExport ftp://collector/", &wrong("ftp://collector/", NO_URL)),
            (
                "TraceExport https://collector/",
                &wrong(
                    "https://collector/",
                    "is encrypted, and spans are sent over http:// only: name a collector on this machine, which encrypts",
                ),
            ),
            ("TraceExport http://c/ sample=2", &wrong("sample=2", "is no share from 0% to 100%, such as sample=10%")),
            ("TraceExport http://c/ service=", &wrong("service=", "is no name of 1 to 128 bytes")),
            ("TraceExport http://c/ gzip", &wrong("gzip", "is neither sample= nor service=")),
        ]);
    }

    #[test]
    fn a_collector_is_named_by_its_address() {
        for (url, path) in [
            ("http://c:4318", "/v1/traces"),
            ("http://c:4318/", "/v1/traces"),
            ("http://c/otlp/v1/traces?a=b", "/otlp/v1/traces?a=b"),
        ] {
            assert_eq!(read(url, &[]).map(|export| export.path).ok().as_deref(), Some(path), "{url}");
        }
    }
}
