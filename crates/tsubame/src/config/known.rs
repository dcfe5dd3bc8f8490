//! All modules of the program, with the multi-processing modules.

use std::sync::LazyLock;

use conf::ModuleInfo;

/// Every module of the program.
pub(super) static KNOWN: LazyLock<Vec<&'static ModuleInfo>> = LazyLock::new(|| {
    let mpms = [&mpm::tables::PREFORK, &mpm::tables::WORKER, &mpm::tables::EVENT, &mpm::tables::PERCORE];
    [&mpm::tables::CORE].into_iter().chain(server::known_infos()).chain(mpms).collect()
});

/// The modules without any `LoadModule` line: all of them, and one MPM.
pub(super) static UNSELECTED: LazyLock<Vec<&'static ModuleInfo>> = LazyLock::new(|| {
    let others = KNOWN.iter().filter(|info| !info.id.starts_with("mpm_"));
    others.copied().chain([&mpm::tables::PERCORE]).collect()
});

/// Every module of the program, and the MPMs.
pub(crate) fn known_modules() -> &'static [&'static ModuleInfo] {
    &KNOWN
}
