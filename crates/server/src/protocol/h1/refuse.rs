//! The answers to invalid requests.

use conf::Level;
use http::HeadError;
use runtime::Stage;
use runtime::scoreboard::Row;

use super::connection::{CutOff, HttpConnection};
use crate::exchange::{self, AskedHost, Exchange, Unserved};
use crate::message::head::RequestHead;
use crate::transport;

/// A head that cannot be served.
pub(crate) struct Refusal {
    why: Why,
    head: RequestHead,
}

impl Refusal {
    pub(super) fn of(why: Why, head: RequestHead) -> Refusal {
        Refusal { why, head }
    }
}

pub(super) enum Why {
    Head(HeadError),
    CutOff(CutOff),
    Unserved(Unserved),
}

impl Why {
    /// The status of the answer, and a clause for the error log.
    fn words(&self) -> (u16, &'static str) {
        match self {
            Why::Head(error) => (error.status(), error.reason()),
            Why::CutOff(CutOff::Timeout) => (408, "AH01382: Request header read timeout"),
            Why::CutOff(CutOff::NoRoom) => {
                (503, "unfinished requests hold as much memory as they may; this one has waited longest")
            }
            Why::CutOff(CutOff::End) => (400, "the client stopped sending in the middle of a head"),
            Why::Unserved(why) => why.words(),
        }
    }
}

impl HttpConnection {
    /// Answers an invalid request, and closes.
    pub(super) async fn refuse(&mut self, refusal: Refusal, row: Row) -> Stage {
        let Refusal { why, head } = refusal;
        // A client that has not even sent a line gets no answer: it may have opened the connection in advance.
        // Neither is there anybody to answer if that line is not whole when the client stops sending, as in Apache.
        let line = head.parts().1;
        let begins = line.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(line.len());
        let silent = matches!(why, Why::CutOff(CutOff::Timeout | CutOff::End)) && !line[begins..].contains(&b'\n');
        let (status, reason) = why.words();
        let (module, level, note) = match why {
            Why::Head(error) => ("core", Level::Debug, error.note()),
            Why::CutOff(CutOff::Timeout) => ("reqtimeout", Level::Info, ""),
            Why::CutOff(CutOff::NoRoom) => ("core", Level::Error, ""),
            Why::CutOff(CutOff::End) => ("core", Level::Debug, ""),
            Why::Unserved(Unserved::UnknownHost) => ("core", Level::Warn, ""),
            Why::Unserved(Unserved::Method) => ("core", Level::Debug, ""),
        };
        let asked = match why {
            Why::Head(_) | Why::CutOff(_) => AskedHost::Nothing,
            Why::Unserved(_) => AskedHost::Given,
        };
        let Ok(mut request) = exchange::request(self.running, &self.client, head, asked) else { return Stage::Closed };
        request.account.sent.received = request.asked.head.len();
        request.asked.salvage_line();
        self.buffer.clear();
        match why {
            Why::Unserved(Unserved::UnknownHost) => request.log(module, level, exchange::unknown_host(&request)),
            _ => request.log(module, level, reason),
        }
        if silent {
            return Stage::ShortLinger;
        }
        if !note.is_empty() {
            request.notes.set("error-notes", note);
        }
        // Not the returned value: the answer may have to wait, and then another stage ends the exchange.
        self.refused = Some(if status == 408 { Stage::ShortLinger } else { Stage::Linger });
        let mut exchange = Exchange { request, row };
        match transport::unless_reset(&*self.transport, exchange.refuse(status)).await {
            Some(response) => self.write(exchange, response).await,
            None => self.give_up(exchange),
        }
    }
}
