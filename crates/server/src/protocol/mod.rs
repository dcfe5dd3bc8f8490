//! Protocols: what makes requests of a transport's bytes, and bytes of their answers.

pub(crate) mod body;
pub(crate) mod http1;
pub(crate) mod output;
pub(crate) mod pace;
