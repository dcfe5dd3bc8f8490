//! Whoever generates load is a program of its own, on its own core: started, watched, waited for with a limit.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Context as _, Error, Result};

/// A generator stops by itself; if it has not after this much longer than it should take, it hangs.
const OVERTIME: Duration = Duration::from_secs(20);

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(10);

/// An answer that takes longer counts as an error; wrk reserves memory in proportion to this.
pub(crate) const TIMEOUT_SECONDS: u32 = 5;

/// What a generator counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// The time in which the requests were completed, in seconds.
    pub(crate) seconds: f64,
    /// Completed requests.
    pub(crate) requests: u64,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// Median time from request to response, in microseconds.
    pub(crate) p50_us: u64,
    /// The time that one of a hundred exceeds, in microseconds.
    pub(crate) p99_us: u64,
    /// The longest, in microseconds.
    pub(crate) max_us: u64,
    /// What failed.
    pub(crate) errors: Errors,
    /// The delay that one of a hundred requests exceeds when it is sent, through the generator's fault, in
    /// microseconds; 0 where there is no schedule.
    pub(crate) late_p99_us: u64,
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
    /// Responses with a status above 399; at a fixed rate, with any but 200.
    pub(crate) status: u64,
}

impl Errors {
    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.connect + self.read + self.write + self.timeout + self.status
    }
}

/// Runs `command`, which should take `seconds`, and calls `watch` all the while; when that fails, it is over.
/// What a generator writes is far smaller than a pipe.
pub(crate) fn run(mut command: Command, seconds: u32, watch: &mut dyn FnMut() -> Result<()>) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context(|| "start the load generator".to_owned())?;
    let deadline = Instant::now() + Duration::from_secs(seconds.into()) + OVERTIME;
    while child.try_wait().context(|| "wait for the load generator".to_owned())?.is_none() {
        let watched = match Instant::now() > deadline {
            true => Err(Error::new("the load generator did not end in time and was killed")),
            false => watch(),
        };
        if let Err(error) = watched {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        std::thread::sleep(INTERVAL);
    }
    child.wait_with_output().context(|| "read what the load generator says".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_that_is_not_wanted_any_more_is_ended() {
        let began = Instant::now();
        let mut command = Command::new("sleep");
        command.arg("60");
        let error = run(command, 60, &mut || Err(Error::new("enough"))).unwrap_err();
        assert_eq!(error.to_string(), "enough");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
