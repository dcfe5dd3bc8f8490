//! The promises of each experiment.

mod cgi;
mod http;
mod memory;
mod mpm;
mod perl;
mod tls;

use super::promise::Promise;
use crate::experiments::experiment::{self, Experiment};

/// The table of each experiment that has one.
static TABLES: [(&Experiment, &[Promise]); 6] = [
    (&experiment::HTTP, &http::PROMISES),
    (&experiment::MPM, &mpm::PROMISES),
    (&experiment::TLS, &tls::PROMISES),
    (&experiment::CGI, &cgi::PROMISES),
    (&experiment::PERL, &perl::PROMISES),
    (&experiment::MEMORY, &memory::PROMISES),
];

/// The promises about an experiment.
pub(crate) fn of(experiment: &Experiment) -> &'static [Promise] {
    TABLES.iter().find(|(about, _)| about.id == experiment.id).map_or(&[], |(_, promises)| promises)
}
