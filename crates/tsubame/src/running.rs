//! Finds the parent of a running server, and holds what the processes that answer for it need.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mpm::settings::MpmSettings;
use mpm::{Chosen, Fixed, pidfile};
use server::Server;
use sys::cred::Identity;
use sys::process::Pid;

use crate::bundles;
use crate::cli::Options;
use crate::config::{ConfigSource, Configured};

/// The configuration that is in effect.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) server: Arc<Server>,
    pub(crate) mpm: Chosen,
    /// The directory of the bundle that it was read from.
    pub(crate) bundle: Option<PathBuf>,
}

impl Running {
    /// What was changed by hand since the bundle was loaded that the configuration was read from.
    pub(crate) fn drift(&self) -> Vec<String> {
        self.bundle.as_ref().map(|directory| bundles::drift(directory, &self.server)).unwrap_or_default()
    }
}

/// The data that a conversation over the control socket uses.
pub(crate) struct ControlContext<'a> {
    pub(crate) running: &'a Running,
    pub(crate) options: &'a Options,
    pub(crate) text: &'a ConfigSource<'a>,
    pub(crate) parent: Pid,
    pub(crate) children: Option<&'a Identity>,
    pub(crate) fixed: Fixed,
}

/// The parent of the server that runs with this configuration.
pub(crate) fn parent(configured: &Configured) -> Option<Pid> {
    let path = pid_file(configured)?;
    pidfile::read(Path::new(&path)).ok().flatten().filter(|pid| pid.exists())
}

pub(crate) fn pid_file(configured: &Configured) -> Option<String> {
    configured.loaded.server.main().settings.get::<MpmSettings>().pid_file.get().cloned()
}
