//! A client that continues with another protocol: what it says after the head of the response is the body of the
//! request, and the script's output goes to it (RFC 9110 section 7.8).

use bytes::{Bytes, BytesMut};
use server::{BodyStream, HandlerResult, Piece, Request, RequestBody, Tunnel, TunnelStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::oneshot;

use crate::caller::Caller;
use crate::response;
use crate::script::{Event, PIECE, Script};

type Client = Box<dyn TunnelStream>;

/// The client's end, before there is a tunnel.
pub(super) struct Offer {
    protocol: &'static str,
    client: oneshot::Sender<ReadHalf<Client>>,
}

/// Offers a script to switch to a protocol that the client has asked for. The body is what the client will say.
pub(super) fn offer(protocol: &'static str) -> (Offer, RequestBody) {
    let (client, arrives) = oneshot::channel();
    (Offer { protocol, client }, RequestBody::of(Box::new(Said { arrives: Some(arrives), client: None })))
}

/// What the client says.
struct Said {
    arrives: Option<oneshot::Receiver<ReadHalf<Client>>>,
    client: Option<ReadHalf<Client>>,
}

impl BodyStream for Said {
    fn next(&mut self) -> Piece<'_> {
        Box::pin(async move {
            if let Some(arrives) = self.arrives.take() {
                self.client = arrives.await.ok();
            }
            // Whoever never gets a tunnel says nothing.
            let client = self.client.as_mut()?;
            let mut piece = BytesMut::with_capacity(PIECE);
            match client.read_buf(&mut piece).await {
                Ok(0) => None,
                Ok(_) => Some(Ok(piece.freeze())),
                Err(error) => Some(Err(error)),
            }
        })
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

impl Offer {
    /// Turns the script's output into a response: a tunnel, if the script agrees to one.
    pub(super) async fn relay(self, request: &mut Request, script: Script, caller: &Caller) -> HandlerResult {
        let (script, mut header) = match response::read_header(request, script, caller).await {
            Ok(read) => read,
            Err(status) => return HandlerResult::Status(status),
        };
        if !header.switches() {
            return response::send(request, script, header, caller).await;
        }
        // Each protocol of the client has a status of its own for it.
        header.status = None;
        match response::apply(request, header, caller.module, false) {
            Ok(()) => HandlerResult::Tunnel(Box::new(self.accept(request, script))),
            Err(status) => HandlerResult::Status(status),
        }
    }

    fn accept(self, request: &Request, script: Script) -> Tunnel {
        let Offer { protocol, client } = self;
        let speaker = request.speaker();
        Tunnel {
            protocol: Some(protocol.into()),
            speak: Box::new(move |stream| {
                Box::pin(async move {
                    let (says, hears) = tokio::io::split(stream);
                    // A script that has ended listens no more, and may have said something all the same.
                    let _ = client.send(says);
                    tell(hears, script, &speaker).await;
                })
            }),
            timeout: None,
        }
    }
}

/// Sends the script's output to the client until one of them ends.
async fn tell(mut client: WriteHalf<Client>, mut script: Script, speaker: &Request) {
    loop {
        let piece = Bytes::from(std::mem::take(&mut script.output));
        if client.write_all(&piece).await.is_err() || client.flush().await.is_err() {
            return;
        }
        match script.next(speaker).await {
            Event::Output => {}
            Event::Ended if script.output.is_empty() => break,
            Event::Ended => {}
            event => {
                script.fail(speaker, event);
                break;
            }
        }
    }
    // Whoever hears this no more has gone.
    let _ = client.shutdown().await;
}
