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

use std::fmt;

use crate::docs;
use crate::tree::Tree;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) file: String,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) what: String,
    /// How to fix it.
    pub(crate) advice: String,
}

/// The severity of a finding. Errors make the run fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
}

impl Finding {
    pub(crate) fn error(file: &str, line: usize, what: impl Into<String>, advice: impl Into<String>) -> Finding {
        let (what, advice) = (what.into(), advice.into());
        Finding { severity: Severity::Error, file: file.into(), line, what, advice }
    }

    pub(crate) fn warning(file: &str, line: usize, what: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::error(file, line, what, advice) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:{}: {severity}: {}\n    {}", self.file, self.line, self.what, self.advice)
    }
}

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
