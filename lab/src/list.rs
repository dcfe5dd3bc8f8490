//! `tsubame-lab list`: what can be named on the command line.

use crate::error::Result;
use crate::style;
use crate::subject::SUBJECTS;
use crate::table::Table;
use crate::target::TARGETS;
use crate::workload::WORKLOADS;

/// Prints subjects, workloads and targets.
pub(crate) fn print() -> Result<()> {
    println!("{}", style::heading("Subjects (--subjects)"));
    let mut subjects = Table::new(2, &["", ""]);
    for subject in &SUBJECTS {
        subjects.push(vec![subject.id.to_owned(), subject.title.to_owned()]);
    }
    println!("{}\n", subjects.to_text().trim());

    println!("{}", style::heading("Workloads (--workloads)"));
    let mut workloads = Table::new(2, &["", ""]);
    for workload in &WORKLOADS {
        workloads.push(vec![workload.id.to_owned(), workload.title.to_owned()]);
    }
    println!("{}\n", workloads.to_text().trim());

    println!("{}", style::heading("Targets"));
    for target in &TARGETS {
        println!("{}", target.text);
    }
    Ok(())
}
