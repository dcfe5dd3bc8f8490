//! `tsubame-lab simulate`: a fleet of nodes behind a balancer, before you buy it.
//!
//! [`fleet`] is the simulation: [`arrivals`] come to the [`balancer`], which gives them to a [`node`]. The model has no clock
//! and no files, and the same seed has the same result everywhere.

mod arrivals;
mod balancer;
mod fleet;
mod gate;
mod node;
mod options;
mod outcome;
mod processors;
mod random;
mod request;
mod table;
mod tally;
#[cfg(test)]
mod theory;
mod turns;
mod weight;

use std::time::Instant;

use crate::machine::error::{Context as _, Result};
use fleet::Scenario;
pub(crate) use options::SimulateOptions;
use outcome::Outcome;

/// Runs `tsubame-lab simulate`.
pub(crate) fn run(options: &SimulateOptions) -> Result<()> {
    let scenarios = options.scenarios()?;
    let start = Instant::now();
    let outcomes = at_once(&scenarios);
    if options.json {
        let text = serde_json::to_string(&outcomes);
        say_line!("{}", text.context(|| "write the figures as JSON".to_owned())?);
        return Ok(());
    }
    say!("{}", table::text(&outcomes));
    let events = outcomes.iter().map(|outcome| outcome.events).sum::<u64>();
    say_line!("\n{}", table::speed(events, start.elapsed()));
    Ok(())
}

/// The outcome of each scenario, each in a thread of its own.
fn at_once(scenarios: &[Scenario]) -> Vec<Outcome> {
    std::thread::scope(|scope| {
        let outcome = |scenario| move || Outcome::of(scenario, &fleet::simulate(scenario));
        let threads: Vec<_> = scenarios.iter().map(|scenario| scope.spawn(outcome(scenario))).collect();
        // A thread that panicked has said why; there is nothing to show then.
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
