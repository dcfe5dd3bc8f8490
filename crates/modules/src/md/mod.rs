//! Certificates that are fetched from a certificate authority.

pub mod mod_md;
