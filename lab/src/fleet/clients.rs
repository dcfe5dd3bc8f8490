//! The clients of a fleet: some ask for a file at a steady rate, some for a script of 200 MB, some post.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::haproxy::ADDRESS;
use super::node::FILE;
use crate::load::client::Connector;
use crate::machine::interrupt;
use crate::machine::script::{COUNT, HOLD_200};

/// How long a client waits for bytes.
const PATIENCE: Duration = Duration::from_secs(80);

/// How long a client waits after a failure before it asks again: failing costs nothing, and would fill the figures.
const MOMENT: Duration = Duration::from_millis(100);

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The small file.
    File,
    /// A script that may run again.
    Script,
    /// A script that must run once.
    Post,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) kind: Kind,
    /// When it was due, since the beginning of the load.
    pub(super) due: Duration,
    /// How long it took from then on.
    pub(super) took: Duration,
    /// Why it failed.
    pub(super) failure: Option<String>,
    /// The number of a post.
    pub(super) number: Option<u64>,
}

impl Answer {
    /// When it was complete.
    pub(super) fn ended(&self) -> Duration {
        self.due + self.took
    }
}

/// How many clients there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    /// Requests for the file, per second.
    pub(super) files_per_second: u32,
    /// Clients that ask for the script, one request after the other.
    pub(super) scripts: u32,
    /// Clients that post, likewise.
    pub(super) posts: u32,
}

/// Each client for files asks this often per second at most, so that a slow answer delays few others.
const FILES_PER_CLIENT: u32 = 4;

/// What all clients of a load share.
#[derive(Debug)]
pub(super) struct Load {
    began: Instant,
    ended: AtomicBool,
    numbers: AtomicU64,
}

impl Load {
    /// A load that begins now.
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), ended: AtomicBool::new(false), numbers: AtomicU64::new(0) }
    }

    /// Lets clients finish their last requests.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    /// The time since its beginning.
    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Starts all clients; they send what came of each request.
    pub(super) fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        crowd: Crowd,
        to: &Sender<Answer>,
    ) -> Vec<ScopedJoinHandle<'s, ()>> {
        let mut clients = Vec::new();
        let files = crowd.files_per_second.div_ceil(FILES_PER_CLIENT);
        let interval = Duration::from_secs(1) * files / crowd.files_per_second.max(1);
        for index in 0..files {
            let to = to.clone();
            clients.push(scope.spawn(move || self.ask_at_intervals(interval * index / files, interval, &to)));
        }
        for (kind, count) in [(Kind::Script, crowd.scripts), (Kind::Post, crowd.posts)] {
            for _ in 0..count {
                let to = to.clone();
                clients.push(scope.spawn(move || self.ask_in_turn(kind, &to)));
            }
        }
        clients
    }

    fn is_over(&self) -> bool {
        self.ended.load(Relaxed) || interrupt::is_asked()
    }

    /// Asks for the file when it is due; a late request counts from then on.
    fn ask_at_intervals(&self, first: Duration, interval: Duration, to: &Sender<Answer>) {
        let mut due = first;
        while !self.is_over() {
            std::thread::sleep((self.began + due).saturating_duration_since(Instant::now()));
            // Nobody listens any more when the load has been given up.
            let _ = to.send(self.ask(Kind::File, due));
            due += interval;
        }
    }

    fn ask_in_turn(&self, kind: Kind, to: &Sender<Answer>) {
        while !self.is_over() {
            let answer = self.ask(kind, self.age());
            let has_failed = answer.failure.is_some();
            let _ = to.send(answer);
            if has_failed {
                std::thread::sleep(MOMENT);
            }
        }
    }

    fn ask(&self, kind: Kind, due: Duration) -> Answer {
        let number = (kind == Kind::Post).then(|| self.numbers.fetch_add(1, Relaxed));
        let response = (Connector { patience: PATIENCE, ..Connector::default() }).open(ADDRESS).and_then(
            |mut front| match number {
                Some(number) => front.post(&format!("cgi-bin/{}?{number}", COUNT.name), "once=yes"),
                None if kind == Kind::File => front.fetch(FILE.0),
                None => front.fetch(&format!("cgi-bin/{}", HOLD_200.name)),
            },
        );
        let expected = match kind {
            Kind::File => FILE.1,
            Kind::Script => HOLD_200.response,
            Kind::Post => COUNT.response,
        };
        let failure = match response {
            Ok(response) if response.status == 200 && response.body == expected.as_bytes() => None,
            Ok(response) if response.status == 200 => Some("another body".to_owned()),
            Ok(response) => Some(response.status.to_string()),
            Err(error) => Some(reason(&error.to_string())),
        };
        Answer { kind, due, took: self.age().saturating_sub(due), failure, number }
    }
}

/// Why a request failed, without what was asked: alike failures have one name.
fn reason(text: &str) -> String {
    text.split_once(": ").map_or(text, |(_, why)| why).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_failures_have_one_name() {
        for text in
            ["cannot post to /count?1 at 127.0.0.1: it closed", "cannot get /a from 127.0.0.1: it closed", "it closed"]
        {
            assert_eq!(reason(text), "it closed");
        }
    }
}
