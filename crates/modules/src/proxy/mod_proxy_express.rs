//! Many hosts and their backends in a DBM file.
//!
//! Apache manual: mod_proxy_express.

use conf::directive::Args::{Flag, Take1};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, Setting, on_or_off, row, settings};
use server::{Flow, Hook, Module, Order, Phase, PhaseHook, Request, TO_BACKEND};

use super::mod_proxy::EXPRESS;
use crate::aaa::dbm;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "proxy_express_module",
        source: "mod_proxy_express.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(
            Phase::Translate,
            Order::First,
            PhaseHook::Later { claims: is_enabled, run: |request| Box::pin(translate(request)) },
        ),
    ],
};

const ANYWHERE: Allowed = Allowed::FILEINFO.or(Allowed::KEPT_NOWHERE);

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ProxyExpressEnable", ANYWHERE, Flag(|c, on| { of_server(c)?; c.server_set(|s: &mut ExpressServer| &mut s.enabled, on) }), on_or_off(ENABLED), "Enable the ProxyExpress functionality").differs(PLACE),
    row("ProxyExpressDBMFile", ANYWHERE, Take1(|c, path| { of_server(c)?; let path = c.context.server_relative(path); c.server_set(|s: &mut ExpressServer| &mut s.file, path) }), "", "Location of ProxyExpressDBMFile file").differs(PLACE),
    row("ProxyExpressDBMType", ANYWHERE, Take1(|c, kind| { of_server(c)?; c.server_set(|s: &mut ExpressServer| &mut s.kind, kind.to_string()) }), "default", "Type of ProxyExpressDBMFile file").differs(PLACE_AND_TYPES),
];

/// Whether it is on by default.
const ENABLED: bool = false;
const PLACE: &str = "It is refused in sections and in `.htaccess`: Apache takes it there for the whole server.";
const PLACE_AND_TYPES: &str = "It is refused in sections and in `.htaccess`: Apache takes it there for the whole server. The types are those of \
     `AuthDBMType`.";

settings! {
    /// The module's settings of a server.
    pub struct ExpressServer {
        enabled: Setting<bool> = ENABLED,
        file: Setting<String>,
        kind: Setting<String>,
    }
}

fn of_server(cmd: &Cmd<'_>) -> Outcome {
    match cmd.place.htaccess || cmd.place.path.is_some() {
        true => Err(format!("{} not allowed here: it is about a whole server", cmd.row.name).into()),
        false => Ok(()),
    }
}

fn is_enabled(request: &Request) -> bool {
    let conf = request.host::<ExpressServer>();
    conf.enabled() && conf.file.is_set() && request.mapped.backend_url().is_none() && request.data.uri.starts_with('/')
}

/// Maps the request to the backend of its host, if it has one.
async fn translate(request: &mut Request) -> Flow {
    let conf = request.vhost.settings.get::<ExpressServer>();
    let kind = conf.kind.get().cloned();
    let file = dbm::Named { path: conf.file.get().cloned(), kind: kind.unwrap_or_else(|| dbm::Named::default().kind) };
    let name = request.server_name().to_ascii_lowercase();
    let backend = match file.get(request, &[&name]).await {
        Ok(Some(backend)) => backend,
        Ok(None) => return Flow::Declined,
        Err(error) => {
            // The files below DocumentRoot are not what this host is for.
            let text = format!("{}: the backends of hosts cannot be read", file.path.unwrap_or_default());
            request.log_os("proxy_express", Level::Error, &error, text);
            return Flow::Status(500);
        }
    };
    let origin = conf.file.origin();
    let backend = backend.trim_end_matches('/');
    request.mapped.filename = format!("{TO_BACKEND}{backend}{}", request.data.uri);
    request.mapped.handler = Some("proxy-server".into());
    request.notes.set(EXPRESS, backend.to_string());
    request.note_step("proxy_express", origin, |_| format!("ProxyExpress: {name} is at {backend}"));
    Flow::Ok
}
