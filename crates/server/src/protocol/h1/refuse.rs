//! The responses to heads that are refused.

use runtime::Stage;

use super::connection::Http1Connection;
use crate::exchange::{Exchange, RefusedHead};
use crate::transport;

impl Http1Connection {
    /// Answers a refused head, and closes.
    pub(super) async fn refuse(&mut self, mut exchange: Exchange) -> Stage {
        let request = &mut exchange.request;
        self.received = request.data.head.len();
        request.data.salvage_line();
        self.buffer.clear();
        let is_late = matches!(exchange.refusal(), Some(RefusedHead::Timeout | RefusedHead::Truncated));
        if is_late && !has_line(exchange.request.data.head.parts().1) {
            return Stage::ShortLinger;
        }
        // Not the returned value: the response may have to wait, and then another stage ends the exchange.
        let is_timeout = exchange.refusal() == Some(RefusedHead::Timeout);
        self.refused = Some(if is_timeout { Stage::ShortLinger } else { Stage::Linger });
        match transport::unless_reset(&*self.transport, exchange.respond()).await {
            Some(response) => self.write(exchange, response).await,
            None => self.give_up(exchange),
        }
    }
}

/// Whether the client has sent a whole line. One that has not gets no response: it may have opened the connection in advance, and
/// nobody waits if it has stopped sending in the middle of its line, as in Apache.
fn has_line(text: &[u8]) -> bool {
    let begins = text.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(text.len());
    text[begins..].contains(&b'\n')
}
