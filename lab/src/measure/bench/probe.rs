//! Checks that a server answers correctly, before it is measured.

use std::time::Duration;

use crate::experiments::site::Site;
use crate::experiments::workload::{Document, Protocol, SMALL};
use crate::experiments::workloads::many::Request;
use crate::load::client::Connector;
use crate::load::tls::Client;
use crate::machine::error::{Error, Result};
use crate::machine::script::Script;

/// A server that starts 60 000 threads accepts connections long before it answers.
const FIRST_RESPONSE_LIMIT: Duration = Duration::from_secs(60);

/// A server that answers wrongly must not count as fast: the bytes are compared before anything is counted.
pub(super) fn probe(site: &Site, tls: Option<&Client>, document: &Document, close: bool) -> Result<()> {
    let connector = Connector { patience: FIRST_RESPONSE_LIMIT, ..Connector::default() };
    let mut connection = connector.open_with(site.address(), tls)?;
    let requests = if close { 1 } else { 2 };
    for _ in 0..requests {
        let response = connection.get(document.name, close)?;
        if response.status != 200 || response.body != document.content() {
            return Err(Error::new(format!(
                "/{} came back with status {} and {} bytes instead of 200 and {}",
                document.name,
                response.status,
                response.body.len(),
                document.length
            )));
        }
    }
    if close { connection.await_end() } else { Ok(()) }
}

/// The same for the first of many things, at the host that has it.
pub(super) fn probe_request(site: &Site, protocol: Protocol, request: &Request) -> Result<()> {
    let tls = protocol.tls_to(&request.host).map(|tls| tls.client()).transpose()?;
    let connector = Connector { patience: FIRST_RESPONSE_LIMIT, ..Connector::default() };
    let mut connection = connector.open_with(site.address(), tls.as_ref())?.with_host(request.host.clone());
    let response = connection.get(&request.name, false)?;
    let is_file = response.body == SMALL.content();
    if response.status != request.status || request.status == 200 && !is_file {
        let Request { host, name, status } = request;
        let response = response.status;
        return Err(Error::new(format!(
            "http://{host}/{name} is answered with {response}, not with the right {status}"
        )));
    }
    Ok(())
}

/// The same for a script, whose response may have no length until it ends.
pub(super) fn probe_script(site: &Site, name: &str, script: &Script) -> Result<()> {
    for _ in 0..2 {
        let mut connection =
            Connector { patience: FIRST_RESPONSE_LIMIT, ..Connector::default() }.open(site.address())?;
        let response = connection.fetch(name)?;
        if response.status != 200 || response.body != script.response.as_bytes() {
            let body = String::from_utf8_lossy(&response.body);
            return Err(Error::new(format!("/{name} came back with status {}: {}", response.status, body.trim())));
        }
    }
    Ok(())
}
