//! One file per Apache module.

#![forbid(unsafe_code)]
