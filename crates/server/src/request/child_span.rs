//! The place of a request in a trace that is recorded, and its parts that take time: its child spans.
//!
//! W3C Trace Context, level 1; OpenTelemetry calls what happens between two moments a span.

use std::fmt::Write as _;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use sys::time::Instant;

use crate::request::upstream_use::UpstreamUse;

/// How many child spans a request may have: a page may include any number of scripts.
const CHILDREN_MAX: usize = 100;

/// The place of a request in a trace that is recorded. Its subrequests share it.
#[derive(Debug)]
pub struct RecordedTrace {
    /// The id of the trace: 32 hexadecimal digits.
    pub trace: String,
    /// The id of the request's own span: 16 hexadecimal digits.
    pub span: String,
    /// The id of the span that it belongs to, if another server or application has named one.
    pub parent: Option<String>,
    /// The flags of the field `traceparent`: two hexadecimal digits.
    pub flags: String,
    children: Mutex<Vec<Arc<ChildSpan>>>,
}

/// What a child span is about.
#[derive(Clone, Debug)]
pub enum Work {
    /// A program: a script, or one that makes a part of a page.
    Program {
        /// Its file, or what the request is mapped to.
        file: String,
        /// What handles the request, unless it is a part of a page.
        handler: Option<String>,
    },
    /// A server behind this one is asked.
    Upstream {
        /// The server, and its times.
        server: Arc<UpstreamUse>,
        /// How many servers have been asked for the same, this one included.
        attempt: usize,
    },
}

/// A part of a request that takes time. All times are since 1970.
#[derive(Debug)]
pub struct ChildSpan {
    /// Its id: 16 hexadecimal digits.
    pub id: String,
    /// What it is about.
    pub work: Work,
    /// When it began.
    pub begin: Duration,
    clock: Clock,
    wait_begin: OnceLock<Duration>,
    wait_end: OnceLock<Duration>,
    status: OnceLock<u16>,
    end: OnceLock<Duration>,
}

/// The clock of a request: its parts lie within it, even if the system's clock is set meanwhile.
#[derive(Clone, Copy, Debug)]
struct Clock(Duration, Instant);

impl Clock {
    fn now(self) -> Duration {
        self.0 + self.1.elapsed()
    }
}

/// A new id of so many bytes, in hexadecimal digits.
pub fn new_id<const N: usize>() -> String {
    let mut text = String::with_capacity(2 * N);
    for byte in sys::random::bytes::<N>() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl RecordedTrace {
    /// A place without child spans.
    pub fn new(trace: String, span: String, parent: Option<String>, flags: String) -> RecordedTrace {
        RecordedTrace { trace, span, parent, flags, children: Mutex::default() }
    }

    /// The child spans so far.
    pub fn children(&self) -> Vec<Arc<ChildSpan>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a child span. `false`: there are too many.
    fn add(&self, child: &Arc<ChildSpan>) -> bool {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = children.len() < CHILDREN_MAX;
        if has_room {
            children.push(child.clone());
        }
        has_room
    }

    /// What the field `traceparent` says of a span of this trace.
    pub(crate) fn field(&self, span: &str) -> String {
        format!("00-{}-{span}-{}", self.trace, self.flags)
    }
}

impl ChildSpan {
    /// Begins a span within a request of this trace that came in at `time`, or `start` by a clock that is never set. `None`:
    /// it has too many.
    pub(crate) fn begin(recorded: &RecordedTrace, (time, start): (Duration, Instant), work: Work) -> Option<Running> {
        let clock = Clock(time, start);
        let child = Arc::new(ChildSpan {
            id: new_id::<8>(),
            work,
            begin: clock.now(),
            clock,
            wait_begin: OnceLock::new(),
            wait_end: OnceLock::new(),
            status: OnceLock::new(),
            end: OnceLock::new(),
        });
        recorded.add(&child).then(|| Running(child))
    }

    /// From now on it waits for its turn.
    pub fn waits(&self) {
        let _ = self.wait_begin.set(self.clock.now());
    }

    /// Its turn has come.
    pub fn goes_on(&self) {
        let _ = self.wait_end.set(self.clock.now());
    }

    /// Records the status of the response that it has led to.
    pub(crate) fn has_led_to(&self, status: u16) {
        let _ = self.status.set(status);
    }

    /// When its wait began and ended, if it waited; until `end` if its turn has not come.
    pub fn wait(&self, end: Duration) -> Option<(Duration, Duration)> {
        let begin = *self.wait_begin.get()?;
        Some((begin, self.wait_end.get().copied().unwrap_or(end)))
    }

    /// The status of the response, if there was one.
    pub fn status(&self) -> Option<u16> {
        self.status.get().copied()
    }

    /// When it ended, if it has.
    pub fn end(&self) -> Option<Duration> {
        self.end.get().copied()
    }
}

/// A child span that has begun. Dropping this ends it.
#[derive(Debug)]
pub struct Running(Arc<ChildSpan>);

impl Running {
    /// The child span itself.
    pub fn span(&self) -> Arc<ChildSpan> {
        self.0.clone()
    }
}

impl Deref for Running {
    type Target = ChildSpan;

    fn deref(&self) -> &ChildSpan {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.end.set(self.0.clock.now());
    }
}
