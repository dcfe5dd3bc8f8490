//! Certificates obtained from a certificate authority.

pub mod mod_md;
