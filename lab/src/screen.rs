//! What a terminal shows: text, colours, tables, bars and progress.

#[macro_use]
pub(crate) mod say;

pub(crate) mod blocks;
pub(crate) mod no_echo;
pub(crate) mod progress;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;
