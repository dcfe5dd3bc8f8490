//! The connections that a server opens to an origin for a number of requests, from its start.

use super::probe::probe;
use super::{Bench, load_run};
use crate::experiments::site::Site;
use crate::experiments::workload::{Reuse, SMALL};
use crate::machine::error::{Error, Result};
use crate::measure::generator::LoadRun;
use crate::measure::reading::Reading;
use crate::measure::results::Load;
use crate::measure::server::Server;

/// The most seconds that all requests may take together; a debug build takes ten.
const LIMIT_SECONDS: u32 = 60;

impl Bench {
    /// Without a warm-up: the first requests are those that need new connections.
    pub(super) fn reuse(&self, server: &Server, site: &Site, reuse: &Reuse) -> Result<Load> {
        let origins = server.origins().ok_or_else(|| Error::new("there is nothing behind it to connect to"))?;
        server.await_children(reuse.children)?;
        let accepted_before = origins.accepted()?;
        probe(site, None, &SMALL, false)?;
        let load_run = LoadRun {
            per_connection: reuse.per_connection,
            requests: Some(reuse.requests),
            ..load_run(site, SMALL.name, reuse.clients, LIMIT_SECONDS)
        };
        let before = Reading::take(server, self.cores)?;
        let counts = load_run.run(self.cores.generator, &mut crate::machine::interrupt::check)?;
        let after = Reading::take(server, self.cores)?;
        let accepted = origins.accepted()?.saturating_sub(accepted_before);
        Ok(Load { accepted: Some(accepted), ..self.figures(server, counts, &before, &after)? })
    }
}
