//! A request's way through the phases, up to its response (Apache manual, "Request Processing in the Apache
//! HTTP Server 2.x").

pub(crate) mod access;
pub mod delivery;
pub(crate) mod error_document;
pub mod filters;
pub(crate) mod process;
mod redirect;
pub(crate) mod run_hooks;
pub(crate) mod subject;
pub(crate) mod subrequest;
mod trace_method;
pub(crate) mod translate;
pub(crate) mod walk;

pub use self::delivery::Conditions;
pub use self::process::{Response, hooks};
pub(crate) use self::process::{answer_prepared, process, refuse};
