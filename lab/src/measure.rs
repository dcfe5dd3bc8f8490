//! Measures one server under one workload, and keeps the figures.

pub(crate) mod bench;
pub(crate) mod floor;
pub(crate) mod generator;
pub(crate) mod idle_connections;
pub(crate) mod monitor;
pub(crate) mod origins;
pub(crate) mod reading;
pub(crate) mod results;
pub(crate) mod script_clients;
pub(crate) mod server;
