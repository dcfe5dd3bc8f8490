//! What connections are made with, for each set of settings.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conf::{Level, Merge, Origin, Setting, SettingsMap, settings};
use server::{Request, Server, VirtualHost};
use upstream::TlsSettings;

use super::make::make;
use super::material::{self, Material};
use crate::ssl::mod_ssl::pass_phrases;
use crate::ssl::mod_ssl::settings::SslProxy;

/// How many combinations of sections are remembered: configurations have few, and each remembers sessions.
const COMBINED_MAX: usize = 256;

settings! {
    /// What the connections of all virtual hosts are made with, in the settings of the main server.
    pub struct Backends {
        place: Slot,
    }
}

#[derive(Clone, Default)]
struct Slot(Option<Arc<Mutex<Registry>>>);

/// What connections are made with, or why there can be none.
type Made = Result<Arc<TlsSettings>, String>;

#[derive(Debug, Default)]
struct Registry {
    material: Material,
    /// What was made when the server started.
    made: Vec<(SslProxy, Made)>,
    /// What was made for requests since.
    combined: VecDeque<(SslProxy, Made)>,
    /// Lines for the log, kept until it is open.
    notes: Vec<(Level, String)>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.0.is_some()).finish()
    }
}

impl Merge for Slot {
    fn merge(_: &Self, add: &Self) -> Self {
        add.clone()
    }

    fn origins(&self, _: &mut dyn FnMut(&Origin)) {}
}

/// Gives the main server an empty registry.
pub(in super::super) fn make_place(main: &mut SettingsMap) {
    main.edit::<Backends>().place = Slot(Some(Arc::default()));
}

/// The registry of a server; `None`: mod_ssl is not loaded.
fn registry(server: &Server) -> Option<MutexGuard<'_, Registry>> {
    let place = server.main().settings.get::<Backends>().place.0.as_ref()?;
    Some(place.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Lines for the log.
pub(in super::super) fn notes(server: &Server) -> Vec<(Level, String)> {
    registry(server).map(|mut registry| std::mem::take(&mut registry.notes)).unwrap_or_default()
}

/// Makes what connections need, for all sets of settings that a virtual host or a section alone can lead to, and reads
/// what combinations may need. `Err`: why the configuration cannot be served.
pub(crate) fn prepare(server: &Server, all: &[(&VirtualHost, SslProxy)]) -> Result<(), String> {
    let is_on = |settings: &SslProxy| settings.engine.value_or(false);
    let Some(mut registry) = registry(server) else { return Ok(()) };
    if !all.iter().any(|(_, settings)| is_on(settings)) {
        return Ok(());
    }
    all.iter().for_each(|(_, settings)| registry.material.read(settings));
    for (host, settings) in all.iter().filter(|(_, settings)| is_on(settings)) {
        // Whoever only checks the configuration need not have the right to read keys.
        if pass_phrases::serves() || !material::is_hidden(settings) {
            registry.prepare(settings, &host.log_name())?;
        }
    }
    Ok(())
}

/// What a request's connection to a server behind this one is made with. `Err`: why it cannot be encrypted.
pub(crate) fn settings(request: &Request) -> Result<Arc<TlsSettings>, NotEncrypted> {
    let settings = request.dir::<SslProxy>();
    if !settings.engine.value_or(false) {
        return Err(NotEncrypted::Off);
    }
    let mut registry = registry(request.server).ok_or(NotEncrypted::Off)?;
    let known = registry.of(settings, &request.vhost.log_name());
    for (level, note) in std::mem::take(&mut registry.notes) {
        request.log("ssl", level, note);
    }
    known.map_err(NotEncrypted::Broken)
}

/// Why a connection cannot be encrypted.
#[derive(Debug)]
pub(crate) enum NotEncrypted {
    /// `SSLProxyEngine` is off, or mod_ssl is not loaded.
    Off,
    /// The settings of several sections do not go together.
    Broken(String),
}

impl Registry {
    fn known(&self, settings: &SslProxy) -> Option<Made> {
        let mut all = self.made.iter().chain(&self.combined);
        all.find(|(known, _)| is_same(known, settings)).map(|(_, made)| made.clone())
    }

    /// Makes what a set needs, unless it is known.
    fn prepare(&mut self, settings: &SslProxy, host: &str) -> Result<(), String> {
        if self.known(settings).is_none() {
            let made = make(settings, &self.material, host, &mut self.notes)?;
            self.made.push((settings.clone(), Ok(Arc::new(made))));
        }
        Ok(())
    }

    /// What a set needs, made if it is not known.
    fn of(&mut self, settings: &SslProxy, host: &str) -> Made {
        if let Some(made) = self.known(settings) {
            return made;
        }
        let made = make(settings, &self.material, host, &mut self.notes).map(Arc::new);
        if self.combined.len() >= COMBINED_MAX {
            self.combined.pop_front();
        }
        self.combined.push_back((settings.clone(), made.clone()));
        made
    }
}

/// Whether two sets of settings have the same values.
fn is_same(one: &SslProxy, other: &SslProxy) -> bool {
    fn same<T: PartialEq>(one: &Setting<T>, other: &Setting<T>) -> bool {
        one.get() == other.get()
    }
    // A setting that is added has to be compared, too.
    let SslProxy {
        engine,
        protocols,
        cipher_suites,
        tls13_cipher_suites,
        verify,
        verify_depth,
        ca_file,
        ca_path,
        revocation_path,
        revocation_file,
        revocation_check,
        machine_file,
        machine_path,
        machine_chain_file,
        check_peer_expire,
        check_peer_cn,
        check_peer_name,
    } = one;
    same(engine, &other.engine)
        && same(protocols, &other.protocols)
        && same(cipher_suites, &other.cipher_suites)
        && same(tls13_cipher_suites, &other.tls13_cipher_suites)
        && same(verify, &other.verify)
        && same(verify_depth, &other.verify_depth)
        && same(ca_file, &other.ca_file)
        && same(ca_path, &other.ca_path)
        && same(revocation_path, &other.revocation_path)
        && same(revocation_file, &other.revocation_file)
        && same(revocation_check, &other.revocation_check)
        && same(machine_file, &other.machine_file)
        && same(machine_path, &other.machine_path)
        && same(machine_chain_file, &other.machine_chain_file)
        && same(check_peer_expire, &other.check_peer_expire)
        && same(check_peer_cn, &other.check_peer_cn)
        && same(check_peer_name, &other.check_peer_name)
}
