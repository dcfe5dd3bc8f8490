//! Measures a server with thousands of hosts, lines or certificates.

use super::{Bench, probe, shot};
use crate::experiments::site::Site;
use crate::experiments::workload::Asked;
use crate::experiments::workload::Over;
use crate::experiments::workloads::many::{CLIENTS, Thing};
use crate::machine::error::{Result, write_file};
use crate::measure::generator::Shot;
use crate::measure::results::{Begun, Load};
use crate::measure::server::Server;

/// The most time to ask for each thing once, in seconds, before anything counts.
const TOUCH_SECONDS: u32 = 10;

impl Bench {
    /// The time until the first answer and the memory then, before the load.
    pub(super) fn many(
        &self,
        server: &Server,
        site: &Site,
        count: u32,
        asked: Asked,
        over: Over,
        seconds: u32,
    ) -> Result<Load> {
        let first = Thing::of(site.profile, 0);
        probe::probe_thing(site, over, &first)?;
        let begun = Begun { answered_ms: server.age().as_millis() as u64, pss_kib: server.pss_kib()? };
        let list = self.scratch.path().join("urls.txt");
        let urls = (asked == Asked::All).then_some(list.as_path());
        let shot = Shot { host: Some(&first.host), urls, over, ..shot(site, &first.name, CLIENTS, seconds) };
        if let Some(path) = urls {
            let port = site.address().port();
            let url = |thing: Thing| format!("http://{}:{port}/{}\n", thing.host, thing.name);
            write_file(path, Thing::mixed(site.profile, count).map(url).collect::<String>())?;
            let each = Shot { requests: Some(count), seconds: TOUCH_SECONDS, ..shot };
            each.fire(self.cores.generator, &mut || crate::machine::interrupt::check())?;
        }
        Ok(Load { begun: Some(begun), ..self.shoot(server, site, shot)? })
    }
}
