//! The Apache configuration language, without I/O: text in, values out.
//!
//! Reading takes two steps, as in Apache httpd:
//!
//! 1. [`read`](read::Reader) turns text into a [tree](tree::Node) of directives and sections. The directives
//!    that decide what is read at all (`Include`, `Define`, `<IfModule>`, `<Macro>`, `LoadModule` …) run here.
//! 2. [`apply`](apply::apply) walks the tree with the [directive tables](directive::Directive) of the loaded
//!    modules and fills typed [settings](settings::Settings), each value with its [origin](source::Origin).
//!
//! The field's type defines how values merge ([`settings::Merge`]); only [`values`] parses values. Access to the
//! machine (files, environment, user names) goes through the [`System`](system::System) trait.

#![forbid(unsafe_code)]

mod allowed;
mod apply;
mod arguments;
mod context;
pub mod directive;
pub mod dump;
pub mod error;
pub mod excerpt;
pub mod expr;
pub mod fnmatch;
pub mod ip;
mod language;
pub mod lines;
mod macros;
mod nearest;
pub mod paths;
pub mod pattern;
pub mod read;
mod refusal;
pub mod settings;
mod shown;
pub mod source;
pub mod system;
pub mod tree;
pub mod values;
pub mod words;

pub use allowed::Allowed;
pub use apply::apply;
pub use context::{DirectiveContext, Limited};
pub use directive::{Args, Cmd, Context, Directive, ModuleInfo, OnRead, Remark, row};
pub use error::{Cause, Error, Errors, Level, Notice};
pub use excerpt::{Excerpt, Marked, Spot};
pub use language::{Language, VERSION};
pub use nearest::nearest_name;
pub use read::Reader;
pub use refusal::{Failure, InArgument, Outcome, Refusal};
pub use settings::{Gathered, Keyed, Listed, Merge, Own, Setting, Settings, SettingsMap, Stacked};
pub use shown::{Digits, on_or_off};
pub use source::{Origin, Source};
pub use system::{FileKind, System};
pub use tree::Node;
