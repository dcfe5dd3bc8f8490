//! Client certificates: the requirements (`SSLVerifyClient` and its relatives), and the result of their verification.
//! Certificates of servers behind this one are judged by the same rules.
//!
//! webpki builds and checks the chains. This module adds the parts that webpki does not support: `SSLVerifyDepth`,
//! `optional_no_ca`, expired roots, certificates without extensions (X.509 version 1), which `openssl x509 -req` still
//! makes, and OpenSSL's error messages.

mod admission;
mod chain;
mod failure;
mod files;
mod judge;
mod lists;
mod online;
mod outcome;
mod parse;
mod requirements;
mod reread;
mod signatures;
mod verifier;

pub(super) use self::admission::admit;
pub(super) use self::failure::{Failure, Reason};
pub(super) use self::files::{List, certificates_of, hashed, lists, lists_in};
pub(super) use self::judge::{Judge, Side};
pub(super) use self::lists::Current;
pub(super) use self::outcome::{outcome, trust};
pub(super) use self::parse::{is_self_issued, is_signed, parse, valid};
pub(super) use self::requirements::{Clients, prepare};
pub(super) use self::reread::{memory, read_again};
pub(super) use self::signatures::{verify_tls12, verify_tls13};
pub(super) use self::verifier::describe;
