//! The server: connection stages, requests, hooks, sections, virtual hosts, logging.
//!
//! The folders follow the way of a request: a [`transport`] carries bytes, a [`protocol`] makes a [`request`] from
//! them, the [`phases`] find its response, with the help of [`files`] and the [`settings`], and the
//! [`log`] records it; [`explain`] goes the same way for a hypothetical request. The crate never knows which MPM polls
//! its connections ([`runtime`]).

#![forbid(unsafe_code)]

pub mod core_module;
pub mod exchange;
pub mod explain;
pub mod files;
pub mod load;
pub mod log;
pub mod message;
pub mod module;
pub mod paths;
pub mod phases;
mod protocol;
pub mod request;
pub mod settings;
pub mod site;
pub(crate) mod trace;
mod transport;

pub use crate::exchange::errand::begin_errand;
pub use crate::load::{Failed, Loaded, Sources, known_infos, load, read_only};
pub use crate::message::body::{BodyError, BodySource, KeptBody, RequestBody};
pub use crate::message::fields;
pub use crate::message::fields::{Fields, TextPart, Value};
pub use crate::message::head::RequestHead;
pub use crate::message::interim::Interim;
pub use crate::message::interim::SendingInterim;
pub use crate::message::response::{Body, BodyStream, FilePart, HandlerResult, Keep, Piece, Splice, Unsent};
pub use crate::message::response_head::RateLimit;
pub use crate::message::sent::Sent;
pub use crate::message::tested_field::TestedField;
pub use crate::message::tunnel::{SpeakTunnel, Tunnel, TunnelFuture, TunnelStream};
pub use crate::message::written::{Writer, written, written_later};
pub use crate::module::authz;
pub use crate::module::hook::{Hook, Module, Order, has_dump, is_unlisted};
pub use crate::module::objects::SharedCache;
pub use crate::phases::delivery::Conditions;
pub use crate::phases::process::Response;
pub use crate::phases::subject::{
    evaluate, evaluate_keeping, evaluate_string, evaluate_string_keeping, evaluate_waiting,
};
pub use crate::protocol::service::HttpService;
pub use crate::request::Account;
pub use crate::request::Client;
pub use crate::request::StreamId;
pub use crate::request::bounds::TEXT_MAX;
pub use crate::request::dns;
pub use crate::request::{NOCANON, NOENCODE, Previous, Request, RequestKind, TO_BACKEND};
pub use crate::settings::draft::{Draft, DraftHost};
pub use crate::settings::http2::Http2;
pub use crate::settings::merge::{Layer, Slots};
pub use crate::settings::read_timeout::{ReadTimeout, ReadTimeouts};
pub use crate::settings::{core, identity};
pub use crate::site::links::Links;
pub use crate::site::server::HelperHook;
pub use crate::site::server::Server;
pub use crate::site::start_error::StartError;
pub use crate::site::vhost::VirtualHost;
pub use crate::transport::endpoint::{Endpoint, Transport};
pub use crate::transport::tls;
pub use crate::transport::tls::handshake::Configured;
pub use crate::transport::tls::session::{Named, Session};
pub use files::{machine, static_file, survey};
pub use protocol::h2::head::served as served_over_http2;
pub use request::child_span::{ChildSpan, RecordedTrace, Running, Work, new_id};
pub use request::client::Announced;
pub use request::fields_out::{FieldSink, Unsendable};
pub use request::flow::{Flow, Waiting};
pub use request::hooks::{
    Caching, Encryption, Filtering, FindVariable, Handler, InputBody, InputChain, InputFilter, InputLink, IsWanted,
    MapUndecoded, Moment, OutputFilter, PhaseHook, Preface, PrefaceOutcome, QuickHandler, Rank, Reception,
    ResponseChain, ResponseHook, ResponseLink, WriteVariable,
};
pub use request::phase::Phase;
pub use request::recurring::{Asked, Recurring};
pub use request::script_use::ScriptUse;
pub use request::stored::Stored;
pub use request::unique::{self, Unique};
pub use request::upstream_use::UpstreamUse;
