//! The configuration as Apache itself read it: one tree without `Include`, `Define`, `<IfModule>` and `<Macro>`, each
//! directive with its file and line.
//!
//! Apache prints the tree (mod_info's `-DDUMP_CONFIG`), so nothing here has to understand Apache's language, and what Tsubame
//! reads differently shows when it prints the tree too.

mod directive;
mod dump;
mod installed;
mod stand_ins;

pub(crate) use directive::{Directive, Origin, all, quoted, words};
pub(crate) use installed::{Installed, Program};
