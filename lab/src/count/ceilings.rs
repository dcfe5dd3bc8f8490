//! A file of ceilings: what a request may cost at most, so that a change that makes each request dearer says so.

use std::path::{Path, PathBuf};

use crate::count::Cost;
use crate::machine::error::{Context as _, Error, Result, read_text};

/// A file of ceilings.
#[derive(Debug)]
pub(super) struct Ceilings {
    path: PathBuf,
    rows: Vec<Ceiling>,
}

/// A line of the file: `REQUEST SERVER INSTRUCTIONS ALLOCATIONS SYSTEM-CALLS CLOCK-READINGS`. Calls of `realloc` count as
/// allocations.
#[derive(Debug, PartialEq)]
pub(super) struct Ceiling {
    pub(super) request: String,
    pub(super) subject: String,
    instructions: f64,
    allocations: f64,
    system_calls: f64,
    clock_readings: f64,
}

/// What happens to each connection is no whole allocation of one request.
const ROUNDING: f64 = 0.5;

impl Ceilings {
    /// Reads a file. Empty lines and those that begin with `#` say nothing.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let row = |(number, line): (usize, &str)| {
            Ceiling::parse(line).context(|| format!("line {} of {}", number + 1, path.display()))
        };
        Ok(Self { path: path.to_owned(), rows: lines.map(row).collect::<Result<_>>()? })
    }

    /// The lines.
    pub(super) fn rows(&self) -> &[Ceiling] {
        &self.rows
    }

    /// Fails if one of the costs is above its ceiling, and names all of these.
    pub(super) fn check(&self, costs: &[Cost]) -> Result<()> {
        let passed: Vec<String> = costs
            .iter()
            .filter_map(|cost| {
                let row = self.rows.iter().find(|row| row.request == cost.request && row.subject == cost.subject)?;
                Some(row.passed_by(cost))
            })
            .flatten()
            .collect();
        match passed.is_empty() {
            true => Ok(()),
            false => Err(Error::new(passed.join("\n")).advise(format!(
                "less work in each request; if the change is worth its price, the new number in {}, and its reason in the commit",
                self.path.display()
            ))),
        }
    }
}

impl Ceiling {
    fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [request, subject, instructions, allocations, system_calls, clock_readings] = words[..] else {
            return Err(Error::new(format!("{} words instead of 6", words.len())));
        };
        let number = |word: &str| word.parse::<f64>().context(|| format!("read the number {word:?}"));
        Ok(Self {
            request: request.to_owned(),
            subject: subject.to_owned(),
            instructions: number(instructions)?,
            allocations: number(allocations)?,
            system_calls: number(system_calls)?,
            clock_readings: number(clock_readings)?,
        })
    }

    /// A sentence for each number that is too large.
    fn passed_by(&self, cost: &Cost) -> Vec<String> {
        let allocations = cost.work.allocations + cost.work.reallocations;
        [
            ("instructions", cost.work.instructions, self.instructions),
            ("allocations", allocations, self.allocations + ROUNDING),
            ("system calls", cost.real_calls().count() as f64, self.system_calls),
            ("clock readings", cost.clock_readings() as f64, self.clock_readings),
        ]
        .into_iter()
        .filter(|(_, is, most)| is > most)
        .map(|(what, is, most)| {
            format!("{} at {}: {is:.1} {what}, and {most:.1} are allowed", self.request, self.subject)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::callgrind::Work;

    #[test]
    fn a_cost_above_its_ceiling_is_named() {
        let ceiling = Ceiling::parse("small tsubame-percore 1000 10 2 1").unwrap();
        let cost = |instructions, calls: &[&str]| Cost {
            request: "small",
            subject: "tsubame-percore",
            work: Work { instructions, allocations: 9.0, reallocations: 1.2 },
            system_calls: calls.iter().map(|name| (*name).to_owned()).collect(),
            copied: None,
            footprint: None,
        };
        assert!(ceiling.passed_by(&cost(1000.0, &["recvfrom", "clock_gettime", "sendto"])).is_empty());
        let wanted = [
            "small at tsubame-percore: 1001.0 instructions, and 1000.0 are allowed",
            "small at tsubame-percore: 3.0 system calls, and 2.0 are allowed",
        ];
        assert_eq!(ceiling.passed_by(&cost(1001.0, &["recvfrom", "sendto", "epoll_wait"])), wanted);
        assert!(Ceiling::parse("small tsubame-percore 1000").is_err());
    }
}
