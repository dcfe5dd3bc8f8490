//! Gives the certificates of managed domains to mod_ssl.

use std::sync::Arc;

use conf::{Context, Error};
use rustls::ServerConfig;
use rustls::server::ClientHello;
use server::{Draft, Server, VirtualHost};

use super::{certificates, challenges};
use crate::ssl::mod_ssl::{Managed, Served, manage};

/// The managed domains of a server, for mod_ssl.
struct Domains;

/// Makes mod_ssl ask for the certificates of managed domains.
pub(super) fn provide(draft: &mut Draft, _: &mut Context) -> Result<(), Error> {
    manage(&mut draft.main, &Domains);
    draft.hosts.iter_mut().for_each(|host| manage(&mut host.server, &Domains));
    Ok(())
}

impl Managed for Domains {
    fn files(&self, host: &VirtualHost, serves: bool) -> Option<Result<Served, String>> {
        certificates::served(host, serves)
    }

    fn names(&self, host: &VirtualHost) -> Option<Vec<String>> {
        certificates::certificate_names(host)
    }

    fn challenge(&self, server: &Server, hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
        challenges::respond(server, hello)
    }
}
