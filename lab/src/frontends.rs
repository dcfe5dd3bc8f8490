//! The generator's command lines and outputs: its own, and those of the tools it replaces.

pub(crate) mod ab;
pub(crate) mod httperf;
pub(crate) mod load;
mod request_options;
pub(crate) mod weighttp;
