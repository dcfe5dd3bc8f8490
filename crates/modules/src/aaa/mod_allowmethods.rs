//! The methods that a section allows.
//!
//! Apache manual: mod_allowmethods.

use conf::directive::Args::Words;
use conf::{Allowed, Cmd, Directive, Gathered, Level, ModuleInfo, Outcome, Refusal, row, settings};
use server::PhaseHook::Now;
use server::core::Methods;
use server::{Flow, Hook, Module, Order, Phase, Request};

use super::denied_thing;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "allowmethods_module", source: "mod_allowmethods.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Phase(Phase::AccessChecker, Order::ReallyFirst, Now(check))],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AllowMethods", Allowed::SECTION, Words(set), "reset", "only allow specific methods"),
];

settings! {
    /// The module's settings of a section.
    pub struct AllowMethodsDir {
        /// `None` in the list: all are allowed.
        methods: Gathered<Vec<String>>,
    }
}

fn set(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let origin = cmd.origin();
    match words {
        [] => return Err(Refusal::missing("AllowMethods: No method or 'reset' keyword given")),
        [only] if only.eq_ignore_ascii_case("reset") => {
            cmd.dir.edit::<AllowMethodsDir>().methods.begin(&origin);
            return Ok(());
        }
        _ => {}
    }
    let known = cmd.context.language.kept.get::<Methods>();
    if let Some(at) = words.iter().position(|word| !known.knows(word)) {
        return Err(Refusal::argument(at + 1, format!("AllowMethods: Invalid Method '{}'", words[at])));
    }
    let methods = cmd.dir.edit::<AllowMethodsDir>().methods.edit(&origin);
    for word in words {
        // HEAD is GET without its body: each allows the other.
        let both = if matches!(word.as_str(), "GET" | "HEAD") { &["GET", "HEAD"][..] } else { &[word.as_str()] };
        for method in both {
            if !methods.iter().any(|have| have == method) {
                methods.push(method.to_string());
            }
        }
    }
    Ok(())
}

fn check(request: &mut Request) -> Flow {
    let dir = request.dir.slots.clone();
    let methods = &dir.get::<AllowMethodsDir>().methods;
    let Some(allowed) = methods.get().filter(|methods| !methods.is_empty()) else { return Flow::Declined };
    let is_allowed = allowed.iter().any(|allowed| *allowed == request.data.method);
    request.response.allowed = Some(allowed.clone());
    if is_allowed {
        return Flow::Declined;
    }
    request.note_step("allowmethods", methods.origin(), |_| format!("AllowMethods: {}", allowed.join(" ")));
    let text = format!(
        "AH01623: client method denied by server configuration: '{}' to {}",
        request.data.method,
        denied_thing(request)
    );
    request.log("allowmethods", Level::Error, text);
    request.note_reason(405, "allowmethods", methods.origin(), |request| {
        (format!("AllowMethods {}", allowed.join(" ")), format!("does not allow {}", request.data.method))
    });
    Flow::Status(405)
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            ("<Location />\nAllowMethods\n</Location>", "AllowMethods: No method or 'reset' keyword given"),
            ("<Location />\nAllowMethods GET FOO\n</Location>", "AllowMethods: Invalid Method 'FOO'"),
            ("<Location />\nAllowMethods reset GET\n</Location>", "AllowMethods: Invalid Method 'reset'"),
            ("RegisterHttpMethod FOO\n<Location />\nAllowMethods GET FOO\nAllowMethods Reset\n</Location>", ""),
        ]);
    }
}
