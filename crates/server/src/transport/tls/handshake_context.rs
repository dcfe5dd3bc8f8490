//! Messages from callbacks that rustls runs during a handshake: it gives them no access to the connection.
//!
//! A step of a handshake is one function call, so the thread keeps their messages until the call returns.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use conf::Level;
use rustls::sign::CertifiedKey;

use crate::transport::tls::session::ID;

thread_local! {
    static SESSION: Cell<[u8; ID]> = const { Cell::new([0; ID]) };
    static RESUMED: Cell<Option<[u8; ID]>> = const { Cell::new(None) };
    static SHOWN: RefCell<Option<Arc<CertifiedKey>>> = const { RefCell::new(None) };
    static REMARKS: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

/// Records the certificate shown to the client. Every certificate resolver has to call it.
pub fn shown(certificate: &Arc<CertifiedKey>) {
    SHOWN.set(Some(certificate.clone()));
}

/// The id of the session that a ticket is made for. Every ticket has to carry it.
pub fn session() -> [u8; ID] {
    RESUMED.get().unwrap_or_else(|| SESSION.get())
}

/// Records the id that a ticket of the client carries.
pub fn resumed(id: [u8; ID]) {
    RESUMED.set(Some(id));
}

/// Records a line for the log about the client of the current handshake.
pub fn remark(level: Level, text: String) {
    REMARKS.with_borrow_mut(|remarks| remarks.push((level, text)));
}

/// Before a step: sets the id for the tickets made in it.
pub(super) fn set_session(id: [u8; ID]) {
    SESSION.set(id);
    RESUMED.set(None);
}

/// After a step: the id from a ticket that was opened in it.
pub(super) fn take_resumed() -> Option<[u8; ID]> {
    RESUMED.take()
}

pub(super) fn take_shown() -> Option<Arc<CertifiedKey>> {
    SHOWN.take()
}

pub(crate) fn take_remarks() -> Vec<(Level, String)> {
    REMARKS.take()
}
