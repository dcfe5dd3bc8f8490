//! A connection that has become a tunnel: the handler's end of it, and its deadlines.

use std::sync::Arc;

use runtime::Stage;

use super::connection::{Http1Connection, Sending};
use super::head::write_head;
use super::outgoing::Outgoing;
use crate::exchange::Exchange;
use crate::message::buffers;
use crate::message::sent::{Delimiter, Persist};
use crate::message::tunnel::Tunnel;
use crate::protocol::h1::connection::Open;
use crate::protocol::tunnel::until_silent;
use crate::transport;
use crate::transport::stream::{TransportStream, TunnelTraffic};

impl Http1Connection {
    /// Answers 101, or 200 to `CONNECT`, and leaves the connection to the handler.
    pub(super) async fn open_tunnel(&mut self, mut exchange: Exchange, tunnel: Tunnel) -> Stage {
        let request = &mut exchange.request;
        request.interim = None;
        let (delimiter, persist) = match &tunnel.protocol {
            Some(protocol) => {
                request.response.set_status(101);
                request.response.headers_out.set("Upgrade", protocol.clone());
                (Delimiter::Tunnel, Persist { keep: false, announce: None })
            }
            // RFC 9110 section 9.3.6: no field says anything about what follows.
            None => {
                request.response.set_status_line(200, "200 Connection Established".into());
                (Delimiter::Nothing, Persist { keep: true, announce: None })
            }
        };
        let mut front = buffers::take();
        let instead = write_head(request, delimiter, persist, &mut front);
        request.account.sent.head = Some((delimiter, persist));
        let timeout = request.vhost.plan.timeout;
        let head_len = front.len() as u64;
        let mut sending =
            Sending { exchange, outgoing: Outgoing::new(front, None), head_len, keep: false, linger: true };
        let refused = instead.map(|page| sending.outgoing.push(page)).is_some();
        let written = self.write_all(&mut sending.outgoing, timeout).await;
        if refused || written.is_err() {
            return self.finish(sending, written.is_ok());
        }
        sending.exchange.row.park();
        let carried = Arc::new(TunnelTraffic::default());
        let stream = TransportStream::new(self.transport.clone(), std::mem::take(&mut self.buffer), carried.clone());
        let timeout = tunnel.silence(timeout);
        let speaking = (tunnel.speak)(Box::new(stream));
        self.tunnel = Some(Box::new(Open { sending, speaking, carried, timeout }));
        Stage::Tunnel
    }

    /// Runs the handler to its end.
    pub(super) async fn tunnel(&mut self) -> Stage {
        let Some(open) = self.tunnel.take() else { return Stage::Closed };
        let Open { mut sending, mut speaking, carried, timeout } = *open;
        let spoken = transport::unless_reset(&*self.transport, &mut speaking);
        let complete = until_silent(&mut self.timer, timeout, &carried, spoken).await;
        drop(speaking);
        sending.outgoing.sent += carried.sent();
        self.received += carried.received();
        self.finish(sending, complete)
    }
}
