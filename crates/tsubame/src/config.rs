//! The configuration that the command line names, and the modules that may take part in it.

mod envvars;
mod identity;
mod inputs;
mod known;
mod read;

pub(crate) use self::identity::{become_child, identity};
pub(crate) use self::inputs::{ConfigSource, ReadSources, says_something};
pub(crate) use self::known::known_modules;
pub(crate) use self::read::{Configured, read, read_everything, read_language, socket};
