//! Modules that generate content.

mod arguments;
mod backends;
mod daemons;
pub(crate) mod exec;
mod fastcgi_auth;
mod fastcgi_classes;
mod fastcgi_options;
pub mod mod_admission;
pub mod mod_asis;
pub mod mod_autoindex;
pub mod mod_cgi;
pub mod mod_cgid;
pub mod mod_fastcgi;
pub mod mod_fcgid;
pub mod mod_info;
pub mod mod_metrics;
pub mod mod_passenger;
pub mod mod_perl;
pub mod mod_php;
pub mod mod_speedycgi;
pub mod mod_status;
pub mod mod_suexec;
pub mod mod_wsgi;
mod obstacle;
mod perl;
mod script;
mod shebang;
