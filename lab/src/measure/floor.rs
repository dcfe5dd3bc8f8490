//! The floor: a bare epoll loop that answers every read with one fixed response, without parsing the request.
//!
//! No server that parses requests can be expected to do better with the same system calls; if one does (with another
//! way to keep connections, or fewer calls), the table shows it as more than 1.
//!
//! A server with a thread for each connection pays for a switch with every request, whatever else it does: its floor is
//! the same loop with such threads. A server that runs scripts also pays for those: its floor is in [`spawn`].

mod listener;
pub(crate) mod options;
mod spawn;

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::experiments::workload::SMALL_FILE;
use crate::machine::error::{Context as _, Result};
use listener::listener;
use options::FloorOptions;

/// Enough for a thread that reads and writes, in bytes.
const STACK: usize = 64 * 1024;

/// In an event, stands for the listener instead of a descriptor's number.
const LISTENER: u64 = u64::MAX;

/// Serves until killed.
pub(crate) fn serve(options: &FloorOptions) -> Result<()> {
    if let Some(script) = &options.spawn {
        return spawn::serve(options, script);
    }
    let serve = if options.threads { run_threads } else { run };
    serve(options).context(|| format!("serve the floor on {}", options.listen))
}

/// A thread for each connection; every call waits.
fn run_threads(options: &FloorOptions) -> rustix::io::Result<()> {
    let listener = listener(options, SocketFlags::CLOEXEC, |_| Ok(()))?;
    let (response, close) = (Arc::new(response(options.close)), options.close);
    loop {
        let connection = match accept_with(&listener, SocketFlags::CLOEXEC) {
            Ok(connection) => connection,
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        let response = response.clone();
        let serve = move || while respond(&connection, &response) && !close {};
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(serve);
        thread.map_err(|_| Errno::AGAIN)?;
    }
}

fn run(options: &FloorOptions) -> rustix::io::Result<()> {
    let listener = listener(options, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, |_| Ok(()))?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;

    let response = response(options.close);
    let mut connections: Vec<Option<OwnedFd>> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(512);
    loop {
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let target = event.data;
            if target.u64() == LISTENER {
                accept_all(&listener, &epoll, &mut connections)?;
            } else if let Some(slot) = connections.get_mut(target.u64() as usize)
                && let Some(connection) = slot
                && (!respond(connection, &response) || options.close)
            {
                *slot = None;
            }
        }
    }
}

/// Accepts all waiting connections; a connection is found again by the number of its descriptor.
fn accept_all(listener: &OwnedFd, epoll: &OwnedFd, connections: &mut Vec<Option<OwnedFd>>) -> rustix::io::Result<()> {
    loop {
        let connection = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(connection) => connection,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        let index = connection.as_raw_fd() as usize;
        epoll::add(epoll, &connection, EventData::new_u64(index as u64), EventFlags::IN)?;
        if connections.len() <= index {
            connections.resize_with(index + 1, || None);
        }
        connections[index] = Some(connection);
    }
}

/// One read, one write; false when the connection is over.
fn respond(connection: &OwnedFd, response: &[u8]) -> bool {
    let mut request = [0; 4096];
    match rustix::io::read(connection, &mut request) {
        Ok(0) => false,
        Ok(_) => rustix::io::write(connection, response).is_ok(),
        Err(Errno::AGAIN | Errno::INTR) => true,
        Err(_) => false,
    }
}

/// A response with the header fields that a normal server sends for the same file.
fn response(close: bool) -> Vec<u8> {
    let connection = if close { "close" } else { "keep-alive" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: floor\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"1f-647c0c5c8a000\"\r\nAccept-Ranges: bytes\r\n\
         Content-Length: {}\r\nConnection: {connection}\r\nContent-Type: text/plain\r\n\r\n",
        SMALL_FILE.len()
    );
    [head.as_bytes(), SMALL_FILE].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::client::Connector;
    use std::net::{SocketAddr, TcpListener};

    /// Starts a floor that lives as long as the test program.
    fn start(close: bool, threads: bool) -> SocketAddr {
        let listen = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        std::thread::spawn(move || serve(&FloorOptions { listen, close, threads, spawn: None, alone: true }));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while Connector::default().open(listen).is_err() {
            assert!(std::time::Instant::now() < deadline, "the floor does not listen");
        }
        listen
    }

    #[test]
    fn connections_are_kept_until_the_client_leaves() {
        for address in [start(false, false), start(false, true)] {
            for _ in 0..3 {
                let mut connection = Connector::default().open(address).unwrap();
                for _ in 0..3 {
                    assert_eq!(connection.get("x", false).unwrap().body, SMALL_FILE);
                }
            }
        }
    }

    #[test]
    fn connections_are_closed_when_asked_for() {
        for threads in [false, true] {
            let mut connection = Connector::default().open(start(true, threads)).unwrap();
            assert_eq!(connection.get("x", true).unwrap().status, 200);
            connection.await_end().unwrap();
        }
    }

    #[test]
    fn the_fixed_response_is_framed_correctly() {
        let text = String::from_utf8(response(true)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.as_bytes(), SMALL_FILE);
        assert!(head.contains("Content-Length: 31") && head.contains("Connection: close"), "{head}");
    }
}
