//! Tunnels for the clients of a forward proxy: `CONNECT`.
//!
//! Apache manual: mod_proxy_connect. Doubtful cases were measured on 2.4.71.

use conf::directive::Args::Iterate;
use conf::values::atoi;
use conf::{Allowed, Cmd, Directive, Listed, ModuleInfo, Outcome, row, settings};
use http::Authority;
use server::{HandlerResult, Module, Request, Tunnel};
use upstream::{Address, NoConnection, RemoteServer, connect_either_first};

use super::mod_proxy::{BLOCKED, Wanted, find, proxy_error, timeout};
use super::mod_proxy_http::pass_on;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "proxy_connect_module",
        source: "mod_proxy_connect.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AllowCONNECT", Allowed::SERVER, Iterate(allow), "443 563", "A list of ports or port ranges which CONNECT may connect to"),
];

/// The ports without `AllowCONNECT`: https and snews.
const PORTS: [Ports; 2] = [Ports { first: 443, last: 443 }, Ports { first: 563, last: 563 }];

settings! {
    /// The module's settings of a server.
    pub struct ConnectServer {
        ports: Listed<Ports>,
    }
}

/// A range of ports, which may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    first: i32,
    last: i32,
}

/// `AllowCONNECT`
fn allow(cmd: &mut Cmd<'_>, word: &str) -> Outcome {
    let ports = ports(word)?;
    cmd.server_push(|s: &mut ConnectServer| &mut s.ports, ports)
}

fn ports(word: &str) -> Result<Ports, String> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("AllowCONNECT: port numbers must be numeric".into());
    }
    let (first, last) = match word.split_once('-') {
        Some((_, "")) => return Err("Cannot parse '' as port number".into()),
        Some((first, last)) => (atoi(first), atoi(last)),
        None => (atoi(word), atoi(word)),
    };
    Ok(Ports { first, last })
}

/// Whether a request asks for a tunnel, for mod_proxy.
pub(super) fn is_asked(request: &Request) -> bool {
    request.data.forward && request.data.method == "CONNECT"
}

fn is_allowed(request: &Request, port: u16) -> bool {
    let own = &request.host::<ConnectServer>().ports;
    let has = |ports: &Ports| (ports.first..=ports.last).contains(&i32::from(port));
    if own.is_empty() { PORTS.iter().any(has) } else { own.iter().any(has) }
}

/// Opens the tunnel.
pub(super) async fn connect(request: &mut Request) -> HandlerResult {
    let url = request.mapped.backend_url().unwrap_or_default().to_string();
    let parsed = Authority::parse(url.as_bytes(), true);
    let Some((host, port)) =
        parsed.and_then(|parsed| Some((http::text::from_bytes(parsed.host).into_owned(), parsed.port?)))
    else {
        return proxy_error(request, 400, &format!("URI cannot be parsed: {url}"));
    };
    if !request.body.is_none() {
        return proxy_error(request, 400, "CONNECT has no request body");
    }
    if !is_allowed(request, port) {
        return proxy_error(request, 403, BLOCKED);
    }
    let silence = timeout(request);
    let mut server = RemoteServer {
        address: Address::Tcp(host.clone(), port),
        name: url.clone(),
        connect: silence,
        keep: None,
        tls: None,
        way: None,
        tally: None,
    };
    let wanted = Wanted { url: &url, host: &host, port, by_tunnel: true };
    if let Err(none) = find(request, &mut server, &wanted).await {
        return none.answer(request);
    }
    match connect_either_first(request, &server, "CONNECT").await {
        Ok((connection, first)) => HandlerResult::Tunnel(Box::new(Tunnel {
            protocol: None,
            speak: Box::new(move |client| Box::pin(pass_on(client, connection, first))),
            timeout: Some(silence),
        })),
        Err(NoConnection::Refused) => proxy_error(request, 403, BLOCKED),
        // As in Apache, a name without an address is the fault of what is behind this server.
        Err(NoConnection::Unreachable(500)) => HandlerResult::Status(502),
        Err(why) => HandlerResult::Status(why.status()),
    }
}
