//! The command line: `check`, `explain`, `ctl`, dumps, completions.

pub mod bundles;
pub mod check;
pub mod check_findings;
pub mod check_mistakes;
pub mod check_same_as_apache;
pub mod command_line;
pub mod completions;
pub mod ctl;
pub mod ctl_faults;
pub mod ctl_limits;
pub mod demonstration;
pub mod dumps;
pub mod explain;
pub mod explained_answers;
pub mod explained_lines;
pub mod explained_verdicts;
pub mod first_hour;
pub mod preflight;
