//! Advice below an error: what to write instead.

use conf::read::Ran;
use conf::words::words;
use conf::{Cause, Error, ModuleInfo};

use super::context::ErrorContext;
use super::names::{name_at, named};

/// Advice for a directive of a module that is not loaded.
pub(super) fn load(info: &ModuleInfo, name: &str, known: &ErrorContext<'_>) -> String {
    let module = info.source.trim_end_matches(".c");
    // PHP's own names: libphp.so, and on Debian php8.2 or another version for a2enmod.
    let (file, debian) = match info.log_name() {
        "php" => ("libphp", "a2enmod with your version, as in php8.2".to_string()),
        name => (module, format!("a2enmod {name}")),
    };
    let line = format!("LoadModule {} {}/{file}.so", info.id, modules_directory(known.ran));
    if info.id.starts_with("mpm_") {
        return format!(
            "Remove it, or put it inside <IfModule {}>: another multi-processing module is loaded",
            info.id
        );
    }
    let modern = match info.id {
        "access_compat_module" if !name.eq_ignore_ascii_case("Satisfy") => {
            "Write `Require all granted`, `Require all denied` or `Require ip ADDRESS` instead, as of Apache 2.4; or add"
        }
        _ => "Add",
    };
    format!("{modern} `{line}` (Debian: {debian})")
}

/// The directory of module files, as the `LoadModule` lines of this configuration write it.
fn modules_directory(ran: &[Ran]) -> String {
    let mut files = ran.iter().filter_map(|ran| {
        let [name, _, file] = words(&ran.text).try_into().ok()?;
        let (directory, _) = file.rsplit_once('/').filter(|_| name.eq_ignore_ascii_case("LoadModule"))?;
        Some(directory.to_string())
    });
    files.next().unwrap_or_else(|| "modules".into())
}

/// Advice for a directive in the wrong place: where it is allowed.
pub(super) fn elsewhere(error: &Error, known: &ErrorContext<'_>) -> Option<String> {
    let is_misplaced = matches!(error.cause(), Some(Cause::NotAllowed | Cause::Misplaced));
    let name = name_at(known.tree, error.origin.as_ref().filter(|_| is_misplaced)?)?;
    let (_, row) = conf::directive::find(known.loaded, name.trim_end_matches('>'))?;
    let place = match row.allowed.phrases().0 {
        _ if row.allowed.global_only() => "only outside all sections",
        // Its function refuses other sections.
        _ if row.name.starts_with("AllowOverride") => "only inside <Directory>",
        place if place.starts_with("only") => place,
        _ => return None,
    };
    Some(format!("Move it: {} is allowed {place}", named(row.name)))
}

/// Advice for a configuration with more than one multi-processing module: the lines that load them.
pub(super) fn mpms(error: &Error, known: &ErrorContext<'_>) -> Option<String> {
    let is_meant = error.cause() == Some(&Cause::SeveralMpms);
    let lines = known.ran.iter().filter(|_| is_meant).filter_map(|ran| {
        let [name, id, _] = words(&ran.text).try_into().ok()?;
        let is_one = name.eq_ignore_ascii_case("LoadModule") && id.starts_with("mpm_");
        is_one.then(|| format!("{id} ({})", ran.origin))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| format!("Load only one of {}", lines.join(", ")))
}
