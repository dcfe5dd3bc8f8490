//! How the generator is asked, and what it tells: its own way, and that of the tools whose place it takes.

pub(crate) mod ab;
pub(crate) mod httperf;
pub(crate) mod load;
mod sent;
pub(crate) mod weighttp;
