//! The experiments as tables: what is measured, which servers take part, and how each is configured.

pub(crate) mod config;
pub(crate) mod experiment;
pub(crate) mod installation;
pub(crate) mod profile;
pub(crate) mod program;
pub(crate) mod recipe;
pub(crate) mod site;
pub(crate) mod subject;
pub(crate) mod workload;
pub(crate) mod workloads;
