//! The server: connection stages, requests, hooks, sections, virtual hosts, logging.
//!
//! The folders follow the way of a request: a [`transport`] carries bytes, a [`protocol`] makes a [`request`] from
//! them, the [`phases`] find its answer, with the help of [`files`] and the [`config`]uration, and the [`log`] records
//! it; [`explain`] goes the same way for a hypothetical request. The crate never knows which MPM polls its connections
//! ([`runtime`]).

#![forbid(unsafe_code)]

pub mod config;
pub mod core_module;
pub mod exchange;
pub mod explain;
pub mod files;
pub mod log;
pub mod paths;
pub mod phases;
mod protocol;
pub mod request;
mod transport;

pub use config::merge::{Layer, Slots};
pub use config::module::{self, Hook, Module, Order, SharedCache};
pub use config::server::HelperHook;
pub use config::{
    Draft, DraftHost, Failed, Http2, Loaded, ReadTimeout, ReadTimeouts, Server, Sources, VirtualHost, core, identity,
    known_infos, load, read_only,
};
pub use files::links::Links;
pub use files::{machine, static_file, survey};
pub use phases::{Conditions, Response};
pub use protocol::h1::HttpService;
pub use protocol::h2::head::served as served_over_http2;
pub use request::client::Announced;
pub use request::fields::{self, Fields};
pub use request::fields_out::{FieldSink, Unsendable};
pub use request::flow::{Flow, Waiting};
pub use request::hooks::{self as filters, AnswerHook, Encryption, FindVariable, Handler, PhaseHook, Preface, Said};
pub use request::interim::SendingInterim;
pub use request::response::{Answer, Body, BodyStream, FilePart, Keep, Piece};
pub use request::script_use::ScriptUse;
pub use request::subject::{
    TEXT_MAX, evaluate, evaluate_keeping, evaluate_string, evaluate_string_keeping, evaluate_waiting,
};
pub use request::tunnel::{Speaking, Tunnel, TunnelStream};
pub use request::unique::{self, Unique};
pub use request::written::{Writer, written, written_later};
pub use request::{
    BodyError, BodySource, Client, Interim, KeptBody, Kind, Pace, Previous, Request, RequestBody, RequestHead, Sent,
    Stream,
};
pub use request::{authz, dns};
pub use transport::tick::{Slices, pass};
pub use transport::tls::{self, Configured, Session};
pub use transport::{Endpoint, Transport};
