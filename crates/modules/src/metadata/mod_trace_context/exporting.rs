//! The process that sends spans to a collector.
//!
//! OpenTelemetry Protocol 1.x, section "OTLP/HTTP": one `POST` of JSON for many spans. While a collector does not answer, spans
//! wait in the pipe, and are lost when it is full: no request ever waits for a collector.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http_types::Response;
use runtime::executor::{sleep, timeout, timeout_at};
use serde_json::{Value, json};
use sys::event_loop::EventLoop;
use sys::signal_fd::SignalFd;
use sys::time::Instant;
use sys::watch::{Interest, Watched, watch};

use super::channel::{Channel, Outcome, count};
use super::settings::Export;
use crate::http_client;

/// How long spans are gathered before they are sent together, how many, and how many bytes of them.
const GATHER: Duration = Duration::from_secs(1);
const BATCH_MAX: u64 = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// How long a collector may take for a request: the protocol's default.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first and the longest pause before spans are sent again; a collector may ask for a longer one.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// For how long the same spans are sent again and again.
const KEEP: Duration = Duration::from_secs(60);
/// How long sending what is left may take at the end: the parent waits a second.
const LAST: Duration = Duration::from_millis(800);

/// Exports until an order comes, and then what is left.
pub(super) fn serve(export: &Arc<Export>, channel: &Arc<Channel>, orders: &SignalFd) -> io::Result<()> {
    EventLoop::new(|| ())?.run(async {
        let order = watch(orders.descriptor(), Interest::READABLE)?;
        let come = watch(channel.reader()?, Interest::READABLE)?;
        let mut exporter = Exporter::new(export.clone(), channel.clone());
        {
            let mut work = pin!(exporter.work(&come));
            poll_fn(|cx| match order.poll_read_ready(cx) {
                Poll::Ready(_) => Poll::Ready(Ok(())),
                Poll::Pending => work.as_mut().poll(cx),
            })
            .await?;
        }
        let _ = timeout(LAST, exporter.send_rest()).await;
        exporter.lose_rest();
        Ok(())
    })?
}

struct Exporter {
    export: Arc<Export>,
    channel: Arc<Channel>,
    /// What comes before the spans in a body.
    opening: String,
    /// Read from the pipe: whole lines, and perhaps the beginning of one.
    read: Vec<u8>,
    /// Spans on their way, with commas between them, and how many.
    batch: Vec<u8>,
    count: u64,
    /// The collector did not take the last ones.
    fails: bool,
}

/// What a collector makes of spans.
enum Verdict {
    /// It has taken them, but for so many, for this reason.
    Taken(u64, String),
    /// It takes them perhaps later, after the pause that it asks for.
    Later(String, Option<Duration>),
    /// It will never take them.
    Never(String),
}

impl Exporter {
    fn new(export: Arc<Export>, channel: Arc<Channel>) -> Exporter {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let version = env!("CARGO_PKG_VERSION");
        let texts = [("service.name", &*export.service), ("service.version", version), ("host.name", host.trim())];
        let attributes = texts.map(|(key, text)| json!({ "key": key, "value": { "stringValue": text } }));
        let (resource, scope) = (json!({ "attributes": attributes }), json!({ "name": "tsubame", "version": version }));
        let opening =
            format!(r#"{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{"scope":{scope},"spans":["#);
        let (read, batch) = (Vec::new(), Vec::new());
        Exporter { export, channel, opening, read, batch, count: 0, fails: false }
    }

    /// Gathers and sends, for ever.
    async fn work(&mut self, come: &Watched) -> io::Result<()> {
        loop {
            self.gather(come).await?;
            self.deliver().await;
        }
    }

    /// Waits for the first span, and then a while for others.
    async fn gather(&mut self, come: &Watched) -> io::Result<()> {
        let mut end = None;
        while !self.take_lines() {
            let more = async {
                loop {
                    if let Some(received) = come.readable().await?.try_io(|_| self.channel.receive(&mut self.read)) {
                        return received;
                    }
                }
            };
            match end {
                None => more.await?,
                Some(end) => match timeout_at(end, more).await {
                    Ok(received) => received?,
                    Err(_) => return Ok(()),
                },
            }
            end = end.or_else(|| Some(Instant::now() + GATHER));
        }
        Ok(())
    }

    /// Takes whole lines into the batch. Returns whether it is full.
    fn take_lines(&mut self) -> bool {
        let mut at = 0;
        while !self.is_full()
            && let Some(length) = memchr::memchr(b'\n', &self.read[at..])
        {
            let line = &self.read[at..at + length];
            at += length + 1;
            // A process that took this one's place in the middle of a line begins with the rest of it.
            if let [b'{', .., b'}'] = line {
                if self.count > 0 {
                    self.batch.push(b',');
                }
                self.batch.extend_from_slice(line);
                self.count += 1;
            } else {
                count(Outcome::Lost, 1);
            }
        }
        self.read.drain(..at);
        self.is_full()
    }

    fn is_full(&self) -> bool {
        self.count >= BATCH_MAX || self.batch.len() >= BATCH_BYTES
    }

    /// Sends the batch until the collector takes it, refuses it, or has had time enough.
    async fn deliver(&mut self) {
        let (give_up, mut pause) = (Instant::now() + KEEP, PAUSE);
        while self.count > 0 {
            let (why, after) = match self.post().await {
                Verdict::Taken(rejected, why) => return self.settle(rejected, &why),
                Verdict::Never(why) => return self.settle(self.count, &why),
                Verdict::Later(why, after) => (why, after),
            };
            self.complain(&why);
            let wait = after.unwrap_or_else(|| scattered(pause));
            if Instant::now() + wait > give_up {
                return self.settle(self.count, &why);
            }
            sleep(wait).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Counts the spans of the batch, of which so many are lost, and says once when that begins, and once when it is over.
    fn settle(&mut self, lost: u64, why: &str) {
        let lost = lost.min(self.count);
        count(Outcome::Sent, self.count - lost);
        count(Outcome::Lost, lost);
        if lost > 0 {
            self.complain(why);
        } else if std::mem::take(&mut self.fails) {
            runtime::log!("trace_context", Notice, "{} takes spans again (TraceExport)", self.export.url);
        }
        self.batch.clear();
        self.count = 0;
    }

    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.fails, true) {
            let url = &self.export.url;
            runtime::log!(
                "trace_context",
                Warn,
                "{url} does not take spans, and some may be lost: {why} (TraceExport)"
            );
        }
    }

    /// Sends the batch once.
    async fn post(&self) -> Verdict {
        let deadline = Instant::now() + PATIENCE;
        let response = match timeout_at(deadline, self.exchange(deadline)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Verdict::Later(sys::describe(&error), None),
            Err(_) => return Verdict::Later(format!("no answer within {} s", PATIENCE.as_secs()), None),
        };
        let status = response.status().as_u16();
        let why = format!("it answers with status {status}");
        match status {
            200..300 => {
                let (rejected, why) = rejected(response.body());
                Verdict::Taken(rejected, why)
            }
            429 | 502 | 503 | 504 => Verdict::Later(why, retry_after(&response)),
            _ => Verdict::Never(why),
        }
    }

    async fn exchange(&self, deadline: Instant) -> io::Result<Response<bytes::Bytes>> {
        const CLOSING: &[u8] = b"]}]}]}";
        let Export { host, port, path, .. } = &*self.export;
        let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let length = self.opening.len() + self.batch.len() + CLOSING.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\nUser-Agent: Tsubame/{}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n",
            env!("CARGO_PKG_VERSION")
        );
        let message = [head.as_bytes(), self.opening.as_bytes(), &self.batch, CLOSING].concat();
        let stream = http_client::connect(host, *port, deadline).await?;
        http_client::parse(&http_client::exchange(stream, &message).await?, false)
    }

    /// Sends what is left, each batch once: the children have gone.
    async fn send_rest(&mut self) {
        loop {
            while !self.take_lines() && self.channel.receive(&mut self.read).is_ok() {}
            if self.count == 0 {
                return;
            }
            match self.post().await {
                Verdict::Taken(rejected, why) => self.settle(rejected, &why),
                Verdict::Later(why, _) | Verdict::Never(why) => return self.complain(&why),
            }
        }
    }

    /// Counts as lost what could not be sent.
    fn lose_rest(&mut self) {
        while self.channel.receive(&mut self.read).is_ok() {}
        let lines = u64::try_from(memchr::memchr_iter(b'\n', &self.read).count()).unwrap_or(0);
        count(Outcome::Lost, self.count + lines);
    }
}

/// About so long: servers that a collector has left together do not come back together.
fn scattered(pause: Duration) -> Duration {
    pause * 3 / 4 + pause / 2 * u32::from(sys::random::bytes::<1>()[0]) / 256
}

/// How many spans of a request the collector has not taken after all, and why (`partialSuccess`).
fn rejected(body: &[u8]) -> (u64, String) {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let count = &partial["rejectedSpans"];
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0);
    (count, partial["errorMessage"].as_str().unwrap_or("it rejects spans").into())
}

/// The pause that a response asks for, a minute at most: later, those spans are given up.
fn retry_after(response: &Response<bytes::Bytes>) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(KEEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_spans_are_numbers_or_texts() {
        for (body, expected) in [
            (&b""[..], 0),
            (b"{}", 0),
            (br#"{"partialSuccess":{}}"#, 0),
            (br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#, 3),
            (br#"{"partialSuccess":{"rejectedSpans":4}}"#, 4),
        ] {
            assert_eq!(rejected(body).0, expected, "{body:?}");
        }
    }

    #[test]
    fn pauses_are_about_as_long_as_they_should_be() {
        for _ in 0..100 {
            let pause = scattered(Duration::from_secs(4));
            assert!((Duration::from_secs(3)..Duration::from_secs(5)).contains(&pause), "{pause:?}");
        }
    }
}
