//! Transports: how bytes come from a client and go to it, and how long that may take.

pub(crate) mod buffers;
pub(crate) mod socket;
pub(crate) mod tick;
pub(crate) mod timer;
