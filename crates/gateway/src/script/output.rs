//! The output of a script as the body of a response.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use conf::Level;
use server::{BodyError, BodyStream, Piece, Request};

use super::running::Script;
use super::source::{Event, Failure};
use crate::caller::TimeoutMessage;

/// The output of a script as the body of a response, sent as it comes.
pub(crate) struct Output {
    pub(crate) script: Script,
    /// The request for error log lines, while the real one is on its way.
    pub(crate) speaker: Box<Request>,
    /// How much is still promised, if the script's own `Content-Length` is trusted.
    pub(crate) promised: Option<u64>,
}

impl Output {
    /// Takes at most the promised amount, if there is one.
    fn take(&mut self) -> Bytes {
        let mut piece = Bytes::from(std::mem::take(&mut self.script.output));
        if let Some(left) = &mut self.promised {
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
        }
        piece
    }
}

impl BodyStream for Output {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            // The client's time does not count as the script's.
            self.script.source.touch();
            loop {
                let piece = self.take();
                if !piece.is_empty() {
                    return Some(Ok(piece));
                }
                match self.script.next(&self.speaker).await {
                    Event::Output => {}
                    Event::Ended if self.promised.is_some_and(|left| left > 0) => {
                        return Some(Err(io::ErrorKind::UnexpectedEof.into()));
                    }
                    Event::Ended => return None,
                    event => {
                        let status = self.script.fail(&self.speaker, event);
                        return Some(Err(io::Error::other(format!("status {status}"))));
                    }
                }
            }
        })
    }

    fn length(&self) -> Option<u64> {
        self.promised
    }
}

impl Script {
    /// Logs why there will be no more output. Returns the status for a response that has not begun.
    pub(crate) fn fail(&self, request: &Request, event: Event) -> u16 {
        fail(request, self.module, self.timeout_message, self.timeout, event)
    }
}

/// Logs why there will be no output, before there is a script. Returns the status for the response.
pub(crate) fn fail(
    request: &Request,
    module: &'static str,
    timeout_message: &TimeoutMessage,
    timeout: Duration,
    event: Event,
) -> u16 {
    match event {
        Event::TimedOut => {
            request.log(module, timeout_message.level, (timeout_message.text)(request, timeout));
            504
        }
        Event::Body(error) => {
            let text = "AH01225: Error reading request entity data";
            match error {
                BodyError::Timeout => {
                    // Apache's own number for it.
                    let error = io::Error::other("(70007)The timeout specified has expired");
                    request.log_os(module, Level::Error, &error, text);
                }
                _ => request.log(module, Level::Error, text),
            }
            error.status()
        }
        Event::Failed(Failure { status, text, level, .. }) => {
            request.log(module, level, text);
            status
        }
        Event::Output | Event::Ended | Event::Busy => 500,
    }
}
