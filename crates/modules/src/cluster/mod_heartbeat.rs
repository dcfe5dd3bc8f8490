//! Tells others once a second how busy this server is.
//!
//! Apache manual: mod_heartbeat. The message is that of 2.4.71.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, row};
use runtime::scoreboard::{self, ChildState, Described, Snapshot, State};
use server::{Hook, Module, Server};

use super::heartbeats::HeartbeatServer;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "heartbeat_module", source: "mod_heartbeat.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Tick(beat)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("HeartbeatAddress", Allowed::GLOBAL, Take1(set_address), "disabled", "Address to send heartbeat requests").differs("The address is a number."),
];

fn set_address(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let address =
        address(text, "HeartbeatAddress: No port provided in address", "HeartbeatAddress: Unable to parse address.")?;
    cmd.server_set(|s: &mut HeartbeatServer| &mut s.address, address)
}

/// An address with its port. `Err`: one of the two messages.
pub(super) fn address(text: &str, portless: &'static str, malformed: &'static str) -> Result<SocketAddr, &'static str> {
    let has_port = text
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    if !has_port || text.parse::<Ipv6Addr>().is_ok() {
        return Err(portless);
    }
    text.parse().ok().filter(|address: &SocketAddr| address.port() != 0).ok_or(malformed)
}

/// Whether the last message could not be sent: that is logged once.
static FAILS: AtomicBool = AtomicBool::new(false);

/// Sends the message. A socket of this kind never waits.
fn beat(server: &Server) {
    let conf = server.main().settings.get::<HeartbeatServer>();
    let Some(to) = conf.address.get() else { return };
    let (ready, busy) = workers(&scoreboard::snapshot(Described::Nobody));
    let sent = send(*to, &format!("v=1&ready={ready}&busy={busy}"));
    let is_known = FAILS.swap(sent.is_err(), Ordering::Relaxed);
    if let (Err(error), false) = (sent, is_known) {
        let text = format!("{}: no heartbeat is sent to {to} (HeartbeatAddress)", sys::describe(&error));
        server.main().log("heartbeat", Level::Warn, &text);
    }
}

fn send(to: SocketAddr, text: &str) -> io::Result<()> {
    let from: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from)?;
    socket.set_nonblocking(true)?;
    socket.send_to(text.as_bytes(), to).map(drop)
}

/// How many workers wait for something to do, and how many do not. Where requests need no workers, at least as many wait as do not.
fn workers(board: &Snapshot) -> (usize, usize) {
    let (mut ready, mut busy) = (0, 0);
    let now = board.processes.iter().filter(|process| process.pid != 0 && process.generation == board.generation);
    for process in now.filter(|process| process.life != ChildState::Quiescing) {
        let own = |is_one: fn(State) -> bool| process.workers.iter().filter(|worker| is_one(worker.state)).count();
        let unlisted = process.unlisted.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let own_busy = own(State::is_busy).saturating_add(unlisted.unwrap_or(0));
        let own_ready = own(|state| state == State::Ready);
        ready += if unlisted.is_some() { own_ready.max(own_busy) } else { own_ready };
        busy += own_busy;
    }
    (ready, busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parsed = |text| address(text, "portless", "malformed").map(|address| address.to_string());
        assert_eq!(parsed("239.0.0.1:27999"), Ok("239.0.0.1:27999".into()));
        assert_eq!(parsed("[ff05::1]:27999"), Ok("[ff05::1]:27999".into()));
        for text in ["foo", "127.0.0.1", "::1", "127.0.0.1:", "127.0.0.1:x"] {
            assert_eq!(parsed(text), Err("portless"), "{text}");
        }
        for text in ["127.0.0.1:99999", "foo:1", "127.0.0.1:0"] {
            assert_eq!(parsed(text), Err("malformed"), "{text}");
        }
    }

    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("HeartbeatAddress 239.0.0.1:27999", ""),
            ("HeartbeatAddress foo", "HeartbeatAddress: No port provided in address"),
            ("HeartbeatAddress 239.0.0.1:99999", "HeartbeatAddress: Unable to parse address."),
        ]);
    }
}
