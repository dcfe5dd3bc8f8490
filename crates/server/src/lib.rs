//! The server: connection stages, requests, hooks, sections, virtual hosts, logging.
//!
//! HTTP is written here once. The crate never knows which MPM polls its connections ([`seam`]).

#![forbid(unsafe_code)]

mod access;
pub mod authz;
mod buffers;
mod config;
mod connection;
pub mod core;
mod error_document;
pub mod explain;
pub mod fields;
pub mod filters;
pub mod host;
mod htaccess;
pub mod identity;
mod input;
pub mod log;
mod lookup;
mod merge;
pub mod module;
mod output;
mod pace;
pub mod paths;
mod phase;
mod process;
mod request;
mod response;
mod script_use;
mod section;
pub mod shared_cache;
pub mod static_file;
mod stream;
mod subject;
mod timer;
mod trace;
mod translate;
mod turn;
pub mod unique;
mod vhost;
mod walk;
mod wire;

pub use config::{
    Draft, DraftHost, Failed, Loaded, ReadTimeouts, Server, Sources, VirtualHost, known_infos, load, read_only,
};
pub use connection::HttpService;
pub use fields::Fields;
pub use input::{BodyError, ReadTimeout, RequestBody};
pub use merge::Layer;
pub use module::{Flow, Handler, Hook, Module, Order};
pub use request::{Client, Kind, Previous, Request, Sent};
pub use response::{Answer, Body, BodyStream, FilePart, Keep, Piece};
pub use script_use::ScriptUse;
pub use subject::{evaluate, evaluate_keeping, evaluate_string};
pub use timer::Timer;
pub use turn::pass;
pub use unique::Unique;
