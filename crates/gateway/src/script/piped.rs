//! A script with a process to itself: the request's body goes into it, its output comes out of it, and its standard
//! error goes to the error log. All of these happen at once, because nobody knows in which order it reads and writes.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conf::Level;
use http::text::from_bytes;
use runtime::executor::Timer;
use server::{BodyError, Request};
use sys::time::Instant;

use super::input::{Input, InputStopped};
use super::source::{Event, FIRST_PIECE, PIECE, Source};
use super::stderr::Errors;
use crate::caller::Caller;
use crate::process::pipe::Reader;
use crate::process::spawn::{BRIEF, Started};
use crate::process::{self, ProcessGuard, reaper};
use crate::script_log::{ScriptLog, complain};

/// How often the kernel is asked again to prefer a script to the server, and the time between.
const EXPOSE_TRIES: u8 = 10;
const EXPOSE_PAUSE: Duration = Duration::from_millis(100);

/// A running script. Dropping it before its end, ends it.
pub(crate) struct Piped {
    process: Option<ProcessGuard>,
    input: Option<Input>,
    stdout: Option<Reader>,
    stderr: Option<Errors>,
    /// The beginning of the request's body, if the script log wants it.
    body_start: Vec<u8>,
    /// The size of the next read.
    piece: usize,
    timer: Timer,
    timeout: Duration,
    /// The last time it did something.
    active: Instant,
    /// When it stops being brief; `None`: that is already decided. Of a script that takes longer, the reactor watches standard error,
    /// the gate knows its process, and the kernel's OOM killer prefers it to the server.
    brief_until: Option<Instant>,
    /// When the kernel is asked again to prefer it, and how often yet.
    unexposed: Option<(Instant, u8)>,
    module: &'static str,
    log: Option<ScriptLog>,
    /// Whether its cost must be known when the response ends.
    accounts: bool,
}

impl Piped {
    pub(crate) fn new(started: Started, input: Option<Input>, caller: &Caller) -> Piped {
        let Started { process, stdout, stderr } = started;
        let now = Instant::now();
        Piped {
            process: Some(process),
            input,
            stdout: Some(stdout),
            stderr: Some(Errors::new(stderr)),
            body_start: Vec::new(),
            piece: FIRST_PIECE,
            timer: Timer::default(),
            timeout: caller.timeout,
            active: now,
            brief_until: Some(now + BRIEF),
            unexposed: None,
            module: caller.module,
            log: caller.log.clone(),
            accounts: caller.accounts,
        }
    }

    /// If the reactor has no room for it, it is read whenever something else happens.
    fn watch_errors(&mut self) {
        if let Some(errors) = &mut self.stderr {
            let _ = errors.pipe.watch();
        }
    }

    /// Makes the kernel's OOM killer prefer it; if that does not succeed yet, this is tried again.
    fn expose(&mut self, tries: u8) {
        let is_exposed = self.process.as_ref().is_none_or(ProcessGuard::expose);
        let next = (!is_exposed).then(|| tries.checked_sub(1)).flatten();
        self.unexposed = next.map(|tries| (Instant::now() + EXPOSE_PAUSE, tries));
    }

    /// Moves the body on; `true`: there may be more of it, but others wait for their turn.
    fn feed(&mut self, cx: &mut Context<'_>, request: &Request) -> Result<bool, BodyError> {
        let Some(input) = &mut self.input else { return Ok(false) };
        let fed = input.poll(cx);
        if input.has_moved() || fed.is_ready() {
            self.active = Instant::now();
        }
        match fed {
            Poll::Pending => {}
            Poll::Ready(Ok(true)) => self.close_input(),
            Poll::Ready(Ok(false)) => return Ok(true),
            Poll::Ready(Err(InputStopped::Script(error))) => self.refuse_input(request, &error),
            Poll::Ready(Err(InputStopped::Body(error))) => return Err(error),
        }
        Ok(false)
    }

    fn close_input(&mut self) {
        if let Some(input) = self.input.take() {
            self.body_start = input.into_kept();
        }
    }

    /// The script reads no more; that is its right.
    fn refuse_input(&mut self, request: &Request, error: &io::Error) {
        self.close_input();
        let text = format!("AH02651: Error writing request body to script {}", request.mapped.filename);
        request.log_os(self.module, Level::Error, error, text);
    }

    /// Logs its standard error; `true`: there may be more of it, but others wait for their turn.
    fn poll_errors(&mut self, cx: &mut Context<'_>, request: &Request) -> bool {
        let mut piece = Vec::new();
        let mut read_so_far = 0;
        while let Some(errors) = &mut self.stderr {
            if read_so_far >= PIECE {
                return true;
            }
            piece.clear();
            piece.reserve(FIRST_PIECE);
            match errors.pipe.poll_read(cx, &mut piece) {
                Poll::Pending => return false,
                Poll::Ready(Ok(read)) if read > 0 => {
                    read_so_far += read;
                    self.active = Instant::now();
                    errors.line.extend_from_slice(&piece);
                    let lines = errors.take_lines();
                    lines.iter().for_each(|line| self.complain(request, line));
                }
                Poll::Ready(_) => {
                    let last = std::mem::take(&mut errors.line);
                    self.stderr = None;
                    self.active = Instant::now();
                    if !last.is_empty() {
                        self.complain(request, &last);
                    }
                }
            }
        }
        false
    }

    fn complain(&self, request: &Request, line: &[u8]) {
        let text = from_bytes(line);
        complain(request, self.module, "AH01215", self.log.as_ref(), request.response.status(), &text);
    }

    /// Its outputs are closed. If the access log records its cost, this waits a moment for its end.
    fn poll_cost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let process = self.process.as_mut().filter(|_| self.accounts);
        match process.map(|process| process.poll_end(cx)) {
            Some(Poll::Pending) => self.timer.poll_passed(cx, self.active + reaper::EXIT_GRACE),
            _ => Poll::Ready(()),
        }
    }

    /// The script has closed its outputs: its process is about to end.
    fn end(&mut self, request: &Request) {
        match &self.input {
            Some(input) if !input.is_awaiting_client() => {
                self.refuse_input(request, &io::Error::from_raw_os_error(sys::errno::BROKEN_PIPE));
            }
            _ => self.close_input(),
        }
        if let Some(process) = self.process.take() {
            process.expect_exit();
        }
    }

    /// Reads output. `false`: the script has closed its standard output.
    fn poll_output(&mut self, cx: &mut Context<'_>, output: &mut Vec<u8>) -> Poll<bool> {
        let Some(stdout) = &self.stdout else { return Poll::Pending };
        if output.capacity() - output.len() < FIRST_PIECE / 2 {
            output.reserve(self.piece);
            self.piece = PIECE;
        }
        let has_come = matches!(ready!(stdout.poll_read(cx, output)), Ok(read) if read > 0);
        self.active = Instant::now();
        if !has_come {
            self.stdout = None;
        }
        Poll::Ready(has_come)
    }

    /// Nothing comes from the script: waits for the end of its brief time, or of its patience.
    fn poll_silence(&mut self, cx: &mut Context<'_>, request: &Request) -> Poll<Event> {
        let awaiting_client = self.input.as_ref().is_some_and(Input::is_awaiting_client);
        if awaiting_client {
            // The script may be waiting for its input, and so are we: the body has its own deadline.
            self.active = Instant::now();
        }
        if let Some(until) = self.brief_until {
            ready!(self.timer.poll_passed(cx, until));
            self.settle();
            // Its standard error must be checked again.
            return Poll::Ready(Event::Busy);
        }
        if let Some((at, tries)) = self.unexposed {
            ready!(self.timer.poll_passed(cx, at));
            self.expose(tries);
            return Poll::Ready(Event::Busy);
        }
        if awaiting_client {
            return Poll::Pending;
        }
        self.timer.poll_passed(cx, self.active + self.timeout).map(|()| match self.stdout {
            Some(_) => {
                self.process.iter_mut().for_each(ProcessGuard::mark_failed);
                Event::TimedOut
            }
            // Its output is complete, but a process that it started holds its standard error open.
            None => {
                self.stderr = None;
                self.end(request);
                Event::Ended
            }
        })
    }
}

impl Source for Piped {
    fn poll_next(&mut self, cx: &mut Context<'_>, request: &Request, output: &mut Vec<u8>) -> Poll<Event> {
        // The script got the order to end, and nobody wants the result.
        if process::is_ending() {
            return Poll::Pending;
        }
        if self.brief_until.is_none()
            && let Some(process) = &mut self.process
        {
            process.poll_begun(cx);
        }
        let feeds_on = match self.feed(cx, request) {
            Ok(feeds_on) => feeds_on,
            Err(error) => return Poll::Ready(Event::Body(error)),
        };
        let mut busy = self.poll_errors(cx, request);
        match self.poll_output(cx, output) {
            Poll::Ready(true) => return Poll::Ready(Event::Output),
            Poll::Ready(false) => {
                // Errors before the end of the output are logged before that end. Mostly they have already come.
                busy = self.poll_errors(cx, request);
                if self.stderr.is_some() && !busy {
                    self.watch_errors();
                    busy = self.poll_errors(cx, request);
                }
            }
            Poll::Pending => {}
        }
        if self.stdout.is_none() && self.stderr.is_none() {
            ready!(self.poll_cost(cx));
            self.end(request);
            return Poll::Ready(Event::Ended);
        }
        if busy || feeds_on {
            if self.brief_until.is_some_and(|until| self.active >= until) {
                self.settle();
            }
            return Poll::Ready(Event::Busy);
        }
        self.poll_silence(cx, request)
    }

    fn has_ended(&self) -> bool {
        self.process.is_none()
    }

    fn settle(&mut self) {
        if self.brief_until.take().is_none() {
            return;
        }
        self.watch_errors();
        self.expose(EXPOSE_TRIES);
    }

    fn touch(&mut self) {
        self.active = Instant::now();
    }

    fn body_start(&self) -> &[u8] {
        &self.body_start
    }
}
