//! The shared table of scripts: which run, which wait, and how much memory they needed before. In memory shared by all
//! processes of the server, under one lock that survives the death of its holder.

mod entries;
mod header;
mod layout;
mod lock;
mod record;
#[cfg(test)]
mod tests;
mod usage;

pub(super) use layout::{EntryState, Table, now};
pub(super) use lock::Locked;
pub use record::ScriptStats;
pub(super) use usage::Usage;
