//! More requests for a script than its one process can serve.

use std::time::Duration;

use super::Bench;
use super::probe::probe_script;
use crate::experiments::site::Site;
use crate::experiments::workload::Queue;
use crate::machine::error::Result;
use crate::measure::reading::Reading;
use crate::measure::results::Load;
use crate::measure::script_clients::ScriptClients;
use crate::measure::server::Server;

/// Longer than any server lets a request wait.
const PATIENCE: Duration = Duration::from_secs(120);

impl Bench {
    /// Sends requests at the rate of the workload, and waits for the last response. The process already runs.
    pub(super) fn queue(&self, server: &Server, site: &Site, queue: &Queue) -> Result<Load> {
        let names = [format!("cgi-bin/{}", queue.script.name)];
        probe_script(site, &names[0], queue.script)?;
        let call = ScriptClients {
            address: site.address(),
            names: &names,
            response: queue.script.response,
            clients: queue.requests,
            seconds: 0,
            patience: PATIENCE,
        };
        let before = Reading::take(server, self.cores)?;
        let counts = call.at(|number| queue.due(number));
        let after = Reading::take(server, self.cores)?;
        self.figures(server, counts, &before, &after)
    }
}
