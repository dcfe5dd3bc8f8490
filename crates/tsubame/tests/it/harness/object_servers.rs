//! Servers of objects for one test: private instances of Debian's Redis and memcached.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::harness::site::Site;
use crate::harness::wait::until;

/// The programs, where Debian puts them.
pub const REDIS: &str = "/usr/bin/redis-server";
pub const MEMCACHED: &str = "/usr/bin/memcached";
/// Their ports, at an address that no other test has.
pub const REDIS_PORT: u16 = 6379;
pub const MEMCACHED_PORT: u16 = 11211;

/// A running server of objects.
pub struct ObjectServer(Child);

impl ObjectServer {
    /// Starts a Redis at the address of a site.
    pub fn redis(site: &Site) -> ObjectServer {
        let mut command = Command::new(REDIS);
        command.args(["--save", "", "--port", &REDIS_PORT.to_string(), "--dir", site.path()]);
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
