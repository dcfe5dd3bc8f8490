//! Listening sockets: opened from the `Listen` lines, and kept over restarts while their addresses stay.
//!
//! With `ListenCoresBucketsRatio` there are several sets of them, the buckets; the kernel spreads connections over them
//! (`SO_REUSEPORT`), and a child accepts from one. On a machine with many processors this avoids contention for one
//! lock.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use conf::SettingsMap;
use runtime::AcceptFilters;
use sys::event_fd::EventFd;
use sys::socket::{ListenError, ListenOptions, listen, local_address, reconfigure};

use crate::settings::{Listen, MpmSettings};

/// A socket that accepts connections.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The address it listens on.
    pub address: SocketAddr,
    /// Its index among the sockets with this address.
    bucket: usize,
    fd: Arc<OwnedFd>,
    /// A child that leaves a connection to others raises this event: one of the sleeping children then looks for the
    /// connection.
    wake_event: EventFd,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Listener {
    /// The descriptor for a reactor to watch.
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    /// Wakes one of the sleeping children. The kernel does so once, when a connection comes, and not again.
    pub(crate) fn wake_event(&self) -> &EventFd {
        &self.wake_event
    }
}

/// The sockets of a generation.
#[derive(Clone, Debug, Default)]
pub struct Listeners(Vec<Listener>);

/// The failure to open sockets, as the lines of a message in Apache's words.
#[derive(Debug)]
pub struct OpenError {
    /// One line per socket that could not be opened, then the consequence.
    pub lines: Vec<String>,
    /// The address that somebody else listens to, where that is why.
    pub busy: Option<SocketAddr>,
    /// This user may not listen to an address.
    pub is_denied: bool,
}

impl OpenError {
    /// There is no `Listen` line.
    pub fn none() -> OpenError {
        OpenError::of(Vec::new())
    }

    fn of(failures: Vec<(SocketAddr, ListenError)>) -> OpenError {
        let is_busy = |error: &ListenError| matches!(error, ListenError::Bind(error) | ListenError::Listen(error) if error.kind() == io::ErrorKind::AddrInUse);
        let is_denied = |error: &ListenError| matches!(error, ListenError::Bind(error) if sys::is_denied(error));
        let lines = failures.iter().map(|(address, error)| failure(*address, error));
        OpenError {
            lines: lines.chain(["no listening sockets available, shutting down".to_string()]).collect(),
            busy: failures.iter().find(|(_, error)| is_busy(error)).map(|(address, _)| *address),
            is_denied: failures.iter().any(|(_, error)| is_denied(error)),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))
    }
}

impl Listeners {
    /// Opens the sockets that the settings ask for, at the first start. `passed` are sockets from a service manager
    /// ([`sys::notify::passed_sockets`]): those with a wanted address replace new ones, the others are closed.
    pub fn open(settings: &SettingsMap, passed: Vec<OwnedFd>) -> Result<Listeners, OpenError> {
        let mut there = Listeners::default();
        for fd in passed {
            if let (Ok(address), Ok(wake_event)) = (local_address(&fd), EventFd::new()) {
                let bucket = there.0.iter().filter(|listener| listener.address == address).count();
                there.0.push(Listener { address, bucket, fd: Arc::new(fd), wake_event });
            }
        }
        there.follow(settings)
    }

    /// The sockets for new settings: those of `self` where the address stays, new ones otherwise. If this fails, `self`
    /// stays in use. The number of buckets stays that of the first start: closing a bucket would lose the connections
    /// that wait in it.
    pub fn follow(&self, settings: &SettingsMap) -> Result<Listeners, OpenError> {
        let s = settings.get::<MpmSettings>();
        let filters = settings.get::<AcceptFilters>();
        let buckets = if self.0.is_empty() { buckets(s) } else { self.buckets() };
        let mut opened = Listeners::default();
        for bucket in 0..buckets {
            for line in s.listen.iter() {
                let waits_for_data = filters.waits_for_data(line.protocol());
                let options = ListenOptions { reuse_port: buckets > 1, ..options(s, waits_for_data) };
                self.open_line(line, bucket, options, &mut opened).map_err(OpenError::of)?;
            }
        }
        if opened.0.is_empty() {
            return Err(OpenError::none());
        }
        Ok(opened)
    }

    /// Opens the addresses of a line. "Every address of the machine" is one socket for both IPv6 and IPv4 if there is
    /// IPv6, otherwise one for IPv4.
    fn open_line(
        &self,
        line: &Listen,
        bucket: usize,
        options: ListenOptions,
        opened: &mut Listeners,
    ) -> Result<(), Vec<(SocketAddr, ListenError)>> {
        if !line.addresses.is_empty() {
            for address in &line.addresses {
                // A socket for all of IPv6 also takes IPv4, and would conflict with a second one for all of IPv4.
                let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
                if address.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) && opened.at(any, bucket).is_some() {
                    continue;
                }
                self.open_address(*address, bucket, options, opened).map_err(|error| vec![(*address, error)])?;
            }
            return Ok(());
        }
        let mut failures = Vec::new();
        for any in [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)] {
            let address = SocketAddr::new(any, line.port);
            match self.open_address(address, bucket, options, opened) {
                Ok(()) => return Ok(()),
                // A machine without IPv6.
                Err(ListenError::Socket(_)) if any.is_ipv6() => {}
                Err(ListenError::Bind(error)) if any.is_ipv6() && error.kind() == io::ErrorKind::AddrNotAvailable => {}
                Err(error) => failures.push((address, error)),
            }
        }
        Err(failures)
    }

    fn open_address(
        &self,
        address: SocketAddr,
        bucket: usize,
        options: ListenOptions,
        opened: &mut Listeners,
    ) -> Result<(), ListenError> {
        let listener = match self.at(address, bucket) {
            Some(kept) => {
                reconfigure(&kept.fd, options).map_err(ListenError::Listen)?;
                kept.clone()
            }
            None => {
                let wake_event = EventFd::new().map_err(ListenError::Socket)?;
                Listener { address, bucket, fd: Arc::new(listen(address, options)?), wake_event }
            }
        };
        opened.0.push(listener);
        Ok(())
    }

    fn at(&self, address: SocketAddr, bucket: usize) -> Option<&Listener> {
        self.0.iter().find(|listener| listener.address == address && listener.bucket == bucket)
    }

    /// How many buckets there are, at least 1.
    pub(crate) fn buckets(&self) -> usize {
        self.0.iter().map(|listener| listener.bucket + 1).max().unwrap_or(1)
    }

    /// Keeps the sockets of one bucket, and closes the others.
    pub(crate) fn only(mut self, bucket: usize) -> Listeners {
        self.0.retain(|listener| listener.bucket == bucket);
        self
    }

    /// The sockets, bucket by bucket, in the order of their lines.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Listener> {
        self.0.iter()
    }

    /// The addresses listened on. A port 0 in the settings appears here as the port that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let first = self.0.iter().filter(|listener| listener.bucket == 0);
        first.map(|listener| local_address(listener).unwrap_or(listener.address)).collect()
    }
}

/// Returns one bucket per so many processors, if that is configured.
pub fn buckets(s: &MpmSettings) -> usize {
    let ratio = usize::try_from(s.buckets_ratio.value_or(0)).unwrap_or(0);
    sys::affinity::cpus().checked_div(ratio).unwrap_or(1).max(1)
}

fn options(s: &MpmSettings, waits_for_data: bool) -> ListenOptions {
    let size = |value: i64| u32::try_from(value).ok().filter(|value| *value > 0);
    ListenOptions {
        backlog: i32::try_from(s.backlog()).unwrap_or(i32::MAX),
        defer_accept: size(s.defer_accept()).filter(|_| waits_for_data),
        send_buffer: size(s.send_buffer.value_or(0)),
        receive_buffer: size(s.receive_buffer.value_or(0)),
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
