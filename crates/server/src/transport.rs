//! Transports: they carry bytes from and to a client, and limit the time for that.
//!
//! A transport knows nothing of the protocol spoken over it, and no protocol knows what carries its bytes.

pub(crate) mod endpoint;
pub mod park_state;
pub(crate) mod socket;
pub(crate) mod stream;
pub mod tls;
pub(crate) use self::endpoint::unless_reset;
