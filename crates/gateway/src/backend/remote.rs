//! Servers that already run: the whole way of a request through one.
//!
//! We start none of them. Each request gets a new connection, unless the configuration keeps connections open
//! ([`upstream::Keep`]); then each child keeps a few for requests that may be sent twice.

mod source;

use conf::Level;
use http::text::to_bytes;
use server::{HandlerResult, Request};
use sys::time::Instant;
use upstream::pool::{self, AwaitedResponse};
use upstream::{Attempt, Connection, Fault, Keep, Kind, NoConnection, RemoteServer, Stream};

use super::call::{BackendCall, Head, StderrMessages};
use super::exchange::BackendExchange;
use super::run;
use crate::caller::Caller;
use crate::response;
use crate::script::{Failure, Script};

use source::{RemoteSource, StatusLine};

/// A protocol of such servers, with the messages about its failures, which are Apache's.
#[derive(Debug)]
pub struct RemoteProtocol {
    /// Its name, for messages about connections.
    pub name: &'static str,
    /// There is no connection to the server of this name.
    pub unconnected: fn(&str) -> String,
    /// The server of this name does not answer properly; the reason follows.
    pub failed: fn(&str) -> String,
    /// The status for that.
    pub status: u16,
    /// Its responses begin with a status line, as in HTTP.
    pub status_line: bool,
}

/// A request to a server that already runs.
#[derive(Clone, Copy)]
pub struct RemoteCall<'a> {
    /// The module that has a request for the server.
    pub caller: &'a Caller,
    /// The server.
    pub server: &'a RemoteServer,
    /// What connections to it have in common.
    pub kind: &'a Kind,
    /// How its protocol fails.
    pub protocol: &'static RemoteProtocol,
    /// The form of the request's head.
    pub head: &'a Head,
    /// What its standard error is called in the log.
    pub stderr: StderrMessages,
    /// Learns what becomes of the request, if somebody could ask another server.
    pub attempt: Option<&'a Attempt>,
}

impl RemoteCall<'_> {
    /// Lets the server answer the request, whose environment is complete.
    pub async fn respond(&self, request: &mut Request) -> HandlerResult {
        let keep = self.server.keep;
        let pairs = request.env.iter().map(|(name, value)| (to_bytes(name), to_bytes(value)));
        let bytes = match self.head.of_pairs(request, keep.is_some(), pairs) {
            Ok(bytes) => bytes,
            Err(length) => return run::too_long(request, self.caller, length),
        };
        // The server may end a connection at the very moment it is used: only a request that can be repeated goes over
        // a kept one. For any other the kept connection is closed, because it may occupy the very process that a fresh
        // connection would wait for.
        let may_repeat = request.body.is_none() && run::is_safe(request);
        let mut kept = keep.and_then(|keep| pool::take_stream(self.kind, keep, None)).filter(|_| may_repeat);
        loop {
            let repeat = kept.is_some();
            let awaited_responses = keep.filter(|_| !repeat).map(|_| AwaitedResponse::new(self.kind.clone()));
            let stream = match kept.take() {
                Some(stream) => {
                    self.server.note_reused();
                    stream
                }
                None => match self.connect(request).await {
                    Ok(connection) => Stream::new(connection),
                    Err(status) => {
                        self.attempt.iter().for_each(|attempt| attempt.set_unreached());
                        return HandlerResult::Status(status);
                    }
                },
            };
            let back = keep.map(|keep| (self.kind.clone(), keep));
            if let Some(attempt) = self.attempt {
                attempt.add_sent(bytes.len() as u64 + request.body.length().unwrap_or(0));
            }
            let mut script = self.script(request, stream, bytes.clone(), back);
            let began = Instant::now();
            let begun = script.begins(request).await;
            drop(awaited_responses);
            match begun {
                Ok(()) => {
                    self.server.note_begun(request, began.elapsed());
                    return response::relay(request, script, self.caller).await;
                }
                Err(failure) if repeat && failure.is_lost() => {}
                Err(failure) => {
                    if let Some(attempt) = self.attempt.filter(|_| may_repeat && failure.is_lost()) {
                        attempt.set_unanswered();
                    }
                    self.server.note_fault(match &failure {
                        failure if failure.status == 504 => Fault::Timeout,
                        failure if failure.is_lost() => Fault::Lost,
                        _ => Fault::Malformed,
                    });
                    return HandlerResult::Status(self.log(request, failure));
                }
            }
        }
    }

    /// Sends a request over a connection of its own, and waits until the response begins. `Err`: it does not; this is
    /// the status, and the reason is logged.
    pub(super) async fn begin(&self, request: &mut Request, bytes: Vec<u8>) -> Result<Script, u16> {
        let connection = self.connect(request).await.map_err(|_| self.protocol.status)?;
        let mut script = self.script(request, Stream::new(connection), bytes, None);
        match script.begins(request).await {
            Ok(()) => Ok(script),
            Err(failure) => Err(self.log(request, failure)),
        }
    }

    /// The exchange over a connection, which goes `back` when the response is complete.
    fn script(&self, request: &mut Request, stream: Stream, bytes: Vec<u8>, back: Option<(Kind, Keep)>) -> Script {
        let RemoteCall { caller, server, protocol, head, stderr, .. } = *self;
        let call = BackendCall { caller, head, stderr, tunnel: None };
        let exchange = BackendExchange::new(request, call, stream, None, bytes);
        let status_line = protocol.status_line.then(StatusLine::default);
        let remote = RemoteSource::new(exchange, back, status_line, protocol, server.name.clone(), caller.timeout);
        Script::new(Box::new(remote), caller)
    }

    /// Logs why a response does not begin, and returns its status.
    fn log(&self, request: &Request, failure: Failure) -> u16 {
        request.log(self.caller.module, failure.level, failure.text);
        failure.status
    }

    /// Makes a connection. `Err`: there is none; this is the status, and the reason is logged.
    async fn connect(&self, request: &Request) -> Result<Connection, u16> {
        let connected = upstream::connect(request, self.server, self.protocol.name).await;
        if connected.is_err() {
            request.log(self.caller.module, Level::Error, (self.protocol.unconnected)(&self.server.name));
        }
        connected.map_err(NoConnection::status)
    }
}
