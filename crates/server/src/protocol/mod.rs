//! Protocols: what makes requests of a transport's bytes, and bytes of their answers.

pub(crate) mod http1;
mod http2;
mod linger;
mod opening;
mod patience;
mod tunnel;
mod unsent;
