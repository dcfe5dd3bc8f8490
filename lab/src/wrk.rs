//! Drives `wrk`, the load generator for now.
//!
//! wrk prints for people; a script of ours makes it add one line with exact numbers, and only that line is read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Context as _, Error, Result, write_file};
use crate::launch;

/// The Debian package is called like the program.
pub(crate) const NAME: &str = "wrk";

/// A response that takes longer counts as an error; wrk reserves memory in proportion to this.
const TIMEOUT_SECONDS: u32 = 5;

/// wrk stops by itself; if it has not after this much longer, it hangs.
const OVERTIME: Duration = Duration::from_secs(20);

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
    /// Where to.
    pub(crate) address: SocketAddr,
    /// For which document.
    pub(crate) name: &'a str,
    /// Over how many connections.
    pub(crate) connections: u32,
    /// With a connection for each request.
    pub(crate) close: bool,
    /// For how long.
    pub(crate) seconds: u32,
}

/// What wrk counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// The time in which the requests were completed.
    pub(crate) seconds: f64,
    /// Completed requests.
    pub(crate) requests: u64,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// Median time from request to response.
    pub(crate) p50_us: u64,
    /// The time that one of a hundred exceeds.
    pub(crate) p99_us: u64,
    /// The longest.
    pub(crate) max_us: u64,
    /// What failed.
    pub(crate) errors: Errors,
}

/// Failures, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Errors {
    /// Connections refused or not established.
    pub(crate) connect: u64,
    /// Connections broken while reading.
    pub(crate) read: u64,
    /// Connections broken while writing.
    pub(crate) write: u64,
    /// Responses that took too long.
    pub(crate) timeout: u64,
    /// Responses with a status above 399.
    pub(crate) status: u64,
}

impl Errors {
    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.connect + self.read + self.write + self.timeout + self.status
    }
}

/// wrk, found and ready to be started on its core.
#[derive(Debug)]
pub(crate) struct Wrk {
    program: PathBuf,
    script: PathBuf,
    core: usize,
}

impl Wrk {
    /// Prepares wrk; the script goes into `scratch`.
    pub(crate) fn new(program: PathBuf, scratch: &Path, core: usize) -> Result<Self> {
        let script = scratch.join("wrk.lua");
        write_file(&script, SCRIPT)?;
        Ok(Self { program, script, core })
    }

    /// Fires and waits for the counts.
    pub(crate) fn fire(&self, shot: Shot<'_>) -> Result<Counts> {
        let mut command = launch::command(None, self.core, &self.program)?;
        command.args(["--threads", "1", "--connections", &shot.connections.to_string()]);
        command.args(["--duration", &format!("{}s", shot.seconds)]);
        command.args(["--timeout", &format!("{TIMEOUT_SECONDS}s")]);
        command.arg("--script").arg(&self.script);
        if shot.close {
            command.args(["--header", "Connection: close"]);
        }
        command.arg(format!("http://{}/{}", shot.address, shot.name));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());

        let mut child = command.spawn().context(|| format!("start {}", self.program.display()))?;
        wait(&mut child, Duration::from_secs(shot.seconds.into()) + OVERTIME)?;
        let output = child.wait_with_output().context(|| "read what wrk says".to_owned())?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            Error::new(format!("wrk did not report ({}): {}", output.status, complaint.trim()))
        })
    }
}

/// Waits for the end with a limit; what wrk writes is far smaller than a pipe.
fn wait(child: &mut Child, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    while child.try_wait().context(|| "wait for wrk".to_owned())?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::new("wrk did not end in time and was killed"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
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
    fn the_script_writes_what_is_read() {
        assert!(SCRIPT.contains(MARK));
        for field in ["duration_us", "p50_us", "p99_us", "max_us", "connect", "timeout", "status"] {
            assert!(SCRIPT.contains(&format!("{field}=%d")), "{field}");
        }
    }
}
