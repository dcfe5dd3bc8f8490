//! How much of a request's body is kept for those that come after its handler.
//!
//! Apache manual: mod_request. Nobody does: what a page includes is asked for with GET.

use conf::directive::Args::Take1;
use conf::values::number;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome};
use server::Module;

use crate::row;

/// The module.
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "request_module", source: "mod_request.c", linked: false, directives: DIRECTIVES },
    hooks: &[],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("KeptBodySize", Allowed::SECTION, Take1(check_size), "0", "Maximum size of request bodies kept aside for use by filters").without_effect("The body of a request is read once."),
];

fn check_size(_: &mut Cmd<'_>, value: &str) -> Outcome {
    match number(value) {
        Some(0..) => Ok(()),
        _ => Err("KeptBodySize must be a valid size in bytes, or zero.".into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_as_apache_has_them() {
        let wrong = "KeptBodySize must be a valid size in bytes, or zero.";
        crate::testing::check(&[
            ("<Location />\nKeptBodySize 100\n</Location>", ""),
            ("<Location />\nKeptBodySize 0\n</Location>", ""),
            ("<Location />\nKeptBodySize -1\n</Location>", wrong),
            ("<Location />\nKeptBodySize 1k\n</Location>", wrong),
            ("KeptBodySize 100", "KeptBodySize not allowed here"),
        ]);
    }
}
