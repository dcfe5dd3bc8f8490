//! Modules for information about requests and files beyond their names.

pub mod mod_cern_meta;
pub mod mod_env;
pub mod mod_expires;
pub mod mod_headers;
pub mod mod_ident;
pub mod mod_mime;
pub mod mod_mime_magic;
pub mod mod_remoteip;
pub mod mod_setenvif;
pub mod mod_trace_context;
pub mod mod_unique_id;
pub mod mod_usertrack;
mod periods;
