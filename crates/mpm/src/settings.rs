//! The settings of this crate's directives. All of them belong to the main server.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use conf::{Listed, Setting};

use crate::defaults;

conf::settings! {
    /// Directives of the multi-processing modules. Numbers are as written; [`plan`](crate::plan) makes them fit.
    pub struct MpmSettings {
        /// `Listen`, in order.
        pub listen: Listed<Listen>,
        /// `ListenBacklog`, connections.
        pub backlog: Setting<i64> = defaults::BACKLOG,
        /// `ListenCoresBucketsRatio`, processors per listening socket.
        pub buckets_ratio: Setting<i64>,
        /// `SendBufferSize`, bytes; 0 is the system's default.
        pub send_buffer: Setting<i64>,
        /// `ReceiveBufferSize`, bytes; 0 is the system's default.
        pub receive_buffer: Setting<i64>,
        /// `ListenTCPDeferAccept`, seconds.
        pub defer_accept: Setting<i64> = defaults::DEFER_ACCEPT,
        /// `StartServers`, children.
        pub start_servers: Setting<i64>,
        /// `MinSpareServers`, children.
        pub min_spare_servers: Setting<i64>,
        /// `MaxSpareServers`, children.
        pub max_spare_servers: Setting<i64>,
        /// `MinSpareThreads`, workers.
        pub min_spare_threads: Setting<i64>,
        /// `MaxSpareThreads`, workers.
        pub max_spare_threads: Setting<i64>,
        /// `MaxRequestWorkers`, workers of all children.
        pub max_request_workers: Setting<i64>,
        /// `ServerLimit`, children.
        pub server_limit: Setting<i64>,
        /// `ThreadLimit`, workers of a child.
        pub thread_limit: Setting<i64>,
        /// `ThreadsPerChild`, workers of a child.
        pub threads_per_child: Setting<i64>,
        /// `AsyncRequestWorkerFactor`, connections per idle worker.
        pub async_factor: Setting<f64> = defaults::ASYNC_FACTOR.into(),
        /// `GracefulShutdownTimeout`, seconds; 0 or less is for ever.
        pub graceful_shutdown_timeout: Setting<i64> = defaults::GRACEFUL_SHUTDOWN_TIMEOUT,
        /// `MaxConnectionsPerChild`, connections; 0 or less is without end.
        pub max_connections_per_child: Setting<i64>,
        /// `MaxRequestsServedPerChild`, requests; 0 is without end.
        pub max_requests_served: Setting<u64>,
        /// `MaxMemoryGrowthPerChild`, bytes; 0 is without end.
        pub max_memory_growth: Setting<u64>,
        /// `PidFile`, absolute.
        pub pid_file: Setting<String>,
        /// `ControlSocket`, absolute; `None` for none.
        pub control_socket: Setting<Option<String>>,
        /// `GracefulShutdownDelay`.
        pub graceful_shutdown_delay: Setting<Duration> = Duration::ZERO,
        /// `StallTimeout`; 0 turns the check off.
        pub stall_timeout: Setting<Duration> = defaults::STALL_TIMEOUT,
        /// `ScoreBoardFile`, absolute. Our scoreboard has no file; the dumps show the name.
        pub scoreboard_file: Setting<String>,
        /// `CoreDumpDirectory`, absolute.
        pub core_dump_directory: Setting<String>,
        /// `MaxMemFree`, KiB.
        pub max_mem_free: Setting<i64>,
        /// `ThreadStackSize`, bytes.
        pub thread_stack_size: Setting<i64>,
    }
}

/// The addresses and the port of a `Listen` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The addresses; a host name may have several. Empty: every address of the machine.
    pub addresses: Vec<SocketAddr>,
    /// The port of all addresses; 0 lets the system choose.
    pub port: u16,
    /// The protocol configured for it, in lower case.
    pub protocol: Option<String>,
}

impl Listen {
    /// The protocol spoken there: from the line, or by the port's usual meaning.
    pub fn protocol(&self) -> &str {
        match (&self.protocol, self.port) {
            (Some(protocol), _) => protocol,
            (None, 443) => "https",
            (None, _) => "http",
        }
    }

    /// Whether a connection to that address arrives here.
    pub fn hears(&self, to: SocketAddr) -> bool {
        let ip = to.ip().to_canonical();
        let takes = |own: &SocketAddr| match own.ip() {
            // A socket for all of IPv6 also takes IPv4.
            IpAddr::V6(any) if any.is_unspecified() => true,
            IpAddr::V4(any) if any.is_unspecified() => ip.is_ipv4(),
            own => own.to_canonical() == ip,
        };
        self.port == to.port() && (self.addresses.is_empty() || self.addresses.iter().any(takes))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addresses[..] {
            [] => write!(f, "*:{}", self.port),
            all => f.write_str(&all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")),
        }
    }
}

/// Parses host and port; an error is Apache's message. The host has no brackets and includes the scope (`%eth0`);
/// `None` stands for every address.
pub(crate) fn host_and_port(text: &str) -> Result<(Option<&str>, u16), String> {
    let invalid = || "Invalid address or port".to_string();
    let digits = text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (before, digits) = text.split_at(text.len() - digits);
    let (host, port) = match before.strip_suffix(':') {
        _ if before.is_empty() => (None, digits),
        Some(host) if !digits.is_empty() => (Some(host), digits),
        _ => (Some(text), ""),
    };
    let host = match host {
        Some("") => return Err(invalid()),
        Some(bracketed) if bracketed.starts_with('[') => {
            let inner = bracketed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or_else(invalid)?;
            let address = inner.split_once('%').map_or(inner, |(address, _)| address);
            address.parse::<std::net::Ipv6Addr>().map_err(|_| invalid())?;
            Some(inner)
        }
        Some("*") => None,
        host => host,
    };
    match port {
        "" => Err("Port must be specified".to_string()),
        port => match port.parse() {
            Ok(port) if port != 0 => Ok((host, port)),
            _ => Err(invalid()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_the_oracle_reads_them() {
        let (port, bad) = ("Port must be specified", "Invalid address or port");
        let cases = [
            ("80", Ok((None, 80))),
            ("*:80", Ok((None, 80))),
            ("1.2.3:80", Ok((Some("1.2.3"), 80))),
            ("[::1]:80", Ok((Some("::1"), 80))),
            ("::1:80", Ok((Some("::1"), 80))),
            ("[fe80::1%lo]:80", Ok((Some("fe80::1%lo"), 80))),
            ("localhost:8080", Ok((Some("localhost"), 8080))),
            ("foo", Err(port)),
            ("127.55.0.1", Err(port)),
            ("127.55.0.1:", Err(port)),
            ("8080x", Err(port)),
            ("-1", Err(port)),
            ("0", Err(bad)),
            ("70000", Err(bad)),
            ("65536", Err(bad)),
            ("[::1", Err(bad)),
            ("[::]:80%eth", Err(bad)),
            ("[x]:80", Err(bad)),
            (":80", Err(bad)),
        ];
        for (text, wanted) in cases {
            assert_eq!(host_and_port(text), wanted.map_err(str::to_string), "{text}");
        }
    }
}
