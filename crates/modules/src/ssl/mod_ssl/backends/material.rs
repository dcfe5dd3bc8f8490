//! The files that settings name, read when a server starts: requests must not wait for a disk.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use conf::Setting;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::sign::CertifiedKey;

use super::machine;
use crate::ssl::mod_ssl::clients::{List, certificates_of, hashed, lists, lists_in};
use crate::ssl::mod_ssl::settings::SslProxy;

/// What was read, or why it could not be.
type Known<T> = Result<Vec<T>, String>;

type Files<T> = HashMap<String, Known<T>>;

/// The content of files and directories, by their paths.
#[derive(Debug, Default)]
pub(super) struct Material {
    authorities: Files<CertificateDer<'static>>,
    lists: Files<CertificateRevocationListDer<'static>>,
    /// With `SSLProxyMachineCertificateChainFile`, since that completes them: by both paths.
    machines: HashMap<(Option<String>, String), Known<Arc<CertifiedKey>>>,
}

impl Material {
    /// Reads what these settings name, and was not read yet.
    pub(super) fn read(&mut self, settings: &SslProxy) {
        if let Some(path) = settings.ca_file.get() {
            read(&mut self.authorities, path, |path| authorities(settings, path));
        }
        if let Some(path) = settings.ca_path.get() {
            read(&mut self.authorities, path, |path| {
                let files = hashed(path, "")?;
                let all: Result<Vec<_>, String> = files.iter().map(|file| authorities(settings, file)).collect();
                Ok(all?.concat())
            });
        }
        let der = |all: Vec<List>| all.into_iter().map(|list| list.der).collect();
        if let Some(path) = settings.revocation_file.get() {
            read(&mut self.lists, path, |path| lists(path).map(der));
        }
        if let Some(path) = settings.revocation_path.get() {
            read(&mut self.lists, path, |path| lists_in(path).map(der));
        }
        let chain = settings.machine_chain_file.get();
        for (path, is_directory) in [(&settings.machine_file, false), (&settings.machine_path, true)] {
            let Some(path) = path.get() else { continue };
            self.machines
                .entry((chain.cloned(), path.clone()))
                .or_insert_with(|| machine::read(path, is_directory, chain.map(String::as_str)));
        }
    }

    /// The authorities that settings trust. `Err`: why they cannot be read.
    pub(super) fn authorities(&self, settings: &SslProxy) -> Result<Vec<CertificateDer<'static>>, String> {
        of(&self.authorities, [&settings.ca_file, &settings.ca_path])
    }

    /// The lists of revoked certificates.
    pub(super) fn lists(&self, settings: &SslProxy) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
        of(&self.lists, [&settings.revocation_file, &settings.revocation_path])
    }

    /// The certificates to show.
    pub(super) fn machines(&self, settings: &SslProxy) -> Result<Vec<Arc<CertifiedKey>>, String> {
        let mut all = Vec::new();
        let chain = settings.machine_chain_file.get();
        for setting in [&settings.machine_file, &settings.machine_path] {
            let Some(path) = setting.get() else { continue };
            let known = self.machines.get(&(chain.cloned(), path.clone()));
            all.extend(known.cloned().unwrap_or_else(|| Err(unread(path))).map_err(|why| at(&why, setting))?);
        }
        let named = [&settings.machine_file, &settings.machine_path].into_iter().find(|setting| setting.is_set());
        match named.filter(|_| all.is_empty()) {
            Some(setting) => {
                let path = setting.get().map_or("", String::as_str);
                let text = "AH02206: no client certs found for SSL proxy";
                Err(at(&format!("{text}: {path} has no certificate with its key"), setting))
            }
            None => Ok(all),
        }
    }
}

/// Whether this process may not read one of the files.
pub(super) fn is_hidden(settings: &SslProxy) -> bool {
    let SslProxy { ca_file, ca_path, revocation_file, revocation_path, .. } = settings;
    let SslProxy { machine_file, machine_path, machine_chain_file, .. } = settings;
    let all = [ca_file, ca_path, revocation_file, revocation_path, machine_file, machine_path, machine_chain_file];
    all.into_iter().filter_map(Setting::get).any(|path| {
        let opened = File::open(OsStr::from_bytes(&http::text::to_bytes(path)));
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    })
}

fn authorities(settings: &SslProxy, file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let name = if settings.ca_file.get().is_some_and(|own| own == file) { "File" } else { "Path" };
    certificates_of(&format!("AH01895: Unable to configure verify locations (SSLProxyCACertificate{name})"), file)
}

fn read<T>(files: &mut Files<T>, path: &str, read: impl FnOnce(&str) -> Result<Vec<T>, String>) {
    if !files.contains_key(path) {
        files.insert(path.to_string(), read(path));
    }
}

/// The content of what these settings name.
fn of<T: Clone>(files: &Files<T>, settings: [&Setting<String>; 2]) -> Result<Vec<T>, String> {
    let mut all = Vec::new();
    for setting in settings {
        let Some(path) = setting.get() else { continue };
        let known = files.get(path).cloned().unwrap_or_else(|| Err(unread(path)));
        all.extend(known.map_err(|why| at(&why, setting))?);
    }
    Ok(all)
}

fn unread(path: &str) -> String {
    format!("{path} was not read when the server started")
}

/// A message with the line that names the file.
fn at(why: &str, setting: &Setting<String>) -> String {
    setting.origin().map_or_else(|| why.to_string(), |origin| format!("{why} ({origin})"))
}
