//! Drives `wrk`, the generator of as many requests as a server can answer.
//!
//! wrk prints for people; a script of ours makes it add one line with exact numbers, and only that line is read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, write_file};
use crate::generator::{self, Counts, Errors, TIMEOUT_SECONDS};
use crate::launch;

/// The Debian package is called like the program.
pub(crate) const NAME: &str = "wrk";

/// How the line of the script begins.
const MARK: &str = "tsubame-lab: ";

/// The script: it defines only `done`, so requests are as static and as fast as without it.
const SCRIPT: &str = r#"
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("tsubame-lab: duration_us=%d requests=%d bytes=%d p50_us=%d p99_us=%d max_us=%d "
    .. "connect=%d read=%d write=%d timeout=%d status=%d\n",
    summary.duration, summary.requests, summary.bytes,
    latency:percentile(50), latency:percentile(99), latency.max,
    errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
"#;

/// A request, repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot<'a> {
    /// Where to: a thread for each address, because an address has not enough ports for 20 000 connections.
    pub(crate) addresses: &'a [SocketAddr],
    /// For which document.
    pub(crate) name: &'a str,
    /// Over how many connections.
    pub(crate) connections: u32,
    /// With a connection for each request.
    pub(crate) close: bool,
    /// For how long.
    pub(crate) seconds: u32,
}

/// wrk, found and ready to be started on its core.
#[derive(Debug)]
pub(crate) struct Wrk {
    program: PathBuf,
    script: PathBuf,
    core: usize,
}

impl Wrk {
    /// Prepares wrk; its script will be in `scratch`.
    pub(crate) fn new(program: PathBuf, scratch: &Path, core: usize) -> Self {
        Self { program, script: scratch.join("wrk.lua"), core }
    }

    /// Fires and waits for the counts; see [`generator::run`] for `watch`.
    pub(crate) fn fire(&self, shot: Shot<'_>, watch: &mut dyn FnMut() -> Result<()>) -> Result<Counts> {
        write_file(&self.script, script(shot.addresses))?;
        let mut command = launch::command(&[], &[self.core], &self.program)?;
        command.args(["--threads", &shot.addresses.len().to_string(), "--connections", &shot.connections.to_string()]);
        command.args(["--duration", &format!("{}s", shot.seconds)]);
        command.args(["--timeout", &format!("{TIMEOUT_SECONDS}s")]);
        command.arg("--script").arg(&self.script);
        if shot.close {
            command.args(["--header", "Connection: close"]);
        }
        command.arg(format!("http://{}/{}", shot.addresses[0], shot.name));
        let output = generator::run(command, shot.seconds, watch)?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            Error::new(format!("wrk did not report ({}): {}", output.status, complaint.trim()))
        })
    }
}

/// The script, with an address for each thread when there is a choice.
fn script(addresses: &[SocketAddr]) -> String {
    if addresses.len() == 1 {
        return SCRIPT.to_owned();
    }
    let list: String = addresses.iter().map(|each| format!("{{\"{}\", \"{}\"}}, ", each.ip(), each.port())).collect();
    format!(
        "local addresses = {{ {list}}}\nlocal thread_number = 0\nfunction setup(thread)\n  \
         thread_number = thread_number + 1\n  \
         thread.addr = wrk.lookup(addresses[thread_number][1], addresses[thread_number][2])[1]\nend\n{SCRIPT}"
    )
}

fn parse(output: &str) -> Option<Counts> {
    let line = output.lines().find_map(|line| line.strip_prefix(MARK))?;
    let number = |name: &str| -> Option<u64> {
        line.split(' ')
            .filter_map(|field| field.split_once('='))
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.parse().ok())
    };
    Some(Counts {
        seconds: number("duration_us")? as f64 / 1e6,
        requests: number("requests")?,
        bytes: number("bytes")?,
        p50_us: number("p50_us")?,
        p99_us: number("p99_us")?,
        max_us: number("max_us")?,
        errors: Errors {
            connect: number("connect")?,
            read: number("read")?,
            write: number("write")?,
            timeout: number("timeout")?,
            status: number("status")?,
        },
        late_p99_us: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
Running 1s test @ http://127.88.0.1:8080/small.txt
  1 threads and 100 connections
Requests/sec:  50000.00
tsubame-lab: duration_us=1050000 requests=52500 bytes=12600000 p50_us=1900 p99_us=2500 max_us=9000 \
connect=1 read=2 write=3 timeout=4 status=5
";

    #[test]
    fn the_line_of_the_script_is_read() {
        let counts = parse(OUTPUT).unwrap();
        assert_eq!((counts.seconds, counts.requests, counts.bytes), (1.05, 52_500, 12_600_000));
        assert_eq!((counts.p50_us, counts.p99_us, counts.max_us), (1900, 2500, 9000));
        assert_eq!(counts.errors.total(), 15);
    }

    #[test]
    fn output_without_the_line_or_with_half_of_it_is_no_result() {
        assert_eq!(parse("unable to connect to 127.88.0.1:8080 Connection refused\n"), None);
        assert_eq!(parse("tsubame-lab: duration_us=1050000 requests=5\n"), None);
    }

    #[test]
    fn each_thread_has_an_address_of_its_own() {
        let addresses = [1, 2].map(|host| SocketAddr::from(([127, 88, 0, host], 8080)));
        assert_eq!(script(&addresses[..1]), SCRIPT);
        let text = script(&addresses);
        assert!(text.contains(r#"{ {"127.88.0.1", "8080"}, {"127.88.0.2", "8080"}, }"#), "{text}");
        assert!(text.ends_with(SCRIPT), "{text}");
    }

    #[test]
    fn the_script_writes_what_is_read() {
        assert!(SCRIPT.contains(MARK));
        for field in ["duration_us", "p50_us", "p99_us", "max_us", "connect", "timeout", "status"] {
            assert!(SCRIPT.contains(&format!("{field}=%d")), "{field}");
        }
    }
}
