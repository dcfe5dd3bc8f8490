//! Watches a machine and a server that are at work: `stat` and `top`.

mod exit;
mod fleet;
mod form;
mod observer;
pub(crate) mod stat;
pub(crate) mod top;
