//! `tsubame-lab list`: the names for the command line.

use crate::experiments::experiment::EXPERIMENTS;
use crate::experiments::subject::SUBJECTS;
use crate::machine::error::Result;
use crate::report::targets;
use crate::screen::style;
use crate::screen::table::Table;

/// Prints subjects, workloads and targets.
pub(crate) fn print() -> Result<()> {
    say_line!("{}", style::heading("Subjects (--subjects)"));
    let mut subjects = Table::new(2, &["", ""]);
    for subject in &SUBJECTS {
        subjects.push(vec![subject.id.to_owned(), subject.title.to_owned()]);
    }
    say_line!("{}\n", subjects.to_text().trim());

    for experiment in EXPERIMENTS {
        say_line!("{}", style::heading(&format!("Workloads of `run {}` (--workloads)", experiment.id)));
        let mut workloads = Table::new(2, &["", ""]);
        for workload in experiment.workloads {
            workloads.push(vec![workload.id.to_owned(), workload.title.to_owned()]);
        }
        say_line!("{}\n", workloads.to_text().trim());

        say_line!("{}", style::heading(&format!("Targets of `run {}`", experiment.id)));
        for target in targets::of(experiment) {
            say_line!("{}", target.text);
        }
        say_line!("");
    }
    Ok(())
}
