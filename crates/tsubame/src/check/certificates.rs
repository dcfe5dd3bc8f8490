//! Checks certificates and keys: whether they exist, who may read the keys, and when a certificate expires.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

use conf::Level;
use modules::ssl::mod_ssl::{self, NamedFile, SslServer};
use server::Server;

use super::report::{Finding, Report, Topic, Weight};

/// Certificates are small; a larger file is not one. In bytes.
const SIZE_MAX: u64 = 4 * 1024 * 1024;

/// Checks the certificates and keys of all hosts.
pub(super) fn all(report: &mut Report, server: &Server) {
    for host in &server.hosts {
        let ssl = host.settings.get::<SslServer>();
        for (field, is_key) in [(&ssl.certificate_files, false), (&ssl.key_files, true)] {
            for file in field.get().into_iter().flatten() {
                examine(report, file, is_key);
            }
        }
    }
}

fn examine(report: &mut Report, NamedFile { path: file, origin }: &NamedFile, is_key: bool) {
    let found = |weight, message: String| Finding::new(weight, Topic::Certificate, file, message).at(origin);
    let meta = match std::fs::metadata(file) {
        Ok(meta) => meta,
        Err(error) => {
            let text = format!("It cannot be read: {}.", sys::describe(&error));
            return report.add(found(Weight::Stops, text));
        }
    };
    if is_key {
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            let text = format!("A key that everybody may read (its mode is {mode:o}).");
            report.add(found(Weight::Harmless, text).instead(format!("chmod 600 {file}")));
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
            return report.add(found(Weight::Harmless, text.into()));
        }
        Err(_) => Vec::new(),
    };
    if is_key {
        if !mod_ssl::has_key(&bytes) {
            report.add(found(Weight::Stops, "There is no key in it.".into()));
        }
        return;
    }
    let Some(end) = mod_ssl::end_of(&bytes) else {
        return report.add(found(Weight::Stops, "There is no certificate in it.".into()));
    };
    if let Some((level, text)) = mod_ssl::expiry_warning(end, sys::time::realtime().as_secs().cast_signed()) {
        let weight = if level == Level::Error { Weight::Loses } else { Weight::Harmless };
        report.add(found(weight, format!("It {text}.")));
    }
}
