//! What is answered where there is no request to be served.

use conf::Level;
use http1::framing::Framing;
use http1::{Head, HeadError};
use seam::Stage;
use seam::scoreboard::Row;

use super::HttpConnection;
use crate::phases::Response;
use crate::phases::error_document;
use crate::request::Incoming;

/// A head that cannot be served.
pub(crate) struct Refusal {
    why: Why,
    incoming: Incoming,
}

impl Refusal {
    pub(super) fn boxed(why: Why, incoming: Incoming) -> Box<Refusal> {
        Box::new(Refusal { why, incoming })
    }

    /// The status of the answer, and why.
    pub(crate) fn words(&self) -> (u16, &'static str) {
        self.why.words()
    }
}

pub(super) enum Why {
    Head(HeadError),
    Timeout,
    UnknownHost,
    Method,
}

impl Why {
    /// The status of the answer, and a clause for the error log.
    fn words(&self) -> (u16, &'static str) {
        match self {
            Why::Head(error) => (error.status(), error.reason()),
            Why::Timeout => (408, "AH01382: Request header read timeout"),
            Why::UnknownHost => (400, "AH02032: Hostname provided via the request is not known here (StrictHostCheck)"),
            Why::Method => (501, "the method is not registered (HttpProtocolOptions)"),
        }
    }
}

impl Incoming {
    /// What arrived instead of a head.
    pub(super) fn broken(bytes: Vec<u8>, head: Head) -> Incoming {
        Incoming { head_len: bytes.len(), bytes, head }
    }
}

impl HttpConnection {
    /// Answers what is no request, and closes.
    pub(super) async fn refuse(&mut self, refusal: Box<Refusal>, row: Row) -> Stage {
        let Refusal { why, incoming } = *refusal;
        // A client that did not even send a line is not answered: it may have opened the connection to have it ready.
        let silent = matches!(why, Why::Timeout) && !incoming.bytes.contains(&b'\n');
        let (status, reason) = why.words();
        let (module, level, note) = match why {
            Why::Head(error) => ("core", Level::Debug, error.note()),
            Why::Timeout => ("reqtimeout", Level::Info, ""),
            Why::UnknownHost => ("core", Level::Error, ""),
            Why::Method => ("core", Level::Debug, ""),
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
        self.write(request, Response { body, raw: false }, row).await
    }
}
