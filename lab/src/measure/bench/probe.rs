//! Checks that a server answers correctly, before it is measured.

use std::time::Duration;

use crate::experiments::site::Site;
use crate::experiments::workload::{Document, Over, SMALL};
use crate::experiments::workloads::many::Thing;
use crate::load::client::Dial;
use crate::load::tls::Client;
use crate::machine::error::{Error, Result};
use crate::machine::script::Script;

/// A server that starts 60 000 threads accepts connections long before it answers.
const FIRST_ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A server that answers wrongly must not count as fast: the bytes are compared before anything is counted.
pub(super) fn probe(site: &Site, tls: Option<&Client>, document: &Document, close: bool) -> Result<()> {
    let dial = Dial { patience: FIRST_ANSWER_LIMIT, ..Dial::default() };
    let mut connection = dial.open_with(site.address(), tls)?;
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
pub(super) fn probe_thing(site: &Site, over: Over, thing: &Thing) -> Result<()> {
    let tls = over.tls_to(&thing.host).map(|tls| tls.client()).transpose()?;
    let dial = Dial { patience: FIRST_ANSWER_LIMIT, ..Dial::default() };
    let mut connection = dial.open_with(site.address(), tls.as_ref())?.with_host(thing.host.clone());
    let response = connection.get(&thing.name, false)?;
    let is_file = response.body == SMALL.content();
    if response.status != thing.status || thing.status == 200 && !is_file {
        let Thing { host, name, status } = thing;
        let answer = response.status;
        return Err(Error::new(format!("http://{host}/{name} is answered with {answer}, not with the right {status}")));
    }
    Ok(())
}

/// The same for a script, whose answer may have no length until it ends.
pub(super) fn probe_script(site: &Site, name: &str, script: &Script) -> Result<()> {
    for _ in 0..2 {
        let mut connection = Dial { patience: FIRST_ANSWER_LIMIT, ..Dial::default() }.open(site.address())?;
        let response = connection.fetch(name)?;
        if response.status != 200 || response.body != script.answer.as_bytes() {
            let body = String::from_utf8_lossy(&response.body);
            return Err(Error::new(format!("/{name} came back with status {}: {}", response.status, body.trim())));
        }
    }
    Ok(())
}
