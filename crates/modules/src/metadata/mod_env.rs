//! Variables for scripts: set, passed on from the server's own environment, or removed.
//!
//! Apache manual: mod_env.

use std::collections::HashSet;
use std::sync::Arc;

use conf::directive::Args::{Iterate, Take12};
use conf::{Allowed, Cmd, Directive, Keyed, Level, ModuleInfo, Outcome, row, settings};
use server::PhaseHook::Now;
use server::{Flow, Hook, Module, Order, Phase, Request};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "env_module", source: "mod_env.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Phase(Phase::Fixups, Order::Middle, Now(fixup))],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("PassEnv", Allowed::FILEINFO, Iterate(pass), "", "a list of environment variables to pass to CGI."),
    row("SetEnv", Allowed::FILEINFO, Take12(|c, name, value| put(c, name, Some(value.unwrap_or_default().to_string()))), "", "an environment variable name and optional value to pass to CGI."),
    row("UnsetEnv", Allowed::FILEINFO, Iterate(|c, name| put(c, name, None)), "", "a list of variables to remove from the CGI environment."),
];

settings! {
    /// The module's settings of a section.
    pub struct EnvConf {
        /// By name in lower case; `None` removes the outer sections' variable.
        vars: Keyed<String, Option<Variable>>,
    }
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    value: Arc<str>,
}

fn pass(cmd: &mut Cmd<'_>, name: &str) -> Outcome {
    match cmd.context.system.env(name) {
        Some(value) => put(cmd, name, Some(value)),
        None => {
            cmd.context.note("env", Level::Warn, format!("AH01506: PassEnv variable {name} was undefined"));
            Ok(())
        }
    }
}

fn put(cmd: &mut Cmd<'_>, name: &str, value: Option<String>) -> Outcome {
    let variable = value.map(|value| Variable { name: name.to_string(), value: value.into() });
    cmd.put(|d: &mut EnvConf| &mut d.vars, name.to_ascii_lowercase(), variable)
}

/// Appends the variables to the existing ones: a look-up finds the one from SetEnvIf, a script gets the last one, which
/// is ours. Apache does the same (measured: captures/12, and `%{x}e` in a log format).
fn fixup(request: &mut Request) -> Flow {
    let dir = request.dir.slots.clone();
    let vars = &dir.get::<EnvConf>().vars;
    if vars.is_empty() {
        return Flow::Declined;
    }
    // The subrequest for an index file may have added some already. There may be thousands, so each is looked at once.
    let mut added = HashSet::new();
    for (name, value) in request.env.iter() {
        let key = name.to_ascii_lowercase();
        if vars.get(&key).is_some_and(|variable| variable.as_ref().is_some_and(|ours| *ours.value == *value)) {
            added.insert(key);
        } else {
            added.remove(&key);
        }
    }
    for Variable { name, value } in
        vars.iter().filter(|(key, _)| !added.contains(*key)).filter_map(|(_, ours)| ours.as_ref())
    {
        request.env.add(name.clone(), value.clone());
    }
    Flow::Declined
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::SettingsMap;

    #[test]
    fn lines_as_measured() {
        crate::testing::check(&[
            ("SetEnv", "SetEnv takes 1-2 arguments, an environment variable name and optional value to pass to CGI."),
            (
                "SetEnv a b c",
                "SetEnv takes 1-2 arguments, an environment variable name and optional value to pass to CGI.",
            ),
            (
                "SetEnv \"\" x",
                "SetEnv takes 1-2 arguments, an environment variable name and optional value to pass to CGI.",
            ),
            ("SetEnv a \"\"", ""),
            ("PassEnv", "PassEnv requires at least one argument, a list of environment variables to pass to CGI."),
            (
                "UnsetEnv",
                "UnsetEnv requires at least one argument, a list of variables to remove from the CGI environment.",
            ),
            ("UnsetEnv a b", ""),
        ]);
        let applied = crate::testing::apply("PassEnv TSUBAME_NOT_THERE");
        let notices = applied.map(|applied| applied.notices).unwrap_or_default();
        let texts: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
        assert_eq!(texts, ["AH01506: PassEnv variable TSUBAME_NOT_THERE was undefined"]);
    }

    #[test]
    fn the_last_line_counts_and_inner_sections_take_away() {
        let dir = |lines: &str| crate::testing::apply(lines).map(|applied| applied.dir).unwrap_or_default();
        let outer = dir("SetEnv a 1\nSetEnv b 1\nUnsetEnv b\nSetEnv c 1\nSetEnv d");
        let inner = dir("UnsetEnv a\nUnsetEnv e\nSetEnv e 2\nSetEnv C 2");
        let merged = SettingsMap::merge(&outer, &inner);
        let vars = merged.get::<EnvConf>().vars.iter().filter_map(|(_, variable)| variable.as_ref());
        let got: Vec<String> = vars.map(|Variable { name, value }| format!("{name}={value}")).collect();
        assert_eq!(got, ["C=2", "d=", "e=2"]);
    }
}
