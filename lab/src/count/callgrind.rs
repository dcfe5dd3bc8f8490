//! Callgrind: instructions and allocations of one request, as the difference between connections with few and with many.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::count::requests::CountedRequest;
use crate::count::traced::{Setup, Traced};
use crate::experiments::subject::Subject;
use crate::machine::error::{Context as _, Error, Result, read_text};

/// Requests before the counted ones: caches fill, and what happens once has happened.
const WARM_UP: u32 = 40;

/// How many requests each of two connections has. What the longer one costs more is the cost of requests alone.
const SHORT: u32 = 5;
const LONG: u32 = 25;

/// How often both are counted. The middle one counts: a timer's work falls into some, and some requests come so fast that they share
/// a look at the file.
const REPEATS: u32 = 9;

/// How long the results may take to be written.
const DUMP_LIMIT: Duration = Duration::from_secs(30);

/// What one request costs in the server's own process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Work {
    pub(super) instructions: f64,
    /// Calls of `malloc` and `calloc`.
    pub(super) allocations: f64,
    pub(super) reallocations: f64,
}

/// Counts one request at a server.
pub(super) fn count(setup: &Setup<'_>, subject: &Subject, program: &Path, request: &CountedRequest) -> Result<Work> {
    let tool = ["--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=callgrind.out"];
    let server = Traced::start(setup, &tool.map(str::to_owned), subject, program, request)?;
    let tell = |words: &[&str]| -> Result<()> {
        let vgdb = setup.valgrind.with_file_name("vgdb");
        let mut command = setup.command(&vgdb);
        // The server is blocked in a system call: there is no point in waiting for the next one.
        command.arg(format!("--pid={}", server.pid())).arg("--max-invoke-ms=1").args(words);
        let output = command.output().context(|| format!("start {}", vgdb.display()))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::new(format!("vgdb: {}", String::from_utf8_lossy(&output.stderr).trim()))),
        }
    };
    server.ask(WARM_UP, Duration::ZERO)?;
    tell(&["instrumentation", "on"])?;
    server.ask(WARM_UP, Duration::ZERO)?;
    let mut dumps = 0;
    let mut usual = |requests| -> Result<Totals> {
        let mut all = Vec::new();
        for _ in 0..REPEATS {
            tell(&["zero"])?;
            server.ask(requests, Duration::ZERO)?;
            tell(&["dump"])?;
            dumps += 1;
            all.push(await_dump(&server.directory.join(format!("callgrind.out.{dumps}")))?);
        }
        all.sort_by_key(|totals| totals.instructions);
        Ok(all.swap_remove(all.len() / 2))
    };
    let (short, long) = (usual(SHORT)?, usual(LONG)?);
    server.end()?;
    Ok(long.beyond(&short, LONG - SHORT))
}

/// Waits until the results are complete.
fn await_dump(path: &Path) -> Result<Totals> {
    let deadline = Instant::now() + DUMP_LIMIT;
    loop {
        if path.is_file()
            && let Some(totals) = Totals::parse(&read_text(path)?)
        {
            return Ok(totals);
        }
        if Instant::now() > deadline {
            return Err(Error::new(format!("callgrind has not written {}", path.display())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a file of callgrind says of the whole program.
#[derive(Debug, Default)]
struct Totals {
    instructions: u64,
    /// How often each function was called.
    calls: HashMap<String, u64>,
}

impl Totals {
    /// Reads the format of callgrind's manual, section "Callgrind Format Specification". `None`: the end is missing.
    fn parse(text: &str) -> Option<Self> {
        let mut totals = Self::default();
        let mut names: HashMap<&str, &str> = HashMap::new();
        let mut events: Vec<&str> = Vec::new();
        let mut called = "";
        let mut whole = None;
        for line in text.lines() {
            if let Some(words) = line.strip_prefix("events:") {
                events = words.split_whitespace().collect();
            } else if let Some(numbers) = line.strip_prefix("totals:") {
                whole = Some(
                    numbers.split_whitespace().filter_map(|number| number.parse::<u64>().ok()).collect::<Vec<_>>(),
                );
            } else if let Some(function) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
                // A name has a number where it occurs first, and later the number stands for it.
                let (number, name) = function.split_once(' ').unwrap_or((function, ""));
                if !name.is_empty() {
                    names.insert(number, name);
                }
                if line.starts_with('c') {
                    called = names.get(number).copied().unwrap_or(number);
                }
            } else if let Some(counts) = line.strip_prefix("calls=") {
                let count: u64 = counts.split(' ').next()?.parse().ok()?;
                *totals.calls.entry(called.to_owned()).or_default() += count;
            }
        }
        let whole = whole?;
        let of = |event: &str| events.iter().position(|name| *name == event).and_then(|at| whole.get(at)).copied();
        totals.instructions = of("Ir")?;
        Some(totals)
    }

    fn calls_of(&self, names: &[&str]) -> u64 {
        self.calls
            .iter()
            .filter(|(name, _)| names.contains(&name.split('@').next().unwrap_or(name)))
            .map(|(_, count)| count)
            .sum()
    }

    /// What each of so many more requests has cost.
    fn beyond(&self, short: &Totals, requests: u32) -> Work {
        let each = |count: &dyn Fn(&Totals) -> u64| (count(self) as f64 - count(short) as f64) / f64::from(requests);
        Work {
            instructions: each(&|totals| totals.instructions),
            allocations: each(&|totals| totals.calls_of(&["malloc", "calloc", "posix_memalign", "aligned_alloc"])),
            reallocations: each(&|totals| totals.calls_of(&["realloc"])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
version: 1
events: Ir Dr
fn=(1) serve
16 400 0
cfn=(2) malloc
calls=20 5
16 800
cfn=(3) realloc@@GLIBC_2.2.5
calls=10 7
16 100
fn=(4) other
cfn=(2)
calls=10 5
3 10
totals: 5000 50
";

    #[test]
    fn the_cost_of_more_requests_is_divided_by_their_number() {
        let short = Totals { instructions: 1000, calls: HashMap::from([("malloc".to_owned(), 10)]) };
        let work = Totals::parse(FILE).unwrap().beyond(&short, 10);
        assert_eq!(work, Work { instructions: 400.0, allocations: 2.0, reallocations: 1.0 });
        assert!(Totals::parse("events: Ir\nfn=(1) a\n").is_none(), "it is still being written");
    }
}
