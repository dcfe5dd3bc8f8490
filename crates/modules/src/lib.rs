//! One file per Apache module, in Apache's own categories.
//!
//! A module is a `static MODULE`: its info (identifier, source file, table of directives) and its hooks, which is all
//! there is to know about it. The list of modules is the one array below; nothing registers itself.

#![forbid(unsafe_code)]

pub mod aaa;
mod abbreviated_size;
pub mod arch;
pub mod cache;
mod cache_counts;
pub mod cluster;
mod complaints;
pub mod database;
pub mod dav;
mod derived;
pub mod filters;
pub mod generators;
pub mod http2;
mod http_client;
pub mod idle;
pub mod ldap;
pub mod loggers;
pub mod manual;
pub mod mappers;
pub mod md;
pub mod metadata;
pub mod proxy;
mod run_directory;
pub mod session;
mod shared_cache;
mod slots;
pub mod ssl;
#[cfg(test)]
mod testing;
mod trusted;

use server::Module;

/// All modules except the MPMs. Hooks of equal rank run in this order: Apache's static modules first. Among the others
/// it matters where a comment says so; `-M` shows it for the rest.
pub static MODULES: &[&Module] = &[
    &server::core_module::CORE,
    &server::core_module::SO,
    &server::core_module::WATCHDOG,
    &server::core_module::HTTP_CORE,
    &loggers::mod_log_config::MODULE,
    &loggers::mod_logio::MODULE,
    &server::core_module::VERSION,
    &arch::mod_unixd::MODULE,
    &aaa::mod_access_compat::MODULE,
    &aaa::mod_allowmethods::MODULE,
    // Before mod_auth_basic, which would ask for the password again.
    &aaa::mod_authnz_fcgi::MODULE,
    &aaa::mod_auth_basic::MODULE,
    &aaa::mod_auth_digest::MODULE,
    &aaa::mod_auth_form::MODULE,
    &aaa::mod_authn_anon::MODULE,
    &aaa::mod_authn_core::MODULE,
    &aaa::mod_authn_dbd::MODULE,
    &aaa::mod_authn_dbm::MODULE,
    &aaa::mod_authn_file::MODULE,
    &aaa::mod_authn_socache::MODULE,
    &aaa::mod_authnz_ldap::MODULE,
    &aaa::mod_authz_core::MODULE,
    &aaa::mod_authz_dbd::MODULE,
    &aaa::mod_authz_dbm::MODULE,
    &aaa::mod_authz_groupfile::MODULE,
    &aaa::mod_authz_host::MODULE,
    &aaa::mod_authz_owner::MODULE,
    &aaa::mod_authz_user::MODULE,
    &aaa::mod_client_limit::MODULE,
    &arch::mod_bumpy_life::MODULE,
    &cache::mod_cache::MODULE,
    &cache::mod_cache_disk::MODULE,
    &cache::mod_cache_socache::MODULE,
    &cache::mod_file_cache::MODULE,
    &cache::mod_socache_dbm::MODULE,
    &cache::mod_socache_memcache::MODULE,
    &cache::mod_socache_redis::MODULE,
    &cache::mod_socache_shmcb::MODULE,
    &cluster::mod_agent::MODULE,
    &cluster::mod_heartbeat::MODULE,
    &cluster::mod_heartmonitor::MODULE,
    &dav::mod_dav::MODULE,
    &dav::mod_dav_fs::MODULE,
    &dav::mod_dav_lock::MODULE,
    &database::mod_dbd::MODULE,
    &generators::mod_admission::MODULE,
    &generators::mod_metrics::MODULE,
    &filters::mod_brotli::MODULE,
    &filters::mod_zstd::MODULE,
    &filters::mod_buffer::MODULE,
    &filters::mod_charset_lite::MODULE,
    &filters::mod_data::MODULE,
    &filters::mod_deflate::MODULE,
    &filters::mod_dialup::MODULE,
    &filters::mod_ext_filter::MODULE,
    &filters::mod_filter::MODULE,
    &filters::mod_include::MODULE,
    // Before mod_proxy_html, which wants UTF-8.
    &filters::mod_xml2enc::MODULE,
    &filters::mod_proxy_html::MODULE,
    &filters::mod_ratelimit::MODULE,
    &filters::mod_reflector::MODULE,
    &filters::mod_reqtimeout::MODULE,
    &filters::mod_request::MODULE,
    &filters::mod_sed::MODULE,
    &filters::mod_substitute::MODULE,
    &generators::mod_asis::MODULE,
    &generators::mod_autoindex::MODULE,
    &generators::mod_info::MODULE,
    &generators::mod_status::MODULE,
    &generators::mod_suexec::MODULE,
    &ldap::mod_ldap::MODULE,
    &http2::mod_http2::MODULE,
    &loggers::mod_log_debug::MODULE,
    &loggers::mod_log_forensic::MODULE,
    &mappers::mod_actions::MODULE,
    &mappers::mod_alias::MODULE,
    // Before mod_ssl, which gets its certificates from it.
    &md::mod_md::MODULE,
    &generators::mod_cgi::MODULE,
    &generators::mod_cgid::MODULE,
    &generators::mod_fcgid::MODULE,
    &generators::mod_fastcgi::MODULE,
    &generators::mod_perl::MODULE,
    &generators::mod_php::MODULE,
    &generators::mod_php::PHP7,
    &generators::mod_php::PHP5,
    &generators::mod_speedycgi::MODULE,
    &generators::mod_passenger::MODULE,
    &generators::mod_wsgi::MODULE,
    &mappers::mod_dir::MODULE,
    &mappers::mod_imagemap::MODULE,
    &mappers::mod_negotiation::MODULE,
    &mappers::mod_speling::MODULE,
    &mappers::mod_userdir::MODULE,
    &mappers::mod_vhost_alias::MODULE,
    &metadata::mod_cern_meta::MODULE,
    &metadata::mod_env::MODULE,
    &metadata::mod_expires::MODULE,
    &metadata::mod_headers::MODULE,
    &metadata::mod_ident::MODULE,
    &metadata::mod_mime::MODULE,
    &metadata::mod_mime_magic::MODULE,
    &proxy::lbmethods::BY_REQUESTS,
    &proxy::lbmethods::BY_TRAFFIC,
    &proxy::lbmethods::BY_BUSYNESS,
    &proxy::mod_lbmethod_heartbeat::MODULE,
    &proxy::lbmethods::SLOTMEM_SHM,
    &proxy::lbmethods::SLOTMEM_PLAIN,
    &proxy::mod_proxy::MODULE,
    &proxy::mod_proxy_ajp::MODULE,
    &proxy::mod_proxy_balancer::MODULE,
    &proxy::mod_proxy_connect::MODULE,
    &proxy::mod_proxy_express::MODULE,
    &proxy::mod_proxy_fcgi::MODULE,
    &proxy::mod_proxy_hcheck::MODULE,
    &proxy::mod_proxy_http::MODULE,
    &proxy::mod_proxy_http2::MODULE,
    &proxy::mod_proxy_scgi::MODULE,
    &proxy::mod_proxy_uwsgi::MODULE,
    &proxy::mod_proxy_wstunnel::MODULE,
    &mappers::mod_rewrite::MODULE,
    &proxy::mod_scgi::MODULE,
    &session::mod_session::MODULE,
    &session::mod_session_cookie::MODULE,
    &session::mod_session_crypto::MODULE,
    &session::mod_session_dbd::MODULE,
    &session::mod_session_socache::MODULE,
    &metadata::mod_remoteip::MODULE,
    &metadata::mod_setenvif::MODULE,
    &metadata::mod_trace_context::MODULE,
    &metadata::mod_unique_id::MODULE,
    &metadata::mod_usertrack::MODULE,
    &ssl::mod_ssl::MODULE,
    &server::core_module::MACRO,
];
