//! The promises, and whether a run keeps them; each experiment has a table of its own.

mod judge;
mod promise;
mod scripts;
mod table;
mod tables;
mod verdict;

pub(crate) use judge::judge;
pub(crate) use table::table;
pub(crate) use tables::of;
