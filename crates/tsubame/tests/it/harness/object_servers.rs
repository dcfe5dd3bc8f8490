//! Servers of objects for one test: private instances of Debian's Redis and memcached.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use sys::process::Pid;
use sys::signal::Signal;

use crate::harness::site::Site;
use crate::harness::wait::until;

/// The programs, where Debian puts them.
pub const REDIS: &str = "/usr/bin/redis-server";
pub const MEMCACHED: &str = "/usr/bin/memcached";
/// Their ports, at an address that no other test has.
pub const REDIS_PORT: u16 = 6379;
pub const REDIS_TLS_PORT: u16 = 6380;
pub const MEMCACHED_PORT: u16 = 11211;

/// A running server of objects.
pub struct ObjectServer(Child);

impl ObjectServer {
    /// Starts a Redis at the address of a site.
    pub fn redis(site: &Site) -> ObjectServer {
        ObjectServer::redis_with(site, &[])
    }

    /// The same, with more settings.
    pub fn redis_with(site: &Site, settings: &[&str]) -> ObjectServer {
        let mut command = Command::new(REDIS);
        command.args(["--save", "", "--port", &REDIS_PORT.to_string(), "--dir", site.path()]).args(settings);
        command.args(["--bind", &site.address().ip().to_string()]);
        ObjectServer::run(command, SocketAddr::new(site.address().ip(), REDIS_PORT))
    }

    /// Starts a memcached at the address of a site.
    pub fn memcached(site: &Site) -> ObjectServer {
        let mut command = Command::new(MEMCACHED);
        command.args(["-u", "nobody", "-U", "0", "-p", &MEMCACHED_PORT.to_string()]);
        command.args(["-l", &site.address().ip().to_string()]);
        ObjectServer::run(command, SocketAddr::new(site.address().ip(), MEMCACHED_PORT))
    }

    /// Stops it from answering, or lets it go on.
    pub fn freeze(&self, stops: bool) {
        let signal = if stops { Signal::STOP } else { Signal::CONT };
        Pid::new(self.0.id() as i32).expect("a process").kill(signal).expect("a signal");
    }

    fn run(mut command: Command, address: SocketAddr) -> ObjectServer {
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = ObjectServer(process.expect("a server of objects"));
        until("a server of objects", || TcpStream::connect(address).ok());
        server
    }
}

impl Drop for ObjectServer {
    /// Kills it, as nothing else would be as sudden.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
