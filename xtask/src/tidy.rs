//! Checks the house rules of CONTRIBUTING.md.
//!
//! A check is a function from the files to findings. Errors end with status 1; warnings are worth a look.

mod budgets;
mod dependencies;
mod language;
pub(crate) mod links;
mod log_numbers;
mod places;
mod shape;
mod structure;
mod unsafety;

use crate::docs;
use crate::finding::{Finding, Severity};
use crate::tree::Tree;

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    shape::check,
    structure::check,
    dependencies::check,
    unsafety::check,
    budgets::check,
    language::check,
    log_numbers::check,
    places::check,
    links::check,
    docs::check,
];

/// Runs every check on the working copy.
pub(crate) fn run() -> Result<(), String> {
    let tree = Tree::read()?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    let (errors, warnings): (Vec<Finding>, Vec<Finding>) =
        findings.into_iter().partition(|finding| finding.severity == Severity::Error);
    for finding in warnings.iter().chain(&errors) {
        println!("{finding}");
    }
    let count = format!("{} files, {} errors, {} warnings", tree.files.len(), errors.len(), warnings.len());
    if errors.is_empty() {
        println!("tidy: {count}");
        Ok(())
    } else {
        Err(format!("tidy: {count}"))
    }
}
