//! `tsubame-lab stat`: shows the machine's activity, every second, in the columns of dstat.
//!
//! It is made for machines that run out of memory: its own memory is locked, and the files it reads stay open. If it is
//! late nevertheless, it reports how many lines are missing.

mod form;
pub(crate) mod group;
mod options;
mod panel;
pub(crate) mod source;
mod view;

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use jiff::Zoned;
use rustix::mm::{MlockAllFlags, mlockall};

use crate::machine::error::{Context as _, Result};
use group::Derivation;
pub(crate) use options::StatOptions;
use panel::{Panel, Value};
use source::{Source, Texts};
use view::View;

/// The sources of the columns.
const WATCHED: [Source; 9] = [
    Source::Stat,
    Source::Memory,
    Source::Disks,
    Source::Networks,
    Source::Load,
    Source::Paging,
    Source::Swaps,
    Source::Pressure,
    Source::Uptime,
];

/// Runs `tsubame-lab stat`.
pub(crate) fn run(options: &StatOptions) -> Result<()> {
    let mut texts = Texts::open(&WATCHED)?;
    texts.read()?;
    if options.is_default() {
        warn_line!("You did not select any stats, using -cdngy by default.");
    }
    let panels = options.panels(&texts)?;
    let view = View::new(options, &panels);
    let mut file = options.output.as_ref().map(|path| {
        let mut file = File::create(path).context(|| format!("create {}", path.display()))?;
        file.write_all(view.csv_header().as_bytes()).context(|| format!("write to {}", path.display()))?;
        Ok(file)
    });
    let mut file = file.take().transpose()?;
    if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        warn_line!(
            "tsubame-lab: memory cannot be locked ({error}), so lines may be late while the machine swaps; root may lock it"
        );
    }

    let delay = Duration::from_secs(options.delay);
    let mut before = Reading::since_boot(&texts, &panels);
    let mut due = Instant::now();
    for line in 0.. {
        if options.count.is_some_and(|count| line >= count) {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        let missed = missed(now.saturating_duration_since(due), delay);
        due += delay * (missed + 1);
        texts.read()?;
        let reading = Reading::take(&texts, &panels, now);
        let values = reading.since(&before, &panels);
        if !say(&view.text(line, &values, missed)) {
            break;
        }
        if let (Some(file), Some(path)) = (&mut file, &options.output) {
            file.write_all(view::csv(&values).as_bytes()).context(|| format!("write to {}", path.display()))?;
        }
        before = reading;
    }
    Ok(())
}

/// Prints a line. Returns whether anybody still reads.
fn say(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// How many further lines should already have been printed, if one is late by this much.
fn missed(late: Duration, delay: Duration) -> u32 {
    (late.as_secs_f64() / delay.as_secs_f64()) as u32
}

/// All figures of a moment.
#[derive(Debug)]
struct Reading {
    at: Option<Instant>,
    uptime: f64,
    figures: Vec<Vec<f64>>,
}

impl Reading {
    fn take(texts: &Texts, panels: &[Panel], at: Instant) -> Self {
        let figures = panels.iter().map(|panel| (panel.group.read)(texts, &panel.part)).collect();
        let uptime = texts
            .lines(Source::Uptime)
            .next()
            .map_or(0.0, |words| source::numbers(&words).first().copied().unwrap_or(0.0));
        Self { at: Some(at), uptime, figures }
    }

    /// The state at boot: the first line covers all the time since.
    fn since_boot(texts: &Texts, panels: &[Panel]) -> Self {
        let now = Self::take(texts, panels, Instant::now());
        Self { at: None, uptime: 0.0, figures: now.figures.iter().map(|figures| vec![0.0; figures.len()]).collect() }
    }

    /// The values to display.
    fn since(&self, before: &Reading, panels: &[Panel]) -> Vec<Vec<Value>> {
        let seconds = match self.at.zip(before.at) {
            Some((now, then)) => (now - then).as_secs_f64(),
            None => self.uptime,
        };
        let now = Zoned::now();
        let of = |(panel, (new, old)): (&Panel, (&Vec<f64>, &Vec<f64>))| {
            let growth = |at: usize| new.get(at).zip(old.get(at)).map_or(0.0, |(new, old)| (new - old).max(0.0));
            let all: f64 = (0..new.len()).map(growth).sum();
            let value = |(at, column): (usize, &group::Column)| match column.2 {
                Derivation::Now => Value::Number(new.get(at).copied().unwrap_or(0.0)),
                Derivation::PerSecond => Value::Number(growth(at) / seconds.max(f64::MIN_POSITIVE)),
                Derivation::Share => Value::Number(if all > 0.0 { 100.0 * growth(at) / all } else { 0.0 }),
                Derivation::Date => Value::Text(now.strftime("%d-%m %H:%M:%S").to_string()),
                Derivation::Epoch => Value::Text(now.timestamp().as_second().to_string()),
            };
            panel.group.columns.iter().enumerate().map(value).collect()
        };
        panels.iter().zip(self.figures.iter().zip(&before.figures)).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::group::{Group, Id, Layout, TOTAL};
    use super::*;

    #[test]
    fn late_lines_tell_how_many_are_missing() {
        let seconds = Duration::from_secs;
        assert_eq!(missed(Duration::from_millis(300), seconds(1)), 0);
        assert_eq!(missed(Duration::from_millis(4300), seconds(1)), 4);
        assert_eq!(missed(Duration::from_millis(4300), seconds(2)), 2);
    }

    #[test]
    fn figures_become_shares_and_rates() {
        let panel = |id| Panel { group: Group::of(id, Layout::New).unwrap(), part: TOTAL.to_owned() };
        let panels = [panel(Id::Cpu), panel(Id::System), panel(Id::Load)];
        let start = Instant::now();
        let reading =
            |at, figures: [&[f64]; 3]| Reading { at, uptime: 100.0, figures: figures.map(<[f64]>::to_vec).into() };
        let before = reading(Some(start), [&[0.0, 0.0, 0.0, 0.0, 0.0], &[10.0, 20.0], &[1.0, 1.0, 1.0]]);
        let later = Some(start + Duration::from_secs(2));
        let after = reading(later, [&[30.0, 10.0, 150.0, 10.0, 0.0], &[110.0, 20.0], &[2.0, 3.0, 4.0]]);
        let numbers = |values: Vec<Vec<Value>>| -> Vec<Vec<f64>> {
            let number = |value: Value| match value {
                Value::Number(number) => number,
                Value::Text(text) => panic!("{text}"),
            };
            values.into_iter().map(|values| values.into_iter().map(number).collect()).collect()
        };
        assert_eq!(
            numbers(after.since(&before, &panels)),
            [vec![15.0, 5.0, 75.0, 5.0, 0.0], vec![50.0, 0.0], vec![2.0, 3.0, 4.0]]
        );
        let boot = Reading { at: None, uptime: 0.0, figures: vec![vec![0.0; 5], vec![0.0; 2], vec![0.0; 3]] };
        assert_eq!(numbers(after.since(&boot, &panels))[1], [1.1, 0.2]);
    }
}
