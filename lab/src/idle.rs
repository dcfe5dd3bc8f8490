//! Connections that do nothing: opened one after the other, one request each, then only held.

use std::net::SocketAddr;

use crate::client::Connection;
use crate::error::{Error, Result};

/// Descriptors that the laboratory needs besides the connections.
const DESCRIPTORS_IN_RESERVE: u64 = 64;

/// Many idle connections; dropping them closes them.
#[derive(Debug)]
pub(crate) struct Crowd {
    connections: Vec<Connection>,
    failed: u64,
}

impl Crowd {
    /// Opens `count` connections, each of which requests `name` once. A server that refuses some is measured with
    /// the others, but the refusals are counted.
    pub(crate) fn gather(address: SocketAddr, name: &str, count: u32, descriptors: u64) -> Result<Self> {
        if descriptors < u64::from(count) + DESCRIPTORS_IN_RESERVE {
            return Err(Error::new(format!(
                "only {descriptors} open files are allowed, {count} connections need more"
            ))
            .advise("ulimit -n 20000 (as root, or after raising the hard limit)"));
        }
        let mut connections = Vec::with_capacity(count as usize);
        let mut failed = 0;
        for _ in 0..count {
            match visit(address, name) {
                Ok(connection) => connections.push(connection),
                // One after the other would wait for the time limit each; the rest would fare alike.
                Err(_) if failed == 10 => {
                    failed = u64::from(count) - connections.len() as u64;
                    break;
                }
                Err(_) => failed += 1,
            }
        }
        Ok(Self { connections, failed })
    }

    /// Connections that never came about or that the server has closed since.
    pub(crate) fn lost(&self) -> u64 {
        let closed = self.connections.iter().filter(|connection| !connection.is_open()).count();
        self.failed + closed as u64
    }
}

fn visit(address: SocketAddr, name: &str) -> Result<Connection> {
    let mut connection = Connection::open(address)?;
    match connection.get(name, false)?.status {
        200 => Ok(connection),
        status => Err(Error::new(format!("status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_an_error_that_helps() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let error = Crowd::gather(address, "x", 10_000, 1024).unwrap_err().to_string();
        assert!(error.contains("ulimit -n"), "{error}");
    }
}
