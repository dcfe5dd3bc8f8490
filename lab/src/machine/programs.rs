//! Finds the programs of other servers, which are often outside an ordinary user's PATH.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::machine::error::{Error, Result};

/// Directories for servers that may be missing in PATH.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The first of `names` that is an executable in PATH or in the system directories.
pub(crate) fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> =
        std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from)).collect();
    names
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)))
        .find(|candidate| is_executable(candidate))
}

/// The tsubame to measure: the one specified, or that of the current workspace, as a package would hold it (the profile
/// `dist`) rather than a release build, or the one beside the laboratory's own program.
pub(crate) fn find_tsubame(asked: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(asked) = asked {
        let found = is_executable(asked).then(|| std::path::absolute(asked).ok()).flatten();
        return found.map(Some).ok_or_else(|| {
            Error::new(format!("{} is not a program", asked.display()))
                .advise("cargo build --profile dist, then --tsubame target/dist/tsubame")
        });
    }
    let here = std::env::current_dir().unwrap_or_default();
    Ok(here
        .ancestors()
        .filter(|directory| directory.join("Cargo.lock").is_file())
        .flat_map(|directory| ["dist", "release"].map(|profile| directory.join("target").join(profile).join("tsubame")))
        .chain(beside_own())
        .find(|candidate| is_executable(candidate)))
}

/// Beside the laboratory's own program. A debug build there is not worth measuring.
fn beside_own() -> Option<PathBuf> {
    let own = std::env::current_exe().ok().filter(|_| !cfg!(debug_assertions));
    own.map(|own| own.with_file_name("tsubame"))
}

/// Everything a program prints on either stream, as version messages appear on both.
pub(crate) fn output_of(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Some(text)
}

/// A program's version: the first line it prints, without the usual labels.
pub(crate) fn version_of(program: &Path, arguments: &[&str]) -> Option<String> {
    let text = output_of(program, arguments)?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(unlabelled(line).to_owned())
}

fn unlabelled(line: &str) -> &str {
    ["Server version: ", "nginx version: "].iter().find_map(|label| line.strip_prefix(label)).unwrap_or(line)
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_every_system_has() {
        assert!(find(&["no-such-program", "sh"]).is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find(&["no-such-program"]), None);
    }

    #[test]
    fn a_program_that_was_asked_for_must_exist() {
        let error = find_tsubame(Some(Path::new("/no/tsubame"))).unwrap_err();
        assert!(error.to_string().contains("cargo build"), "{error}");
    }

    #[test]
    fn labels_of_versions_are_dropped() {
        assert_eq!(unlabelled("Server version: Apache/2.4.1"), "Apache/2.4.1");
        assert_eq!(unlabelled("h2o version 2.2.5"), "h2o version 2.2.5");
    }
}
