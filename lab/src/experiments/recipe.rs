//! How to start a server: its configuration, its command line, and the program beside it.

use std::path::PathBuf;

use crate::experiments::program::Program;

/// How to start a server for a site.
#[derive(Debug, Default)]
pub(crate) struct Recipe {
    /// Files to write into the site's directory.
    pub(crate) files: Vec<ConfigFile>,
    /// The command line after the program.
    pub(crate) arguments: Vec<String>,
    /// Additional environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Another program that has to run beside it.
    pub(crate) backend: Option<Backend>,
}

/// A program to which a server passes requests. It starts first, and counts as a part of the server.
#[derive(Debug)]
pub(crate) struct Backend {
    /// The program to start.
    pub(crate) program: Program,
    /// Its configuration.
    pub(crate) file: ConfigFile,
    /// The arguments before the name of that file.
    pub(crate) arguments: Vec<String>,
    /// The file that exists once it can be used.
    pub(crate) ready: PathBuf,
}

/// One file of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    /// Its name relative to the site's directory.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
    /// Whether it is used as installed on the machine, and thus not worth storing beside the results.
    pub(crate) as_installed: bool,
}

impl ConfigFile {
    /// A file that the laboratory composed.
    pub(crate) fn composed(name: impl Into<String>, text: String) -> Self {
        Self { name: name.into(), text, as_installed: false }
    }
}
