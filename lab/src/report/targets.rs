//! The targets, and whether a run meets them; each experiment has a table of its own.

mod judge;
mod scripts;
mod table;
mod tables;
mod target;
mod verdict;

pub(crate) use judge::judge;
pub(crate) use table::table;
pub(crate) use tables::of;
pub(crate) use verdict::State;
