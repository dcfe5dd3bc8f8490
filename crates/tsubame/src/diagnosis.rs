//! What is wrong with a configuration, and what to do about it, in words.

pub(crate) mod advice;
pub(crate) mod context;
pub(crate) mod errors;
pub(crate) mod excerpt;
pub(crate) mod explanation;
pub(crate) mod names;
pub(crate) mod preflight;
pub(crate) mod print;
pub(crate) mod unknown;
pub(crate) mod variables;
