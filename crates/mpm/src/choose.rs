//! Chooses the multi-processing module that runs.

use std::fmt;

use conf::error::Phase;
use conf::{Cause, Error, ModuleInfo, Notice, SettingsMap};
use runtime::scoreboard::Rows;

use crate::event::EVENT;
use crate::listen;
use crate::mpm::Mpm;
use crate::percore::PERCORE;
use crate::plan::{self, Fixed, When, explain::Explained};
use crate::prefork::PREFORK;
use crate::settings::MpmSettings;
use crate::worker::WORKER;

/// A module that was chosen.
#[derive(Clone, Copy)]
pub struct Chosen(pub(crate) &'static Mpm);

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chosen").field(&self.0.info.id).finish()
    }
}

/// Chooses among the loaded modules: percore if there are none, an error if there are several. `program` is the name
/// the server was called by.
pub fn choose(loaded: &[&'static ModuleInfo], program: &str) -> Result<Chosen, Error> {
    let mpms: [&'static Mpm; 4] = [&PREFORK, &WORKER, &EVENT, &PERCORE];
    let mut found = mpms.into_iter().filter(|mpm| loaded.iter().any(|info| info.id == mpm.info.id));
    let mpm = found.next().unwrap_or(&PERCORE);
    if found.next().is_some() {
        let message = format!("AH00534: {program}: Configuration error: More than one MPM loaded.");
        return Err(Error::new(Phase::Apply, message).because(Cause::SeveralMpms));
    }
    Ok(Chosen(mpm))
}

impl Chosen {
    /// The name of the module that runs, as in `-V` and on the status page (`prefork`).
    pub fn name(&self) -> &'static str {
        let name = self.0.info.log_name();
        name.strip_prefix("mpm_").unwrap_or(name)
    }

    /// Whether the module that runs has threads.
    pub fn is_threaded(&self) -> bool {
        matches!(self.0.rows, Rows::OfThreads)
    }

    /// Notices about the settings, for the start and for `-t`.
    pub fn check(&self, settings: &SettingsMap, when: When) -> Vec<Notice> {
        (self.0.plan)(settings, when).1
    }

    /// Whether a server that runs this module can be restarted with `next`. `Err` says why not, as a text for people.
    pub fn can_become(&self, next: &Chosen) -> Result<(), String> {
        if std::ptr::addr_eq(self.0.info, next.0.info) {
            return Ok(());
        }
        Err(format!("changing {} to {} needs a stop and a start", self.0.info.log_name(), next.0.info.log_name()))
    }

    /// Explains the numbers of processes, threads and connections: for a first start, or for a running server, in which
    /// some are `fixed`.
    pub fn explain(&self, settings: &SettingsMap, fixed: Option<Fixed>) -> Explained {
        let (when, buckets) = match fixed {
            None => (When::Start, listen::buckets(settings.get::<MpmSettings>())),
            Some(Fixed { limits, buckets }) => (When::Restart(limits), buckets),
        };
        let plan = (self.0.plan)(settings, when).0.for_buckets(buckets);
        let mut explained = plan::explain::explain(self.name(), self.0.kind, settings, plan);
        plan::explain::preface(&mut explained, buckets, fixed.is_some());
        explained
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{CORE, EVENT, PERCORE, PREFORK, WORKER};

    #[test]
    fn one_module_or_percore() {
        let name = |loaded: &[&'static ModuleInfo]| {
            choose(loaded, "apache2").map(|chosen| chosen.name()).map_err(|error| error.message)
        };
        assert_eq!(name(&[]), Ok("percore"));
        assert_eq!(name(&[&CORE, &PREFORK]), Ok("prefork"));
        assert_eq!(name(&[&PERCORE]), Ok("percore"));
        assert_eq!(name(&[&EVENT]), Ok("event"));
        let two = Err("AH00534: apache2: Configuration error: More than one MPM loaded.".to_string());
        assert_eq!(name(&[&WORKER, &PREFORK]), two);
    }
}
