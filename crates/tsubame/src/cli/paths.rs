//! The paths that the command line names: the server root and the main file of the configuration.

use std::path::Path;

use super::options::Options;
use crate::version::{CONFIG_FILES, SERVER_ROOT};

/// The initial `ServerRoot`.
pub(crate) fn server_root(options: &Options) -> String {
    let given = options.server_root.as_deref().unwrap_or(SERVER_ROOT);
    conf::paths::join(&options.directory.to_string_lossy(), given)
}

/// The path of the main file.
pub(crate) fn config_file(options: &Options) -> String {
    let root = server_root(options);
    match &options.file {
        Some(file) => conf::paths::join(&root, file),
        None => {
            let candidates = CONFIG_FILES.map(|name| conf::paths::join(&root, name));
            let found = candidates.iter().find(|path| Path::new(path).exists());
            found.unwrap_or(&candidates[0]).clone()
        }
    }
}

/// Advice for a `-f` that names a file of the working directory: as in Apache, a relative one starts at `ServerRoot`.
pub(crate) fn misplaced(options: &Options) -> Option<String> {
    let here = options.directory.join(options.file.as_ref()?);
    let is_only_here = here.is_file() && !Path::new(&config_file(options)).exists();
    is_only_here.then(|| format!("-f starts at ServerRoot, {}: write -f {}", server_root(options), here.display()))
}
