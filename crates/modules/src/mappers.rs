//! Modules that map URLs to files.

pub mod mod_actions;
pub mod mod_alias;
pub mod mod_dir;
pub mod mod_imagemap;
pub mod mod_negotiation;
pub mod mod_rewrite;
pub mod mod_speling;
pub mod mod_userdir;
pub mod mod_vhost_alias;
