//! A whole connection: its descriptor, and the TLS session if it is encrypted.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::session::Session;
use crate::stream::is_quiet;

/// A connection to a server behind this one, while no reactor watches it.
#[derive(Debug)]
pub struct Connection {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) session: Option<Box<Session>>,
}

impl From<Arc<OwnedFd>> for Connection {
    /// A connection that is not encrypted.
    fn from(fd: Arc<OwnedFd>) -> Connection {
        Connection { fd, session: None }
    }
}

impl Connection {
    /// The descriptor of a connection that is not encrypted. `Err`: it is encrypted.
    pub fn into_descriptor(self) -> Result<Arc<OwnedFd>, Connection> {
        if self.session.is_some() { Err(self) } else { Ok(self.fd) }
    }

    /// Whether the connection can carry another request: the server has neither closed it nor sent anything except
    /// tickets for later sessions and new keys, which are taken in.
    pub fn is_quiet(&mut self) -> bool {
        match &mut self.session {
            None => is_quiet(&self.fd),
            Some(session) => session.is_quiet(&self.fd),
        }
    }

    /// Closes a connection between requests, and lets the server know that this is its end.
    pub fn close(mut self) {
        if let Some(session) = &mut self.session {
            session.say_end(&self.fd);
        }
    }
}
