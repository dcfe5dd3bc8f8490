//! One of two sides of a comparison: how it is measured, and its results.

use super::calm::Clocks;
use crate::frontends::load::{LoadOptions, doubts};
use crate::load::{self, Live, Plan};
use crate::machine::error::Result;
use crate::machine::interrupt;
use crate::machine::listener::Listener;
use crate::machine::stats::{median, ratio};
use crate::screen::table::Table;

/// The figures to compare: name, whether more is better, and the number of decimals.
pub(crate) const FIGURES: [(&str, bool, usize); 5] = [
    ("answers per CPU-second", true, 0),
    ("answers per second", true, 0),
    ("p50 ms", false, 3),
    ("p99 ms", false, 3),
    ("memory MB", false, 1),
];

/// The result of one load on a server.
#[derive(Debug)]
pub(crate) struct Measured {
    /// In the order of [`FIGURES`]; `None` if unknown.
    pub(crate) figures: [Option<f64>; FIGURES.len()],
    pub(crate) responses: u64,
    /// Requests that failed, and responses with the wrong status or body.
    pub(crate) failures: u64,
    /// Clients that waited in vain for more than half of the time.
    pub(crate) starved: u64,
    pub(crate) doubts: Vec<String>,
}

/// Runs a plan, and calls `watch` repeatedly meanwhile.
pub(crate) fn measure(plan: &Plan, server: Option<&Listener>, watch: impl FnMut(&Live)) -> Result<Measured> {
    let spent = || server.map(Listener::cpu_time);
    let (before, clocks) = (spent(), Clocks::read()?);
    let record = load::run(plan, &Live::default(), watch)?;
    let used = spent().zip(before).map(|(after, before)| after.saturating_sub(before));
    let disturbed = Clocks::read()?.doubts_since(&clocks, used);
    let used = used.map(|used| used.as_secs_f64());
    let memory = server.and_then(Listener::pss_kib).map(|kib| kib as f64 / 1024.0);
    Ok(Measured {
        figures: [
            used.filter(|used| *used > 0.0).map(|used| record.responses as f64 / used),
            Some(record.rate()),
            Some(record.total.milliseconds(0.5)),
            Some(record.total.milliseconds(0.99)),
            memory,
        ],
        responses: record.responses,
        failures: record.failures.total() + (record.responses - record.good),
        starved: record.starved,
        doubts: doubts(plan, &record).iter().map(ToString::to_string).chain(disturbed).collect(),
    })
}

/// One of the two.
#[derive(Debug)]
pub(crate) struct Side<'o> {
    /// Its URL, or the name of its configuration.
    pub(crate) name: &'o str,
    plan: Option<Plan>,
    pub(crate) server: Option<Listener>,
    /// The results of each round, in the order of [`FIGURES`]; empty if unknown.
    pub(crate) rounds: [Vec<f64>; FIGURES.len()],
    pub(crate) failures: u64,
    pub(crate) starved: u64,
    pub(crate) doubts: Vec<String>,
}

impl<'o> Side<'o> {
    pub(crate) fn new(name: &'o str) -> Self {
        Self { name, plan: None, server: None, rounds: Default::default(), failures: 0, starved: 0, doubts: Vec::new() }
    }

    /// Finds its server, and sends the warm-up requests.
    pub(crate) fn prepare(&mut self, load: &LoadOptions, url: &str) -> Result<()> {
        let plan = load.plan(&[url.to_owned()])?;
        self.server = plan.servers.first().and_then(|address| Listener::at(*address));
        load.warm_up(&plan)?;
        self.plan = Some(plan);
        Ok(())
    }

    /// Measures one round.
    pub(crate) fn measure(&mut self) -> Result<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        let measured = measure(plan, self.server.as_ref(), |_| {})?;
        for (rounds, figure) in self.rounds.iter_mut().zip(measured.figures) {
            rounds.extend(figure);
        }
        self.failures += measured.failures;
        self.starved += measured.starved;
        // A doubt about every round is reported once, with the figures of the first.
        let kind = |doubt: &str| doubt.replace(|char: char| char.is_ascii_digit() || char == '.', "");
        for doubt in measured.doubts {
            if !self.doubts.iter().any(|known| kind(known) == kind(&doubt)) {
                self.doubts.push(doubt);
            }
        }
        Ok(())
    }
}

/// Calls `take` with the number of each round and each side, A B, then B A: a disturbance of the machine lasts longer
/// than one measurement, so both sides get their share of it.
///
/// # Errors
/// The error of `take`, or the user interrupts.
pub(crate) fn in_turn<'o>(
    sides: &mut [Side<'o>; 2],
    rounds: u32,
    mut take: impl FnMut(u32, &mut Side<'o>) -> Result<()>,
) -> Result<()> {
    for round in 0..rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for at in order {
            take(round, &mut sides[at])?;
            interrupt::check()?;
        }
    }
    Ok(())
}

/// Medians of both, and their ratios with the bounds that the rounds leave.
pub(crate) fn table([a, b]: &[Side<'_>; 2], names: [&str; 2]) -> Table {
    let mut table = Table::new(1, &["median", names[0], names[1], &format!("{} / {}", names[0], names[1]), "95 %"]);
    for (at, (name, more_is_better, digits)) in FIGURES.into_iter().enumerate() {
        let Some((one, other)) = median(&a.rounds[at]).zip(median(&b.rounds[at])) else { continue };
        let found = ratio(&a.rounds[at], &b.rounds[at]);
        let better = if more_is_better { "more is better" } else { "less is better" };
        table.push(vec![
            format!("{name} ({better})"),
            format!("{one:.digits$}"),
            format!("{other:.digits$}"),
            found.map_or("–".to_owned(), |found| format!("{:.2}", found.middle)),
            found
                .and_then(|found| found.bounds)
                .map_or("–".to_owned(), |[low, high]| format!("{low:.2} – {high:.2}")),
        ]);
    }
    table.push(vec![
        "failed (none is best)".into(),
        a.failures.to_string(),
        b.failures.to_string(),
        String::new(),
        String::new(),
    ]);
    table
}
