//! Sessions: data that a client sends back with each request.

pub(crate) mod data;
mod key;
pub mod mod_session;
pub mod mod_session_cookie;
pub mod mod_session_crypto;
pub mod mod_session_dbd;
pub mod mod_session_socache;
