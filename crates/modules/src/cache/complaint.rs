//! Complaints about storages. The responses come from the origin meanwhile.

use std::io;

use server::VirtualHost;

use crate::complaints::Complaints;

/// Logs a problem, unless this process has logged another one a moment ago.
pub(crate) fn complain(host: &VirtualHost, module: &str, error: Option<&io::Error>, text: &str) {
    static ABOUT_STORAGES: Complaints = Complaints::new();
    ABOUT_STORAGES.log(host, module, module, error, text);
}
