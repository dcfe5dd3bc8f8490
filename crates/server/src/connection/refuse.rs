//! What is answered where there is no request to be served.

use conf::Level;
use http::framing::Framing;
use http::{Head, HeadError};
use seam::Stage;
use seam::scoreboard::Slot;

use super::HttpConnection;
use crate::error_document;
use crate::process::Response;
use crate::request::Incoming;

/// A head that cannot be served.
pub(super) struct Refusal {
    why: Why,
    incoming: Incoming,
}

impl Refusal {
    pub(super) fn boxed(why: Why, incoming: Incoming) -> Box<Refusal> {
        Box::new(Refusal { why, incoming })
    }
}

pub(super) enum Why {
    Head(HeadError),
    Timeout,
    UnknownHost,
    Method,
}

impl Incoming {
    /// What arrived instead of a head.
    pub(super) fn broken(bytes: Vec<u8>, head: Head) -> Incoming {
        Incoming { head_len: bytes.len(), bytes, head }
    }
}

impl HttpConnection {
    /// Answers what is no request, and closes.
    pub(super) async fn refuse(&mut self, refusal: Box<Refusal>, slot: Slot) -> Stage {
        let Refusal { why, incoming } = *refusal;
        // A client that did not even send a line is not answered: it may have opened the connection to have it ready.
        let silent = matches!(why, Why::Timeout) && !incoming.bytes.contains(&b'\n');
        let (status, module, level, reason, note) = match why {
            Why::Head(error) => (error.status(), "core", Level::Debug, error.reason(), error.note()),
            Why::Timeout => (408, "reqtimeout", Level::Info, "AH01382: Request header read timeout", ""),
            Why::UnknownHost => {
                let reason = "AH02032: Hostname provided via the request is not known here (StrictHostCheck)";
                (400, "core", Level::Error, reason, "")
            }
            Why::Method => (501, "core", Level::Debug, "the method is not registered (HttpProtocolOptions)", ""),
        };
        let Ok(mut request) = self.request(incoming, Framing::None, false) else { return Stage::Closed };
        request.salvage_line();
        self.buffer.clear();
        request.log(module, level, reason);
        if silent {
            return Stage::ShortLinger;
        }
        if !note.is_empty() {
            request.notes.set("error-notes", note);
        }
        request.env.set("nokeepalive", "1");
        let body = error_document::canned(&mut request, status);
        // Not what is returned here: the answer may have to wait, and then another stage ends the exchange.
        self.refused = Some(if status == 408 { Stage::ShortLinger } else { Stage::Linger });
        self.write(request, Response { body, raw: false }, slot).await
    }
}
