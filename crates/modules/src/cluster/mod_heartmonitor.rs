//! Listens how busy other servers are: a process of its own hears what mod_heartbeat sends.
//!
//! Apache manual: mod_heartmonitor. The file is that of 2.4.71.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use conf::directive::Args::Take1;
use conf::values::atoi;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, row};
use runtime::HelperProcess;
use runtime::executor::Timer;
use server::{HelperHook, Hook, Module, Server};
use sys::cred::Identity;
use sys::event_loop::EventLoop;
use sys::signal_fd::SignalFd;
use sys::time::Instant;
use sys::watch::{Interest, watch};

use super::heartbeats::{self, Heartbeat, HeartbeatServer, SERVERS_MAX, set_storage, share, storage};
use super::mod_heartbeat::address;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "heartmonitor_module", source: "mod_heartmonitor.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::HelperProcess(&HELPER)],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("HeartbeatListen", Allowed::GLOBAL, Take1(set_listen), "disabled", "Address to listen for heartbeat requests").differs("The address is a number; it need not be that of a group."),
    row("HeartbeatStorage", Allowed::GLOBAL, Take1(set_storage), "logs/hb.dat", "Path to store heartbeat data."),
    row("HeartbeatMaxServers", Allowed::GLOBAL, Take1(set_servers), "10", "Max number of servers when using slotmem (instead file) to store heartbeat data.").differs("With 0 there is a file for others; this server itself does not read it. There are at most 1024 servers."),
];

/// How often the file is written.
const WRITE: Duration = Duration::from_secs(1);
/// The longest message, in bytes.
const MESSAGE: usize = 1000;
/// How many messages are read before an order from the parent is looked for.
const STEPS: usize = 64;

fn set_listen(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    const PORTLESS: &str = "HeartbeatListen: No port provided in multicast address";
    let address = address(text, PORTLESS, "HeartbeatListen: Unable to parse multicast address.")?;
    cmd.server_set(|s: &mut HeartbeatServer| &mut s.listen, address)
}

fn set_servers(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let servers = usize::try_from(atoi(text)).ok().filter(|count| *count == 0 || *count >= 10);
    let servers =
        servers.ok_or("HeartbeatMaxServers: Should be 0 for file storage, or greater or equal than 10 for slotmem")?;
    cmd.server_set(|s: &mut HeartbeatServer| &mut s.servers, servers)
}

static HELPER: HelperHook = helper;

/// Starts the process if there is something to listen to.
fn helper(server: &Arc<Server>, _: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let conf = server.main().settings.get::<HeartbeatServer>();
    let Some(at) = conf.listen.get().copied() else { return Ok(None) };
    share()?;
    let socket =
        open(at).map_err(|error| format!("{}: cannot listen at {at} (HeartbeatListen)", sys::describe(&error)))?;
    let (most, file) = match conf.servers() {
        0 => (SERVERS_MAX, Some(storage(server))),
        most => (most.min(SERVERS_MAX), None),
    };
    Ok(Some(HelperProcess {
        name: "heartbeats",
        count: 1,
        privileged: false,
        starts_scripts: false,
        life: Box::new(move |orders| EventLoop::new(|| ())?.run(live(&socket, most, file.as_deref(), orders))?),
    }))
}

/// Opens the socket, and joins the group if the address is one of a group.
fn open(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::from(sys::socket::datagrams(at)?);
    match at.ip() {
        std::net::IpAddr::V4(ip) if ip.is_multicast() => {
            socket.join_multicast_v4(&ip, &std::net::Ipv4Addr::UNSPECIFIED)?
        }
        std::net::IpAddr::V6(ip) if ip.is_multicast() => socket.join_multicast_v6(&ip, 0)?,
        _ => {}
    }
    Ok(socket)
}

/// Listens until an order from the parent arrives.
async fn live(socket: &UdpSocket, most: usize, file: Option<&str>, orders: &SignalFd) -> io::Result<()> {
    let order = watch(orders.descriptor(), Interest::READABLE)?;
    let heard = watch(Arc::new(socket.try_clone()?.into()), Interest::READABLE)?;
    let (mut timer, mut next, mut complained) = (Timer::default(), Instant::now() + WRITE, false);
    poll_fn(|cx| {
        loop {
            if order.poll_read_ready(cx).is_ready() && matches!(orders.read(), Ok(Some(_))) {
                return Poll::Ready(Ok(()));
            }
            let mut steps = 0;
            while steps < STEPS
                && let Poll::Ready(ready) = heard.poll_read_ready(cx)
            {
                steps += 1;
                let mut message = [0; MESSAGE];
                match ready?.try_io(|_| socket.recv_from(&mut message)) {
                    Some(Ok((length, from))) => hear(&message[..length], from, most),
                    Some(Err(error)) => runtime::log!("heartmonitor", Error, "{}", sys::describe(&error)),
                    None => {}
                }
            }
            if timer.poll_passed(cx, next).is_pending() {
                if steps == STEPS {
                    // There may be more.
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
            next = Instant::now() + WRITE;
            if let Some(file) = file {
                let written = write(Path::new(file));
                if let (Err(error), false) = (&written, complained) {
                    runtime::log!("heartmonitor", Error, "{}: the file {file} cannot be written", sys::describe(error));
                }
                complained = written.is_err();
            }
        }
    })
    .await
}

/// Notes a message.
fn hear(message: &[u8], from: SocketAddr, most: usize) {
    let text = str::from_utf8(message).ok();
    match text.and_then(|text| Heartbeat::parse(text, from.ip().to_canonical())) {
        None => runtime::log!("heartmonitor", Crit, "AH02087: malformed message from {from}"),
        Some(heartbeat) => {
            let (ready, busy) = (heartbeat.ready, heartbeat.busy);
            runtime::log!("heartmonitor", Debug, "AH02086: {from} busy={busy} ready={ready}");
            if !heartbeats::note(heartbeat, most) {
                runtime::log!("heartmonitor", Warn, "{from} is one server too many (HeartbeatMaxServers)");
            }
        }
    }
}

/// Writes the file anew: readers see the former one or this one.
fn write(file: &Path) -> io::Result<()> {
    let lines: String = heartbeats::all().map(|heartbeat| heartbeat.line()).collect();
    let beside = file.with_extension(format!("tmp.{}", std::process::id()));
    std::fs::write(&beside, lines)?;
    std::fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        crate::testing::check(&[
            ("HeartbeatListen 239.0.0.1:27999\nHeartbeatMaxServers 0\nHeartbeatStorage logs/x", ""),
            ("HeartbeatListen foo", "HeartbeatListen: No port provided in multicast address"),
            (
                "HeartbeatMaxServers 5",
                "HeartbeatMaxServers: Should be 0 for file storage, or greater or equal than 10 for slotmem",
            ),
        ]);
    }
}
