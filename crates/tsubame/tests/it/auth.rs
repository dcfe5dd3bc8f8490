//! Who may come in: passwords, users, groups, names, sessions.

pub mod authorization;
pub mod connection_limits;
pub mod databases;
pub mod digest;
pub mod fastcgi_authorizers;
pub mod ldap;
pub mod limits;
pub mod names;
pub mod passwords;
pub mod sessions;
pub mod shared;
pub mod users;
