//! Which multi-processing module runs.

use std::fmt;

use conf::error::Phase;
use conf::{Error, Face, Level, Notice, Slots};

use crate::limits::{self, When};
use crate::percore::Percore;
use crate::prefork::Prefork;
use crate::{Mpm, tables};

/// A module that was chosen.
#[derive(Clone, Copy)]
pub struct Chosen {
    /// The one in the configuration, or percore where there is none.
    pub configured: &'static Face,
    pub(crate) mpm: &'static dyn Mpm,
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} run by {}", self.configured.id, self.mpm.face().id)
    }
}

/// The module of those that are loaded: percore where none is, an error where there are several. `program` is the name the
/// server was called by.
pub fn choose(loaded: &[&'static Face], program: &str) -> Result<Chosen, Error> {
    let mpms = [&tables::PREFORK, &tables::WORKER, &tables::EVENT, &tables::PERCORE];
    let mut found = mpms.into_iter().filter(|mpm| loaded.iter().any(|face| face.id == mpm.id));
    let configured = found.next().unwrap_or(&tables::PERCORE);
    if found.next().is_some() {
        let message = format!("AH00534: {program}: Configuration error: More than one MPM loaded.");
        return Err(Error { phase: Phase::Apply, message, origin: None, hint: None });
    }
    let mpm: &'static dyn Mpm = if configured.id == tables::PREFORK.id { &Prefork } else { &Percore };
    Ok(Chosen { configured, mpm })
}

impl Chosen {
    /// The name in `-V` and on the status page (`prefork`): of the module that runs.
    pub fn name(&self) -> &'static str {
        let name = self.mpm.face().log_name();
        name.strip_prefix("mpm_").unwrap_or(name)
    }

    /// Whether the module that runs has threads.
    pub fn is_threaded(&self) -> bool {
        false
    }

    /// What to say about the settings, at the start and for `-t`: the warnings of the configured module, and that another
    /// one stands in for it.
    pub fn check(&self, settings: &Slots, when: When) -> Vec<Notice> {
        let module = self.configured.log_name();
        let own = |mpm: &'static dyn Mpm| mpm.plan(settings, when).1;
        let mut notices = match self.configured.id {
            id if id == self.mpm.face().id => return own(self.mpm),
            id if id == tables::WORKER.id => limits::threaded(&limits::WORKER, module, settings, when).1,
            _ => limits::threaded(&limits::EVENT, module, settings, when).1,
        };
        let text = format!(
            "{} is not there yet: {} stands in for it, with one process for each of {} processors and no limit of workers",
            self.configured.id,
            self.mpm.face().id,
            self.mpm.plan(settings, when).0.children
        );
        notices.push(Notice { module, level: Level::Notice, text, bare: false });
        notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{CORE, EVENT, PERCORE, PREFORK, WORKER};

    #[test]
    fn one_module_or_percore() {
        let name = |loaded: &[&'static Face]| {
            choose(loaded, "apache2").map(|chosen| chosen.name()).map_err(|error| error.message)
        };
        assert_eq!(name(&[]), Ok("percore"));
        assert_eq!(name(&[&CORE, &PREFORK]), Ok("prefork"));
        assert_eq!(name(&[&PERCORE]), Ok("percore"));
        assert_eq!(name(&[&EVENT]), Ok("percore"));
        let two = Err("AH00534: apache2: Configuration error: More than one MPM loaded.".to_string());
        assert_eq!(name(&[&WORKER, &PREFORK]), two);
    }

    #[test]
    fn a_stand_in_says_so() {
        let said = |face| choose(&[face], "apache2").expect("one").check(&Slots::default(), When::Start).len();
        assert_eq!([said(&EVENT), said(&WORKER), said(&PREFORK), said(&PERCORE)], [1, 1, 0, 0]);
    }
}
