//! Responses on their way from a backend, which is busy with them until their end.

use std::io;

use bytes::Bytes;
use server::{Body, BodyStream, Fields, HandlerResult, Piece, Running, SpeakTunnel, Splice, Tunnel};
use sys::pipe::Pipe;
use upstream::{Fault, Permit, UnderWay};

use super::broken::fault_of;
use super::elect::Election;

/// The backend that a response comes from.
pub(super) enum Carrier {
    /// A member of a balancer.
    Member(Election),
    /// Another one.
    Server(UnderWay),
}

impl Carrier {
    fn received(&self, bytes: u64) {
        if let Carrier::Member(election) = self {
            election.received(bytes);
        }
    }

    fn fault(&self, fault: Fault) {
        match self {
            Carrier::Member(election) => election.under_way().fault(fault),
            Carrier::Server(under_way) => under_way.fault(fault),
        }
    }
}

/// The response, whose bytes count for the backend; that one is busy until its end. `permit`: the right to use its connection, if such
/// rights are limited. `span`: its child span, if the request is recorded.
pub(super) fn carried(
    result: HandlerResult,
    carrier: Carrier,
    permit: Option<Permit>,
    span: Option<Running>,
) -> HandlerResult {
    match result {
        HandlerResult::Body(Body::Stream(body)) => {
            let left = body.length();
            HandlerResult::Body(Body::Stream(Box::new(Carried { body, left, carrier: Some(carrier), permit, span })))
        }
        HandlerResult::Tunnel(tunnel) => {
            let Tunnel { protocol, speak, timeout } = *tunnel;
            let speak: SpeakTunnel = Box::new(move |client| {
                Box::pin(async move {
                    let _busy = (carrier, permit, span);
                    speak(client).await;
                })
            });
            HandlerResult::Tunnel(Box::new(Tunnel { protocol, speak, timeout }))
        }
        HandlerResult::Body(body) => {
            carrier.received(body.length().unwrap_or(0));
            HandlerResult::Body(body)
        }
        result => result,
    }
}

/// The body of a backend's response.
struct Carried {
    body: Box<dyn BodyStream>,
    /// What is left of it, if that is known.
    left: Option<u64>,
    /// `None`: it has ended.
    carrier: Option<Carrier>,
    /// Goes after the body, which has the connection.
    permit: Option<Permit>,
    /// Ends with the body.
    span: Option<Running>,
}

impl Carried {
    async fn piece(&mut self) -> Option<io::Result<Bytes>> {
        let piece = self.body.next().await;
        match &piece {
            Some(Ok(piece)) => self.came(piece.len()),
            Some(Err(error)) => self.failed(error),
            None => (self.carrier, self.permit, self.span) = (None, None, None),
        }
        piece
    }

    async fn fill(&mut self, pipe: &mut Pipe) -> io::Result<()> {
        self.body.splice(pipe).await.inspect_err(|error| self.failed(error))?;
        self.came(pipe.len());
        Ok(())
    }

    fn came(&mut self, length: usize) {
        self.carrier.iter().for_each(|carrier| carrier.received(length as u64));
        self.left = self.left.map(|left| left.saturating_sub(length as u64));
        // The client may have the end before this body is dropped.
        if self.left == Some(0) {
            (self.carrier, self.span) = (None, None);
        }
    }

    fn failed(&mut self, error: &io::Error) {
        self.carrier.take().iter().for_each(|carrier| carrier.fault(fault_of(error)));
        (self.permit, self.span) = (None, None);
    }
}

impl BodyStream for Carried {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(self.piece())
    }

    fn splices(&self) -> bool {
        self.body.splices()
    }

    fn splice<'a>(&'a mut self, pipe: &'a mut Pipe) -> Splice<'a> {
        Box::pin(self.fill(pipe))
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }

    fn is_unsent(&self) -> bool {
        self.body.is_unsent()
    }

    fn trailers(&self) -> Option<Fields> {
        self.body.trailers()
    }

    fn notes(&self) -> Vec<(String, String)> {
        self.body.notes()
    }
}
