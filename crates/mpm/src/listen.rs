//! Listening sockets: opened from the `Listen` lines, kept over restarts while their address stays.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use conf::Slots;
use seam::AcceptFilters;
use sys::socket::{ListenError, ListenOptions, listen, local_address, reconfigure};

use crate::settings::{Listen, MpmSettings};

/// A socket that accepts connections.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Where it listens.
    pub address: SocketAddr,
    fd: Arc<OwnedFd>,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Listener {
    /// The descriptor, for a reactor to watch.
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }
}

/// The sockets of a generation.
#[derive(Clone, Debug, Default)]
pub struct Listeners(Vec<Listener>);

/// Why there are no sockets: the lines of the message, in Apache's words.
#[derive(Debug)]
pub struct OpenError {
    /// One line per socket that could not be opened, then what follows from it.
    pub lines: Vec<String>,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))
    }
}

impl Listeners {
    /// Opens what the settings ask for, at the first start. `passed` are sockets that a service manager made
    /// ([`sys::notify::passed_sockets`]): one whose address is asked for is taken instead of a new one, the others are
    /// closed.
    pub fn open(settings: &Slots, passed: Vec<OwnedFd>) -> Result<Listeners, OpenError> {
        let there = passed.into_iter().filter_map(|fd| {
            let address = local_address(&fd).ok()?;
            Some(Listener { address, fd: Arc::new(fd) })
        });
        Listeners(there.collect()).follow(settings)
    }

    /// The sockets for new settings: those of `self` where the address stays, new ones otherwise. `self` is what holds on
    /// when that fails.
    pub fn follow(&self, settings: &Slots) -> Result<Listeners, OpenError> {
        let s = settings.get::<MpmSettings>();
        let filters = settings.get::<AcceptFilters>();
        let mut opened = Listeners::default();
        for line in s.listen.iter() {
            let failed = |mut lines: Vec<String>| {
                lines.push("no listening sockets available, shutting down".to_string());
                OpenError { lines }
            };
            self.open_line(line, options(s, filters.waits_for_data(line.protocol())), &mut opened).map_err(failed)?;
        }
        if opened.0.is_empty() {
            return Err(OpenError { lines: vec!["no listening sockets available, shutting down".to_string()] });
        }
        Ok(opened)
    }

    /// Opens the addresses of a line; of every address of the machine it is one socket for IPv6 and IPv4 where there is
    /// IPv6, else one for IPv4.
    fn open_line(&self, line: &Listen, options: ListenOptions, opened: &mut Listeners) -> Result<(), Vec<String>> {
        if !line.addresses.is_empty() {
            for address in &line.addresses {
                // A socket for all of IPv6 takes IPv4 too, and a second one for all of IPv4 would be in its way.
                let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
                if address.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) && opened.at(any).is_some() {
                    continue;
                }
                self.open_address(*address, options, opened).map_err(|error| vec![failure(*address, &error)])?;
            }
            return Ok(());
        }
        let mut lines = Vec::new();
        for any in [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)] {
            let address = SocketAddr::new(any, line.port);
            match self.open_address(address, options, opened) {
                Ok(()) => return Ok(()),
                // A machine without IPv6.
                Err(ListenError::Socket(_)) if any.is_ipv6() => {}
                Err(ListenError::Bind(error)) if any.is_ipv6() && error.kind() == io::ErrorKind::AddrNotAvailable => {}
                Err(error) => lines.push(failure(address, &error)),
            }
        }
        Err(lines)
    }

    fn open_address(
        &self,
        address: SocketAddr,
        options: ListenOptions,
        opened: &mut Listeners,
    ) -> Result<(), ListenError> {
        let listener = match self.at(address) {
            Some(kept) => {
                reconfigure(&kept.fd, options).map_err(ListenError::Listen)?;
                kept.clone()
            }
            None => Listener { address, fd: Arc::new(listen(address, options)?) },
        };
        opened.0.push(listener);
        Ok(())
    }

    fn at(&self, address: SocketAddr) -> Option<&Listener> {
        self.0.iter().find(|listener| listener.address == address)
    }

    /// The sockets, in the order of their lines.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Listener> {
        self.0.iter()
    }

    /// The addresses that are listened to. A port 0 in the settings is here the port that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|listener| local_address(listener).unwrap_or(listener.address)).collect()
    }
}

fn options(s: &MpmSettings, waits_for_data: bool) -> ListenOptions {
    let size = |value: i64| u32::try_from(value).ok().filter(|value| *value > 0);
    ListenOptions {
        backlog: i32::try_from(s.backlog.or(511)).unwrap_or(i32::MAX),
        defer_accept: size(s.defer_accept.or(30)).filter(|_| waits_for_data),
        send_buffer: size(s.send_buffer.or(0)),
        receive_buffer: size(s.receive_buffer.or(0)),
        ..ListenOptions::default()
    }
}

fn failure(address: SocketAddr, error: &ListenError) -> String {
    match error {
        ListenError::Socket(error) => {
            format!("{}: AH00078: alloc_listener: failed to get a socket for {address}", sys::describe(error))
        }
        ListenError::Bind(error) => {
            format!("{}: AH00072: make_sock: could not bind to address {address}", sys::describe(error))
        }
        ListenError::Listen(error) => {
            let text = "unable to listen for connections on address";
            format!("{}: AH00073: make_sock: {text} {address}", sys::describe(error))
        }
    }
}

#[cfg(test)]
mod tests;
