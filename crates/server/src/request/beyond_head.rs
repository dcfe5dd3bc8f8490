//! What a request asks beyond its head, for [repeats](crate::exchange::repeat).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::request::client::Announced;
use crate::request::hooks::WriteVariable;
use crate::request::{Client, Request};
use crate::transport::tls::session::{Named, Session};

impl Request {
    /// Records that the response depends on more than the request's head, the configuration and the requested file: a
    /// later request with the same head goes through all phases again.
    ///
    /// Code of a [repeatable](crate::Hook::Repeatable) module calls this wherever it asks for something that the other
    /// methods here do not record: another file, a password, random numbers, memory that requests share.
    #[inline]
    pub fn asks_beyond_head(&self) {
        self.beyond_head.store(true, Ordering::Relaxed);
    }

    /// The connection, with everything that distinguishes its client from others; the question is recorded.
    pub fn client(&self) -> &Arc<Client> {
        self.asks_beyond_head();
        &self.client
    }

    /// Sets the client to the one for which that of the connection speaks.
    pub fn set_client(&mut self, client: Client) {
        self.asks_beyond_head();
        self.client = Arc::new(client);
    }

    /// The client that the proxy at the other end has announced; if there is one, the question is recorded.
    pub fn announced(&self) -> Announced {
        let announced = self.client.announced();
        if announced != Announced::Nobody {
            self.asks_beyond_head();
        }
        announced
    }

    /// Sets a variable that each request has anew ([`Hook::OwnVariable`](crate::Hook::OwnVariable)).
    pub fn set_own_variable(&mut self, name: &'static str, write: WriteVariable) {
        let mut value = String::new();
        write(self, &mut value);
        self.own_variables.push((name, value.clone()));
        self.env.set(name, value);
    }

    /// Gives such a variable, which is there, a new value.
    pub(crate) fn renew_own_variable(&mut self, name: &'static str, place: usize, write: WriteVariable) {
        let Some(place) = self.env.place_near(name, place) else { return };
        let Some(text) = self.env.own_mut(place) else { return };
        let mut value = std::mem::take(text);
        value.clear();
        write(self, &mut value);
        if let Some(text) = self.env.own_mut(place) {
            *text = value;
        }
    }

    /// The value of a variable of the environment, for a line of the configuration that names it. If each request has another
    /// value ([`Hook::OwnVariable`](crate::Hook::OwnVariable)), the question is recorded.
    pub fn env_value(&self, name: &str) -> Option<&str> {
        if self.hooks.own_variables.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
            self.asks_beyond_head();
        }
        self.env.get(name)
    }

    /// When the request came in, by the clock: time since 1970; the question is recorded.
    pub fn time(&self) -> Duration {
        self.asks_beyond_head();
        self.account.time
    }

    /// The time since the request came in; the question is recorded.
    pub fn elapsed(&self) -> Duration {
        self.asks_beyond_head();
        self.account.start.elapsed()
    }

    /// Our address of the connection. Repeats have the same one.
    pub fn local(&self) -> SocketAddr {
        self.client.local()
    }

    /// The TLS session with the client; if there is one, the question is recorded.
    pub fn session(&self) -> Option<&Session> {
        let session = self.client.session();
        if session.is_some() {
            self.asks_beyond_head();
        }
        session
    }

    /// What the client has asked for in the TLS handshake. Repeats have asked for the same.
    pub fn named(&self) -> Option<Named> {
        self.client.session().map(Session::named)
    }

    /// Whether the connection is protected against reading and changes, as that of a repeat is.
    pub fn is_secure(&self) -> bool {
        self.client.is_secure()
    }

    /// Whether the client speaks plain HTTP to a TLS port. Such a request is never repeated.
    pub fn is_misdirected(&self) -> bool {
        self.client.is_misdirected()
    }
}
