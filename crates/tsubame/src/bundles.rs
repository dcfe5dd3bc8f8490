//! A whole configuration in one file, and the versions of it that a machine has.

mod archive;
mod bundle;
mod drift;
mod files;
mod manifest;
mod names;
mod references;
mod store;

pub(crate) use self::bundle::Bundle;
pub(crate) use self::drift::drift;
pub(crate) use self::files::{Files, Seen};
pub(crate) use self::manifest::{Given, Manifest, digest};
pub(crate) use self::names::Places;
pub(crate) use self::references::{missing, referenced, unusable};
pub(crate) use self::store::{State, Store};
