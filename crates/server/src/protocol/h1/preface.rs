//! The data that a client sends before its first request, if that is expected (PROXY protocol).

use http::{Head, Parse};
use runtime::Stage;

use super::connection::HttpConnection;
use crate::request::hooks::PrefaceOutcome;
use crate::settings::plan::Plan;

impl HttpConnection {
    /// Checks whether the client of a new connection has to send a preface.
    pub(in crate::protocol) fn expect_preface(&mut self) {
        let client = &self.client;
        self.preface = self.running.hooks.preface.filter(|preface| {
            (preface.is_expected)(self.running.server, client.peer.ip().to_canonical(), client.local())
        });
    }

    /// Takes the preface off the beginning of the received bytes. `None`: there is more to come; otherwise the next
    /// stage of the connection.
    pub(super) fn take_preface(&mut self, bytes: &mut Vec<u8>) -> Option<Stage> {
        let Some(preface) = self.preface else { return Some(Stage::Serve) };
        match (preface.read)(bytes)? {
            PrefaceOutcome::Announced(announced, length) => {
                bytes.drain(..length);
                self.preface = None;
                self.client.announce(announced);
                Some(Stage::Serve)
            }
            PrefaceOutcome::Broken(level, why) => {
                runtime::log::log("remoteip", level, format_args!("[client {}] {why}", self.client.peer));
                Some(Stage::Closed)
            }
        }
    }

    /// Whether more must arrive before anything can be served.
    pub(super) fn is_partial(&self, plan: &Plan, head: &mut Head) -> bool {
        let start = match self.preface.map(|preface| (preface.read)(&self.buffer)) {
            Some(None) => return true,
            Some(Some(PrefaceOutcome::Broken(..))) => return false,
            Some(Some(PrefaceOutcome::Announced(_, length))) => length,
            None => 0,
        };
        Head::parse(&self.buffer[start..], &plan.limits, head) == Ok(Parse::Partial)
    }
}
