//! Messages from callbacks that rustls runs during a handshake: it gives them no access to the connection.
//!
//! A step of a handshake is one function call, so the thread keeps their messages until the call returns.

use std::cell::RefCell;
use std::sync::Arc;

use conf::Level;
use rustls::sign::CertifiedKey;

thread_local! {
    static SHOWN: RefCell<Option<Arc<CertifiedKey>>> = const { RefCell::new(None) };
    static REMARKS: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

/// Records the certificate shown to the client. Every certificate resolver has to call it.
pub fn shown(certificate: &Arc<CertifiedKey>) {
    SHOWN.set(Some(certificate.clone()));
}

/// Records a line for the log about the client of the current handshake.
pub fn remark(level: Level, text: String) {
    REMARKS.with_borrow_mut(|remarks| remarks.push((level, text)));
}

pub(super) fn take_shown() -> Option<Arc<CertifiedKey>> {
    SHOWN.take()
}

pub(crate) fn take_remarks() -> Vec<(Level, String)> {
    REMARKS.take()
}
