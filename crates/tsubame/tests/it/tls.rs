//! TLS: handshakes, certificates, clients' certificates, and the authorities that issue them.

pub mod acme;
pub mod acme_faults;
pub mod ssl;
pub mod tls_certificates;
pub mod tls_client;
pub mod tls_faults;
pub mod tls_hosts;
pub mod tls_renewal;
pub mod tls_revocation;
pub mod tls_stapling;
