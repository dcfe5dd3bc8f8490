//! The data that a client sends before its first request, if that is expected (PROXY protocol).

use runtime::Stage;

use super::connection::Http1Connection;
use crate::protocol::reception;
use crate::request::hooks::PrefaceOutcome;

impl Http1Connection {
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
                let is_welcome = reception::receive_announced(self.running, &*self.transport, announced, self.workers);
                Some(if is_welcome { Stage::Serve } else { Stage::Closed })
            }
            PrefaceOutcome::Broken(level, why) => {
                runtime::log::log("remoteip", level, format_args!("[client {}] {why}", self.client.peer));
                Some(Stage::Closed)
            }
        }
    }
}
