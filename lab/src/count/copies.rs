//! DHAT: the bytes that one request makes the server copy from one place in memory to another, as the difference between a server
//! that has had few requests and one that has had many.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::count::requests::CountedRequest;
use crate::count::traced::{Setup, Traced};
use crate::experiments::subject::Subject;
use crate::machine::error::{Error, Result, read_text};

/// How many requests each of two servers has, in two connections. The first comes when all caches are warm.
const SHORT: u32 = 50;
const LONG: u32 = 100;

/// Where DHAT writes what it has found.
const LOG: &str = "dhat.log";

/// What one request makes the server copy by `memcpy` and its kin. What the compiler copies in its own way is not seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Copies {
    pub(super) bytes: f64,
    pub(super) copies: f64,
}

/// Counts the copies of one request at a server.
pub(super) fn count(setup: &Setup<'_>, subject: &Subject, program: &Path, request: &CountedRequest) -> Result<Copies> {
    let (short, long) =
        (whole(setup, subject, program, request, SHORT)?, whole(setup, subject, program, request, LONG)?);
    let each = |short: u64, long: u64| (long as f64 - short as f64) / f64::from(LONG - SHORT);
    Ok(Copies { bytes: each(short.0, long.0), copies: each(short.1, long.1) })
}

/// The bytes and the copies of a server's whole life.
fn whole(
    setup: &Setup<'_>,
    subject: &Subject,
    program: &Path,
    request: &CountedRequest,
    requests: u32,
) -> Result<(u64, u64)> {
    let tool = ["--tool=dhat", "--mode=copy", "--dhat-out-file=/dev/null", &format!("--log-file={LOG}")];
    let server = Traced::start(setup, &tool.map(str::to_owned), subject, program, request)?;
    server.ask(SHORT, Duration::ZERO)?;
    server.ask(requests, Duration::ZERO)?;
    let directory = server.directory.clone();
    server.stop()?;
    let log = read_text(directory.join(LOG))?;
    total(&log).ok_or_else(|| Error::new(format!("{} has not said what it copied", subject.title)))
}

/// Reads `==PID== Total:     10,730 bytes in 742 blocks`.
fn total(log: &str) -> Option<(u64, u64)> {
    let (_, words) = log.split_once("Total:")?;
    let mut numbers =
        words.lines().next()?.split_whitespace().map(|word| word.replace(',', "")).filter_map(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        assert_eq!(total("==1== \n==1== Total:     1,010,730 bytes in 742 blocks\n==1== \n"), Some((1_010_730, 742)));
        assert_eq!(total("==1== Command: none\n"), None);
    }
}
