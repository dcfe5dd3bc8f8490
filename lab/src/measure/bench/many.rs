//! Measures a server with thousands of hosts, lines or certificates.

use super::{Bench, load_run, probe};
use crate::experiments::site::Site;
use crate::experiments::workload::Protocol;
use crate::experiments::workload::Requested;
use crate::experiments::workloads::many::{CLIENTS, Request};
use crate::machine::error::{Result, write_file};
use crate::measure::generator::LoadRun;
use crate::measure::results::{Begun, Load};
use crate::measure::server::Server;

/// The most time to ask for each thing once, in seconds, before anything counts.
const TOUCH_SECONDS: u32 = 10;

impl Bench {
    /// The time until the first response and the memory then, before the load.
    pub(super) fn many(
        &self,
        server: &Server,
        site: &Site,
        count: u32,
        requested: Requested,
        protocol: Protocol,
        seconds: u32,
    ) -> Result<Load> {
        let first = Request::of(site.profile, 0);
        probe::probe_request(site, protocol, &first)?;
        let begun = Begun { answered_ms: server.age().as_millis() as u64, pss_kib: server.pss_kib()? };
        let list = self.scratch.path().join("urls.txt");
        let urls = (requested == Requested::All).then_some(list.as_path());
        let load_run =
            LoadRun { host: Some(&first.host), urls, protocol, ..load_run(site, &first.name, CLIENTS, seconds) };
        if let Some(path) = urls {
            let port = site.address().port();
            let url = |request: Request| format!("http://{}:{port}/{}\n", request.host, request.name);
            write_file(path, Request::mixed(site.profile, count).map(url).collect::<String>())?;
            let each = LoadRun { requests: Some(count), seconds: TOUCH_SECONDS, ..load_run };
            each.run(self.cores.generator, &mut || crate::machine::interrupt::check())?;
        }
        Ok(Load { begun: Some(begun), ..self.measure_load(server, site, load_run)? })
    }
}
