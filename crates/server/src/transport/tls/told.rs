//! What those have to say whom rustls calls in a handshake: it gives them no way to the connection.
//!
//! A step of a handshake is one function call, so what they say waits with the thread until that has returned.

use std::cell::RefCell;
use std::sync::Arc;

use conf::Level;
use rustls::sign::CertifiedKey;

thread_local! {
    static SHOWN: RefCell<Option<Arc<CertifiedKey>>> = const { RefCell::new(None) };
    static REMARKS: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

/// The client is shown this certificate. Whoever chooses one says so.
pub fn shown(certificate: &Arc<CertifiedKey>) {
    SHOWN.set(Some(certificate.clone()));
}

/// A line for the log about the client whose handshake it is.
pub fn remark(level: Level, text: String) {
    REMARKS.with_borrow_mut(|remarks| remarks.push((level, text)));
}

pub(super) fn take_shown() -> Option<Arc<CertifiedKey>> {
    SHOWN.take()
}

pub(crate) fn take_remarks() -> Vec<(Level, String)> {
    REMARKS.take()
}
