//! What the server runs between two restarts.

use std::sync::Arc;

use conf::SettingsMap;
use runtime::Service;
use runtime::log::Log;
use sys::cred::Identity;

use crate::choose::Chosen;

/// A server made from one configuration: the first, and one after each restart.
#[derive(Clone)]
pub struct Generation {
    /// The module that runs it.
    pub mpm: Chosen,
    /// What the children serve.
    pub service: Arc<dyn Service>,
    /// The settings of the main server.
    pub settings: SettingsMap,
    /// The user that the children become; without it they keep the parent's.
    pub identity: Option<Identity>,
    /// The log once this generation is in effect.
    pub log: Arc<dyn Log>,
}
