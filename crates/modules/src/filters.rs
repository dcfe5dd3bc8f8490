//! Modules that change a request or a response on its way.

mod compression;
pub mod mod_brotli;
pub mod mod_buffer;
pub mod mod_charset_lite;
pub mod mod_data;
pub mod mod_deflate;
pub mod mod_dialup;
pub mod mod_ext_filter;
pub mod mod_filter;
pub mod mod_include;
pub mod mod_proxy_html;
pub mod mod_ratelimit;
pub mod mod_reflector;
pub mod mod_reqtimeout;
pub mod mod_request;
pub mod mod_sed;
pub mod mod_substitute;
pub mod mod_xml2enc;
pub mod mod_zstd;
mod translation;
