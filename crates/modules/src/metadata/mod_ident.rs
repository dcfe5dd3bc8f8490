//! User names reported by the client's own machine (RFC 1413): refused.
//!
//! Apache manual: mod_ident. The manual itself says that such responses cannot be trusted in any way, and that each
//! request waits for them. A name that anybody can make up does not belong in a log.

use conf::directive::Args::{Flag, Take1};
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, row};
use server::Module;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "ident_module", source: "mod_ident.c", linked: false, directives: DIRECTIVES },
    hooks: &[],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("IdentityCheck", Allowed::CONF, Flag(set), "Off", "Enable identd (RFC 1413) user lookups - SLOW").differs("Only `Off`: the answer of a client's machine about its users proves nothing."),
    row("IdentityCheckTimeout", Allowed::CONF, Take1(|_, _| Ok(())), "30", "Identity check (RFC 1413) timeout duration (sec)").without_effect("The server never asks a client."),
];

fn set(_: &mut Cmd<'_>, on: bool) -> Outcome {
    match on {
        true => {
            Err("IdentityCheck On: the answer of a client's machine about its users (RFC 1413) proves nothing, so the \
             server never asks; remove the line"
                .into())
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_off_is_taken() {
        let on = crate::testing::apply("IdentityCheck On").err();
        assert!(on.is_some_and(|why| why.starts_with("IdentityCheck On: ")));
        assert!(crate::testing::apply("IdentityCheck Off\nIdentityCheckTimeout 5").is_ok());
    }
}
