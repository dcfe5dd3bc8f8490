//! What is known of a configuration when one of its errors is explained.

use conf::read::Ran;
use conf::{ModuleInfo, Node, Notice};
use server::{Failed, Loaded};

/// The parts of a configuration that are used to explain an error.
pub(crate) struct ErrorContext<'a> {
    /// The directives and sections of the configuration.
    pub(crate) tree: &'a [Node],
    /// The lines that took effect while the configuration was read.
    pub(crate) ran: &'a [Ran],
    /// The modules that are loaded.
    pub(crate) loaded: &'a [&'static ModuleInfo],
    /// The notices of the reader.
    pub(crate) notices: &'a [Notice],
}

impl<'a> From<&'a Failed> for ErrorContext<'a> {
    fn from(failed: &'a Failed) -> ErrorContext<'a> {
        let Failed { tree, ran, notices, language, .. } = failed;
        ErrorContext { tree, ran, notices, loaded: language.loaded() }
    }
}

impl<'a> From<&'a Loaded> for ErrorContext<'a> {
    fn from(loaded: &'a Loaded) -> ErrorContext<'a> {
        let Loaded { server, notices, .. } = loaded;
        ErrorContext { tree: &server.tree, ran: &server.ran, notices, loaded: server.infos() }
    }
}
