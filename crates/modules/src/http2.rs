//! HTTP/2.

pub mod mod_http2;
