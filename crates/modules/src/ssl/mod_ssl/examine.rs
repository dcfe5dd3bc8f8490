//! Checks certificates and keys: whether they exist, who may read the keys, and when a certificate expires.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

use conf::Level;
use server::module::finding::{Finding, Topic, Weight};
use server::{Server, VirtualHost};

use super::certificates::{end_of, has_key};
use super::expiry;
use super::settings::SslServer;
use super::values::NamedFile;

/// Certificates are small; a larger file is not one. In bytes.
const SIZE_MAX: u64 = 4 * 1024 * 1024;

/// Checks the certificates and keys of all hosts.
pub(super) fn files(server: &Server, found: &mut dyn FnMut(Finding)) {
    without(server, found);
    for host in &server.hosts {
        let ssl = host.settings.get::<SslServer>();
        for (field, is_key) in [(&ssl.certificate_files, false), (&ssl.key_files, true)] {
            for file in field.get().into_iter().flatten() {
                examine(file, is_key, found);
            }
        }
    }
}

/// Reports hosts that shall encrypt and have no certificate. The first of them is what a start fails with.
fn without(server: &Server, report: &mut dyn FnMut(Finding)) {
    let has_domains =
        server.tree.iter().any(|node| ["MDomain", "<MDomain"].iter().any(|name| node.name.eq_ignore_ascii_case(name)));
    let is_without = |host: &&VirtualHost| {
        let ssl = host.settings.get::<SslServer>();
        ssl.engine.get() == Some(&true) && !ssl.certificate_files.is_set()
    };
    for host in server.hosts.iter().filter(is_without).skip(1).filter(|_| !has_domains) {
        let message = format!("SSLEngine is On for {}, which has no certificate.", host.name);
        let mut found = Finding::new(Weight::Stops, Topic::Certificate, "SSLCertificateFile", message);
        found.places.extend(host.origin.clone());
        report(found.instead("Write SSLCertificateFile and SSLCertificateKeyFile, or `SSLEngine Off`"));
    }
}

fn examine(NamedFile { path: file, origin }: &NamedFile, is_key: bool, report: &mut dyn FnMut(Finding)) {
    let found = |weight, message: String| Finding::new(weight, Topic::Certificate, file, message).at(origin);
    let meta = match std::fs::metadata(file) {
        Ok(meta) => meta,
        Err(error) => {
            let text = format!("It cannot be read: {}.", sys::describe(&error));
            return report(found(Weight::Stops, text));
        }
    };
    if is_key {
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            let text = format!("A key that everybody may read (its mode is {mode:o}).");
            report(found(Weight::Harmless, text).instead(format!("chmod 600 {file}")));
        }
    }
    if meta.len() > SIZE_MAX {
        return;
    }
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        // The user who runs the check may not be the user who starts the server.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let text = "You may not read it, so it was not checked; root may.";
            return report(found(Weight::Harmless, text.into()));
        }
        Err(_) => Vec::new(),
    };
    if is_key {
        if !has_key(&bytes) {
            report(found(Weight::Stops, "There is no key in it.".into()));
        }
        return;
    }
    let Some(end) = end_of(&bytes) else {
        return report(found(Weight::Stops, "There is no certificate in it.".into()));
    };
    if let Some((level, text)) = expiry::warning(end, sys::time::realtime().as_secs().cast_signed()) {
        let weight = if level == Level::Error { Weight::Loses } else { Weight::Harmless };
        report(found(weight, format!("It {text}.")));
    }
}
