//! `tsubame ctl log-level`: shows and changes log levels.

use std::fmt::Write as _;

use conf::Level;
use runtime::log_levels::{self, ALL};
use serde_json::json;
use server::Server;

/// Shows or changes the log levels of the running server.
pub(super) fn change(server: &Server, words: &[&str], json: bool) -> Result<String, String> {
    match *words {
        [] => {}
        ["reset"] => log_levels::clear(),
        [module, level] => {
            let level =
                Level::parse(level).ok_or_else(|| format!("unknown level '{level}'; the levels are {}", names()))?;
            let loaded = || server.infos().iter().find(|info| info.logs_as(module)).map(|info| info.log_name());
            let unknown = || format!("{module}: no such module is loaded; `*` stands for all");
            let name = if module == ALL { ALL } else { loaded().ok_or_else(unknown)? };
            log_levels::set(name, level)?;
        }
        _ => return Err("log-level MODULE LEVEL, log-level reset, or log-level alone".into()),
    }
    Ok(show(server, json))
}

fn show(server: &Server, json: bool) -> String {
    let set: Vec<(&str, &str)> = modules(server)
        .into_iter()
        .chain([ALL])
        .filter_map(|module| Some((module, log_levels::own(module)?.name())))
        .collect();
    if json {
        let set: serde_json::Map<_, _> = set.into_iter().map(|(module, level)| (module.into(), level.into())).collect();
        return format!("{:#}\n", json!({ "log_levels": set }));
    }
    if set.is_empty() {
        return "all levels are those of the configuration\n".into();
    }
    set.into_iter().fold(String::new(), |mut out, (module, level)| {
        let _ = writeln!(out, "{module} {level}");
        out
    })
}

fn modules(server: &Server) -> Vec<&'static str> {
    let mut names: Vec<&str> = server.infos().iter().map(|info| info.log_name()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn names() -> String {
    Level::NAMES.map(|(name, _)| name).join(" ")
}
