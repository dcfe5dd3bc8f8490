//! Conditions that error logs must meet before a configuration is accepted.

use conf::{Cause, Context, Error, Level, Notice};

use crate::log::{DEFAULT_NAME, ErrorLog, has_own_name};
use crate::paths::{c_path, why_no_directory};
use crate::settings::core::CoreServer;
use crate::settings::draft::Draft;

/// Checks that the directories of all error logs exist: the main server's, then those of the virtual hosts, the last
/// one first. Reports all that are missing.
pub(crate) fn check_directories(draft: &Draft, context: &mut Context) -> Result<(), Error> {
    let main = draft.main.get::<CoreServer>().error_log.get().map_or(DEFAULT_NAME, String::as_str);
    let hosts = draft.hosts.iter().rev().filter_map(|host| {
        let name = host.own.get::<CoreServer>().error_log.get()?;
        Some((name.as_str(), format!("error log of vhost defined at {}", host.origin)))
    });
    let mut missing: Vec<(String, Cause)> = std::iter::once((main, "main error log".to_string()))
        .chain(hosts)
        .filter_map(|(name, whose)| {
            let dir = ErrorLog::directory(name, context).filter(|dir| !context.system.is_dir(dir))?;
            let why = why_no_directory(&*context.system, &dir);
            let text = format!("{why}: AH02291: Cannot access directory '{dir}' for {whose}");
            Some((text, Cause::NoLogDirectory(dir)))
        })
        .collect();
    let Some((last, cause)) = missing.pop() else { return Ok(()) };
    let notice = |(text, cause)| Notice::new("core", Level::Emerg, text).bare().because(cause);
    context.notices.extend(missing.into_iter().map(notice));
    Err(Error::check(last).because(cause))
}

/// Where an ordinary user starts a server without a `DefaultRuntimeDir`, and may not write to `logs` below `ServerRoot` (which
/// may be root's, in a tree of the system), files that exist while the server runs go beside the error log instead.
pub(crate) fn choose_runtime_directory(draft: &Draft, context: &mut Context) {
    if sys::cred::is_root() || context.language.runtime_dir.is_some() {
        return;
    }
    let may_write = |path: &str| c_path(path).is_some_and(|path| sys::file::may_write(&path).is_ok());
    let main = draft.main.get::<CoreServer>().error_log.get().map_or(DEFAULT_NAME, String::as_str);
    // `/dev/stderr` and its like lie in no directory for files.
    let beside = ErrorLog::directory(main, context).filter(|directory| has_own_name(directory) && may_write(directory));
    if let Some(directory) = beside.filter(|_| !may_write(&context.language.runtime_dir())) {
        context.language.runtime_dir = Some(directory.trim_end_matches('/').to_string());
    }
}
