//! The error log's messages about a request.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use conf::Level;

use crate::log::{About, ErrorLog};
use crate::request::Request;
use crate::request::client::Client;
use crate::request::unique::{self, Unique};
use crate::settings::core::CoreDir;

impl About for Request {
    fn client(&self) -> (String, u16) {
        address(&self.client)
    }

    fn peer(&self) -> (String, u16) {
        address(self.client.connection())
    }

    fn local(&self) -> SocketAddr {
        self.client.local()
    }

    fn keepalives(&self) -> u32 {
        self.client.connection().keepalives.load(Ordering::Relaxed)
    }

    fn connection_log_id(&self) -> Option<String> {
        self.client.log_id()
    }

    fn log_id(&self) -> Option<&str> {
        Request::log_id(self)
    }

    fn host_name(&self) -> &str {
        &self.vhost.name
    }

    fn server_name(&self) -> String {
        Request::server_name(self).into_owned()
    }

    fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name)
    }

    fn note(&self, name: &str) -> Option<&str> {
        self.notes.get(name)
    }

    fn field(&self, name: &str) -> Option<String> {
        self.header(name).map(|value| value.into_owned())
    }
}

fn address(client: &Client) -> (String, u16) {
    (client.ip().to_string(), client.peer.port())
}

/// The level of a module for a request: its sections', or the virtual host's.
fn level_for(request: &Request, module: &str) -> Level {
    if let Some(level) = runtime::log_levels::of(module) {
        return level;
    }
    request.dir::<CoreDir>().log_level.of(module).unwrap_or_else(|| request.vhost.levels.of(module))
}

impl Request {
    /// Whether a message of that module and level would be written.
    pub fn logs(&self, module: &str, level: Level) -> bool {
        // Notices are always written, whatever the level. An explanation records everything.
        level == Level::Notice || level <= if self.trace.is_some() { Level::Debug } else { level_for(self, module) }
    }

    /// Writes to the error log of the virtual host, with the client's address.
    pub fn log(&self, module: &str, level: Level, text: impl AsRef<str>) {
        if self.logs(module, level) {
            // A repeat would have to say it again.
            self.asks_beyond_head();
            match &self.trace {
                None => {
                    self.name_for_logs();
                    self.error_log().write_for(self, module, level, None, text.as_ref());
                }
                Some(trace) => trace.message(module, level, text.as_ref()),
            }
        }
    }

    /// Logs a message that begins with a system error (`(13)Permission denied: `).
    pub fn log_os(&self, module: &str, level: Level, error: &io::Error, text: impl AsRef<str>) {
        if self.logs(module, level) {
            self.asks_beyond_head();
            match &self.trace {
                None => {
                    self.name_for_logs();
                    self.error_log().write_for(self, module, level, Some(error), text.as_ref());
                }
                Some(trace) => trace.message(module, level, &format!("{}: {}", sys::describe(error), text.as_ref())),
            }
        }
    }

    /// Logs a message without the client's address: it is about the server's files, and concerns every client.
    pub fn log_apart(&self, module: &str, level: Level, text: impl AsRef<str>) {
        if self.logs(module, level) {
            self.asks_beyond_head();
            match &self.trace {
                None => self.error_log().write(module, level, text.as_ref()),
                Some(trace) => trace.message(module, level, text.as_ref()),
            }
        }
    }

    /// The error log of the virtual host.
    pub fn error_log(&self) -> &ErrorLog {
        &self.vhost.error_log
    }

    /// The id of the request in the access log and in the error log (`%L`): there is none until the error log has
    /// mentioned it.
    pub fn log_id(&self) -> Option<&str> {
        self.account.log_id()
    }

    /// Gives the request and its connection the ids for the next error log line.
    pub(crate) fn name_for_logs(&self) {
        self.client.make_log_id();
        self.account.name(|| match self.hooks.log_id {
            Some(name) => name(self),
            None => unique::letters(&Unique::draw().number().to_be_bytes()),
        });
    }
}
