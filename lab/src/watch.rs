//! Watches a machine and a server that are at work: `stat` and `top`.

pub(crate) mod stat;
pub(crate) mod top;
