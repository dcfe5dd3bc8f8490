//! The targets of each experiment.

mod cgi;
mod http;
mod memory;
mod mpm;
mod perl;
mod proxies;
mod tls;

use super::target::Target;
use crate::experiments::experiment::{self, Experiment};

/// The table of each experiment that has one.
static TABLES: [(&Experiment, &[Target]); 7] = [
    (&experiment::HTTP, &http::TARGETS),
    (&experiment::MPM, &mpm::TARGETS),
    (&experiment::TLS, &tls::TARGETS),
    (&experiment::PROXIES, &proxies::TARGETS),
    (&experiment::CGI, &cgi::TARGETS),
    (&experiment::PERL, &perl::TARGETS),
    (&experiment::MEMORY, &memory::TARGETS),
];

/// The targets about an experiment.
pub(crate) fn of(experiment: &Experiment) -> &'static [Target] {
    TABLES.iter().find(|(about, _)| about.id == experiment.id).map_or(&[], |(_, targets)| targets)
}
