//! `tsubame-lab compare A B`: two servers, two pages, or two configurations, under the same load in turn.
//!
//! Every round measures A and B, the next one B and A. Ratios are those of the medians; the bounds of the ratios of each
//! round tell whether there is a real difference.

pub(crate) mod calm;
mod configured;
mod page;
mod side;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::frontends::load::LoadOptions;
use crate::machine::descriptors;
use crate::machine::error::{Context as _, Error, Result, write_file};
use crate::machine::host::allowed_cores;
use crate::machine::interrupt;
use crate::machine::launch;
use crate::machine::stats::{Ratio, ratio};
use crate::screen::style;
use crate::screen::text::enumerated;
pub(crate) use calm::{Calm, Cores};
pub(crate) use configured::{Language, Starter};
pub(crate) use side::{FIGURES, Measured, Side, in_turn, measure, table};

/// The options of `compare`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("urls", |arg| arg.help("The two to compare: URLs of servers that run, or configurations to start a server with").num_args(2).value_names(["A", "B"])))]
#[command(mut_arg("csv", |arg| arg.hide(true)))]
pub(crate) struct CompareOptions {
    #[command(flatten)]
    load: LoadOptions,

    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// The server of two configurations: apache2, nginx, or the path of any that has httpd's command line [default: tsubame]
    #[arg(long, value_name = "PROGRAM")]
    server: Option<String>,

    /// What to ask of two configurations, at the first address at which they listen
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,

    /// Write a report for a browser to a file: the verdict in a sentence, then plots, doubts and the command line
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The results in a form for other programs.
#[derive(Serialize)]
struct Results<'r> {
    urls: [&'r str; 2],
    rounds: u32,
    failures: [u64; 2],
    figures: Vec<Figure<'r>>,
    doubts: &'r [String],
}

#[derive(Serialize)]
struct Figure<'r> {
    name: &'r str,
    more_is_better: bool,
    a: &'r [f64],
    b: &'r [f64],
    /// The ratio of A to B, and its bounds in 95 of 100 cases.
    ratio: Option<f64>,
    bounds: Option<[f64; 2]>,
}

/// Runs `tsubame-lab compare`.
pub(crate) fn run(options: &CompareOptions) -> Result<()> {
    let descriptors = descriptors::raise_limit()?;
    let [a, b] = &options.load.urls[..] else { return Err(Error::new("two are needed to compare")) };
    let all = allowed_cores()?;
    let starter = match configured::are_files([a, b])? {
        true => {
            interrupt::catch()?;
            let cores = Cores::divide(&all, options.load.threads());
            let starter = Starter::new(options.server.as_deref(), &cores.server, descriptors)?;
            launch::pin(&cores.generator)?;
            Some(starter)
        }
        false => None,
    };
    let calm = Calm::default();
    calm.grant(PATIENCE);
    let mut sides = [a, b].map(|name| Side::new(name));
    if starter.is_none() {
        for side in &mut sides {
            side.prepare(&options.load, side.name)?;
        }
    }
    in_turn(&mut sides, options.rounds, |round, side| {
        warn_line!("[{}/{}] {}", round + 1, options.rounds, side.name);
        let running = starter.as_ref().map(|starter| starter.start(Path::new(side.name))).transpose()?;
        if let Some((_, address)) = &running {
            side.prepare(&options.load, &format!("http://{address}{}", options.path))?;
        }
        calm.wait(&all)?;
        side.measure()
    })?;
    let mut doubts = doubts_of(&sides, options.rounds);
    if let (disturbed @ 1.., all) = calm.disturbed() {
        doubts.push(format!("other programs used the cores when {disturbed} of {all} measurements began"));
    }
    match options.load.json {
        true => say_line!("{}", json(&sides, options.rounds, &doubts)?),
        false => say!("{}", text(&sides, &doubts)),
    }
    if let Some(path) = &options.html {
        write_file(path, page::written(&sides, options.rounds, &options.load.describe(), &doubts))?;
    }
    match sides.iter().find(|side| side.rounds[1].iter().all(|rate| *rate == 0.0)) {
        Some(side) => Err(Error::new(format!("{} answered no request", side.name))),
        None => Ok(()),
    }
}

/// How long all measurements together may wait until other programs leave the cores alone.
const PATIENCE: Duration = Duration::from_secs(30);

fn doubts_of(sides: &[Side<'_>; 2], rounds: u32) -> Vec<String> {
    let mut all = Vec::new();
    for (name, side) in ["A", "B"].into_iter().zip(sides) {
        all.extend(side.doubts.iter().map(|doubt| format!("{name}: {doubt}")));
        if side.server.is_none() {
            all.push(format!(
                "{name}: the processes of its server cannot be seen, so its CPU time is unknown (root may see them)"
            ));
        }
    }
    if let [Some(a), Some(b)] = sides.each_ref().map(|side| &side.server)
        && a == b
    {
        all.push("A and B are the same server".to_owned());
    }
    if rounds < 3 {
        all.push(format!("only {rounds} round(s): use --rounds 3 or more"));
    }
    all
}

fn text(sides: &[Side<'_>; 2], doubts: &[String]) -> String {
    let [a, b] = sides;
    let mut out = format!("{}  {}\n{}  {}\n\n", style::heading("A"), a.name, style::heading("B"), b.name);
    out.push_str(&table(sides, ["A", "B"]).to_screen());
    out.push_str(&format!("\n{}\n", style::heading(&verdict(sides))));
    for doubt in doubts {
        out.push_str(&format!("  {} {doubt}\n", style::doubtful("!")));
    }
    out
}

/// The verdict in a sentence: by the first figure that is known of both, with the requests that failed.
fn verdict(sides: &[Side<'_>; 2]) -> String {
    let [a, b] = sides;
    let found = (0..FIGURES.len()).find_map(|at| Some((FIGURES[at].0, ratio(&a.rounds[at], &b.rounds[at])?)));
    let told = match found {
        Some((name, found)) => said(name, &found),
        None => "A and B cannot be compared.".to_owned(),
    };
    let failed = ["A", "B"].into_iter().zip(sides).filter(|(_, side)| side.failures > 0);
    let failed: Vec<String> = failed.map(|(name, side)| format!("{} requests of {name}", side.failures)).collect();
    match failed.is_empty() {
        true => told,
        false => format!("{}, while {} failed.", told.trim_end_matches('.'), enumerated(&failed)),
    }
}

/// A ratio in words.
fn said(name: &str, found: &Ratio) -> String {
    let Ratio { middle, bounds } = *found;
    if let Some([low, high]) = bounds
        && low <= 1.0
        && high >= 1.0
    {
        return format!(
            "No difference in {name} that these rounds could show: A / B is between {low:.2} and {high:.2}."
        );
    }
    let (one, other, middle, bounds) = match middle < 1.0 {
        false => ("A", "B", middle, bounds),
        true => {
            let Ratio { middle, bounds } = found.inverse();
            ("B", "A", middle, bounds)
        }
    };
    let certainty = match bounds {
        Some([low, high]) => format!("(between {low:.2} and {high:.2})"),
        None => "in one round, which proves nothing".to_owned(),
    };
    format!("{one} has {middle:.2} times {other}'s {name} {certainty}.")
}

fn json(sides: &[Side<'_>; 2], rounds: u32, doubts: &[String]) -> Result<String> {
    let [a, b] = sides;
    let figures = FIGURES.into_iter().enumerate().map(|(at, (name, more_is_better, _))| {
        let (one, other) = (&a.rounds[at], &b.rounds[at]);
        let found = ratio(one, other);
        Figure {
            name,
            more_is_better,
            a: one,
            b: other,
            ratio: found.map(|found| found.middle),
            bounds: found.and_then(|found| found.bounds),
        }
    });
    let results = Results {
        urls: [a.name, b.name],
        rounds,
        failures: [a.failures, b.failures],
        figures: figures.collect(),
        doubts,
    };
    serde_json::to_string(&results).context(|| "write the results as JSON".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_reported_in_words() {
        let told = |middle, bounds| said("answers per second", &Ratio { middle, bounds });
        assert_eq!(told(2.0, Some([1.9, 2.1])), "A has 2.00 times B's answers per second (between 1.90 and 2.10).");
        assert!(told(1.0, Some([0.9, 1.1])).starts_with("No difference in answers per second"));
        assert_eq!(told(0.5, Some([0.4, 0.8])), "B has 2.00 times A's answers per second (between 1.25 and 2.50).");
        assert!(told(2.0, None).ends_with("which proves nothing."));
    }
}
