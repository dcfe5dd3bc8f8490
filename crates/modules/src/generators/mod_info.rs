//! The info page: the modules with their directives and hooks, and the configuration as read.
//!
//! Apache manual: mod_info. The page equals Apache's, line for line, if the facts are the same: Apache's libraries, and
//! phases that do not exist here, are left out.

mod config;
mod entry;
mod hooks;
mod page;

use conf::directive::Args::Take2;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, row};
use server::{Body, Handler, HandlerResult, Hook, Module, Order, Request};

use self::entry::InfoServer;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "info_module", source: "mod_info.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Handler(Order::Middle, Handler::Now(handler)),
        Hook::Dump("DUMP_CONFIG", |server| conf::dump::dump_config(&server.tree, server.infos())),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AddModuleInfo", Allowed::SERVER, Take2(add), "", "a module name and additional information on that module"),
];

fn add(cmd: &mut Cmd<'_>, module: &str, text: &str) -> Outcome {
    let origin = cmd.origin();
    let texts = &mut cmd.server.edit::<InfoServer>().texts;
    // As in Apache, the first line about a module counts.
    if texts.get(module).is_none() {
        texts.set(module.to_string(), text.to_string(), &origin);
    }
    Ok(())
}

fn handler(request: &mut Request) -> HandlerResult {
    if request.handler_name() != Some("server-info") || !matches!(&*request.data.method, "GET" | "HEAD") {
        return HandlerResult::Declined;
    }
    let text = page::html(request);
    request.response.set_content_type("text/html; charset=ISO-8859-1");
    HandlerResult::Body(Body::Bytes(http::text::to_bytes(&text).into_owned().into()))
}

#[cfg(test)]
mod tests {
    /// A phase missing in the page's lists would not be shown.
    #[test]
    fn every_phase_is_on_the_page() {
        let listed: Vec<&str> = super::hooks::phases().collect();
        for module in crate::MODULES {
            for (phase, _) in module.hooks.iter().filter_map(server::Hook::phase) {
                assert!(listed.contains(&phase), "{}: {phase}", module.info.id);
            }
        }
    }

    #[test]
    fn lines_as_measured() {
        crate::testing::check(&[
            (
                "AddModuleInfo mod_dir.c",
                "AddModuleInfo takes two arguments, a module name and additional information on that module",
            ),
            ("<Directory />\nAddModuleInfo a b\n</Directory>", "AddModuleInfo not allowed in <Directory> context"),
            ("AddModuleInfo mod_none.c <b>", ""),
        ]);
    }
}
