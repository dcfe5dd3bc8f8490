//! The server from the view of the MPM: it makes connections, and hears of the events in a child's life.

use std::sync::Arc;

use runtime::executor::abandon_errands;
use runtime::{Accepted, Connection, HelperProcess, Service, Tidying, tick};
use sys::cred::Identity;

use crate::exchange::Running;
use crate::exchange::errand::before_wait;
use crate::module::with_infos;
use crate::phases;
use crate::protocol::h1::connection::Http1Connection;
use crate::protocol::negotiation::Negotiation;
use crate::protocol::reception::{self, TurnedAway};
use crate::request::hooks::Hooks;
use crate::site::server::Server;
use crate::transport::endpoint::Endpoint;
use crate::transport::park_state::{self};
use crate::transport::socket::Socket;

/// The server from the view of the MPM.
pub struct HttpService {
    server: Arc<Server>,
    hooks: Hooks,
    /// Some clients may begin with HTTP/2.
    h2c: bool,
}

impl HttpService {
    /// Serves this configuration.
    pub fn new(server: Arc<Server>) -> HttpService {
        let mut hooks = phases::hooks(&with_infos(server.infos()));
        hooks.preface = hooks.preface.filter(|preface| (preface.is_used)(&server));
        hooks.reception = hooks.reception.filter(|reception| (reception.is_used)(&server));
        hooks.encryption = hooks.encryption.filter(|encryption| (encryption.is_used)(&server));
        let wanted = hooks.log_where.iter().filter(|(is_wanted, _)| is_wanted(&server));
        hooks.log.extend(wanted.map(|(_, log)| log));
        let h2c = server.hosts.iter().any(|host| host.plan.h2c);
        HttpService { server, hooks, h2c }
    }

    /// The server and hooks for its connections.
    pub(crate) fn running(&'static self) -> Running {
        Running { server: &self.server, hooks: &self.hooks }
    }
}

impl Service for HttpService {
    fn connect(&'static self, accepted: Accepted) -> Box<dyn Connection> {
        let socket = Arc::new(Socket::new(accepted.socket));
        if !reception::receive(self.running(), &*socket, accepted.peer, accepted.workers) {
            return Box::new(TurnedAway);
        }
        if (self.hooks.encryption.is_some() || self.h2c)
            && let Ok(local) = socket.local()
        {
            let host = self.server.host_at(local, None).0;
            let encryption = self.hooks.encryption.filter(|encryption| (encryption.is_expected)(host));
            if encryption.is_some() || self.h2c && host.plan.h2c {
                let ends = (local, accepted.peer);
                return Box::new(Negotiation::new(self.running(), encryption, socket, ends, accepted.workers));
            }
        }
        let mut connection = Http1Connection::new(self.running(), socket, accepted.peer, accepted.workers);
        connection.expect_preface();
        Box::new(connection)
    }

    fn child_started(&self, children: usize) {
        // Memory that one client made large must not stay large for good.
        sys::memory::large_blocks_apart();
        park_state::child_started(children);
        self.server.child_started(children);
    }

    fn helpers(&self, children: Option<&Identity>) -> Result<Vec<HelperProcess>, String> {
        self.server.helpers(children)
    }

    fn before_wait(&self) {
        before_wait();
    }

    fn before_pass(&self) {
        crate::log::flush_all();
        tick::none();
    }

    fn make_room(&self, most: usize) -> usize {
        park_state::make_room(most)
    }

    fn tidy(&self) -> Tidying {
        Box::pin(park_state::tidy())
    }

    fn before_end(&self) {
        abandon_errands();
        self.server.child_ends();
        crate::log::flush_last();
    }
}
