//! The modules of the program, and the names that pages give them.

use conf::ModuleInfo;

/// Every module of the program, the core module's two tables first.
pub(crate) fn infos() -> Vec<&'static ModuleInfo> {
    server::module::set_known(modules::MODULES);
    let mpms = [&mpm::tables::PERCORE, &mpm::tables::PREFORK, &mpm::tables::WORKER, &mpm::tables::EVENT];
    std::iter::once(&mpm::tables::CORE).chain(server::known_infos()).chain(mpms).collect()
}

/// The common name of a module: `mod_alias`, `core`, `mpm_prefork`.
pub(super) fn title(info: &ModuleInfo) -> String {
    let mpm = info.id.strip_suffix("_module").filter(|name| name.starts_with("mpm_"));
    mpm.unwrap_or_else(|| info.source.trim_end_matches(".c")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_their_names() {
        let titles: Vec<String> = infos().iter().map(|info| title(info)).collect();
        assert!(["core", "mod_dir", "mpm_prefork"].iter().all(|name| titles.iter().any(|title| title == name)));
    }
}
