//! The balancer: HAProxy, as docs/fleet.md recommends it, with and without the signals of the nodes.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::network;
use super::node::{AGENT_PORT, PORT};
use crate::machine::balance::Balance;
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::host::allowed_cores;
use crate::machine::{interrupt, launch, programs};
use crate::measure::server::last_words;

/// Where clients find it, in the front's namespace.
pub(super) const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// How long it may take to accept connections.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(10);

/// The program, or how to get it.
pub(super) fn find() -> Result<PathBuf> {
    programs::find(&["haproxy"]).ok_or_else(|| {
        Error::new("haproxy is not here, which stands in front of the nodes").advise("apt-get install haproxy")
    })
}

/// The configuration for nodes with these weights. Those settings of docs/fleet.md that are about failures are always there.
pub(super) fn configuration(weights: &[u32], balance: Balance, has_agent: bool) -> String {
    let server = |(index, weight): (usize, &u32)| {
        let ip = network::address(index);
        let agent = match has_agent {
            true => format!(" agent-check agent-addr {ip} agent-port {AGENT_PORT} agent-inter 1s"),
            false => String::new(),
        };
        format!("    server node{} {ip}:{PORT} weight {weight} check{agent}\n", index + 1)
    };
    let servers: String = weights.iter().enumerate().map(server).collect();
    format!(
        "\
global
    nbthread 1
    maxconn 2000
defaults
    mode http
    timeout client 75s
    timeout connect 1s
    timeout server 75s
    timeout check 1s
frontend clients
    bind {ADDRESS}
    default_backend nodes
backend nodes
    balance {}
    option redispatch 1
    retries 3
    retry-on conn-failure empty-response response-timeout 500 502 503
    http-request disable-l7-retry unless {{ method GET HEAD OPTIONS }}
    http-request set-timeout server 3s unless {{ path_beg /cgi-bin/ }}
    option srvtcpka
    srvtcpka-idle 2s
    srvtcpka-intvl 1s
    srvtcpka-cnt 3
    option httpchk GET /alive
    default-server inter 1s fall 2 rise 2 tcp-ut 5s
{servers}",
        balance.word()
    )
}

/// A running HAProxy; dropping this ends it, with all connections of its clients.
#[derive(Debug)]
pub(super) struct HaProxy {
    process: Child,
}

impl HaProxy {
    /// Starts it in the calling thread's network, and waits until it accepts connections.
    pub(super) fn start(program: &Path, directory: &Path, configuration: &str) -> Result<Self> {
        let file = directory.join("haproxy.cfg");
        write_file(&file, configuration)?;
        let output_path = directory.join("output.log");
        let output = File::create(&output_path).context(|| format!("create {}", output_path.display()))?;
        let errors = output.try_clone().context(|| "share a log file".to_owned())?;
        let mut command = launch::command_to_kill(&allowed_cores()?, program)?;
        command.arg("-db").arg("-f").arg(&file).stdin(Stdio::null()).stdout(output).stderr(errors);
        let process = command.process_group(0).spawn().context(|| format!("start {}", program.display()))?;
        let mut started = Self { process };
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect_timeout(&ADDRESS, START_LIMIT).is_err() {
            interrupt::check()?;
            if Instant::now() > deadline || !matches!(started.process.try_wait(), Ok(None)) {
                return Err(Error::new(format!("HAProxy does not start{}", last_words(directory))));
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(started)
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_what_may_be_repeated_is_repeated() {
        let text = configuration(&[100, 100, 33], Balance::Roundrobin, true);
        assert!(text.contains("disable-l7-retry unless { method GET HEAD OPTIONS }"), "{text}");
        assert_eq!(text.matches("agent-check").count(), 3);
        assert!(
            text.contains("server node3 198.18.3.2:80 weight 33 check agent-check agent-addr 198.18.3.2"),
            "{text}"
        );
        assert!(!configuration(&[100; 3], Balance::Leastconn, false).contains("agent"));
    }

    #[test]
    fn haproxy_understands_it() {
        let Ok(program) = find() else {
            assert!(std::env::var_os("CI").is_none(), "apt-get install haproxy");
            return;
        };
        let scratch = crate::machine::scratch::Scratch::for_test("haproxy");
        let file = scratch.path().join("haproxy.cfg");
        for has_agent in [false, true] {
            write_file(&file, configuration(&[100; 3], Balance::Leastconn, has_agent)).unwrap();
            let output = Command::new(&program).arg("-c").arg("-f").arg(&file).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
