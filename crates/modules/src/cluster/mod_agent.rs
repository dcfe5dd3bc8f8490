//! Tells load balancers how much work this server can take, and whether it wants any.
//!
//! Not one of Apache's modules: docs/fleet.md.

mod answering;
mod weight;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use conf::directive::Args::Take1;
use conf::{Allowed, Cmd, Directive, ModuleInfo, Outcome, Setting, row, settings};
use runtime::HelperProcess;
use runtime::scoreboard::{self, Duty};
use server::{Body, Handler, HandlerResult, HelperHook, Hook, Module, Order, Request, Server};
use sys::cred::Identity;
use sys::notify::predecessor;
use sys::socket::{ListenError, ListenOptions, listen};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "agent_module", source: "mod_agent.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::HelperProcess(&HELPER),
        Hook::Handler(Order::Middle, Handler::Now(handler)),
        Hook::Command("ready", |_, json| set_duty("ready", Duty::Ready, json)),
        Hook::Command("drain", |_, json| set_duty("drain", Duty::Drain, json)),
        Hook::Command("maintenance", |_, json| set_duty("maintenance", Duty::Maintenance, json)),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("AgentListen", Allowed::GLOBAL, Take1(set_address), "none", "Where HAProxy's agent check asks how much work this server can take: an address and a port, a port of 127.0.0.1, or none").syntax("[address:]port|none"),
];

settings! {
    /// The module's settings of a server.
    pub struct AgentServer {
        address: Setting<Option<SocketAddr>>,
    }
}

fn set_address(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let own = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let address = match value.parse().map(own).or_else(|_| value.parse::<SocketAddr>()) {
        _ if value.eq_ignore_ascii_case("none") => None,
        Ok(address) if address.port() != 0 => Some(address),
        _ => {
            let text = "neither none nor a port nor a numeric address with a port, such as 192.0.2.1:9009";
            return Err(format!("AgentListen: '{value}' is {text}").into());
        }
    };
    cmd.server_set(|s: &mut AgentServer| &mut s.address, address)
}

static HELPER: HelperHook = helper;

/// The socket, which stays open as long as its line does: a restart refuses nobody.
static LISTENER: Mutex<Option<(SocketAddr, Arc<OwnedFd>)>> = Mutex::new(None);

fn helper(server: &Arc<Server>, _: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    let mut known = LISTENER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(address) = server.main().settings.get::<AgentServer>().address.value_or(None) else {
        *known = None;
        return Ok(None);
    };
    let kept = known.as_ref().filter(|(of, _)| *of == address).map(|(_, listener)| listener.clone());
    let listener = match kept {
        Some(listener) => listener,
        None => Arc::new(open(address)?),
    };
    *known = Some((address, listener.clone()));
    Ok(Some(HelperProcess {
        name: "agent",
        count: 1,
        privileged: false,
        starts_scripts: false,
        life: Box::new(move |orders| answering::serve(&listener, orders)),
    }))
}

/// How many balancers may ask at once.
const BACKLOG: i32 = 128;

/// Shares the port with the program that this one replaces (`-k upgrade`), and with an earlier configuration's helper.
fn open(address: SocketAddr) -> Result<OwnedFd, String> {
    /// Whether another server was looked for at the port.
    static LOOKED: AtomicBool = AtomicBool::new(false);
    let options = ListenOptions { backlog: BACKLOG, ..ListenOptions::default() };
    let is_first = !LOOKED.swap(true, Relaxed) && predecessor().is_none();
    // A port that another server shares unasked would tell balancers now of the one and now of the other.
    let alone = if is_first { listen(address, options).map(drop) } else { Ok(()) };
    let shared = alone.and_then(|()| listen(address, ListenOptions { reuse_port: true, ..options }));
    shared.map_err(|error| {
        let (ListenError::Socket(error) | ListenError::Bind(error) | ListenError::Listen(error)) = error;
        format!("{}: AgentListen {address} cannot be opened", sys::describe(&error))
    })
}

fn set_duty(command: &str, duty: Duty, json: bool) -> Result<String, String> {
    if json {
        return Err(format!("{command}: unexpected word '--json'"));
    }
    scoreboard::get().ok_or("the server does not serve yet")?.set_duty(duty);
    Ok(match duty {
        Duty::Ready => "load balancers are told to send requests\n",
        Duty::Drain => "load balancers are told to send no new clients; `tsubame ctl ready` takes that back\n",
        Duty::Maintenance => "load balancers are told to send nothing; `tsubame ctl ready` takes that back\n",
        Duty::Replaced => "",
    }
    .into())
}

/// `server-ready` is for probes of readiness, `server-alive` for probes that restart what does not answer.
fn handler(request: &mut Request) -> HandlerResult {
    let (status, text) = match (request.handler_name(), scoreboard::duty()) {
        (Some("server-alive"), _) => (200, "alive\n"),
        (Some("server-ready"), Duty::Ready | Duty::Replaced) => (200, "ready\n"),
        (Some("server-ready"), Duty::Drain) => (503, "drain\n"),
        (Some("server-ready"), Duty::Maintenance) => (503, "maintenance\n"),
        _ => return HandlerResult::Declined,
    };
    if !matches!(&*request.data.method, "GET" | "HEAD") {
        request.response.err_headers_out.set("Allow", "GET,HEAD");
        return HandlerResult::Status(405);
    }
    request.asks_beyond_head();
    request.response.set_status(status);
    request.response.set_content_type("text/plain");
    request.response.err_headers_out.set("Cache-Control", "no-store");
    HandlerResult::Body(Body::text(text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn addresses() {
        let wrong = |text: &str| {
            format!(
                "AgentListen: '{text}' is neither none nor a port nor a numeric address with a port, such as 192.0.2.1:9009"
            )
        };
        crate::testing::check(&[
            ("AgentListen none", ""),
            ("AgentListen 9009", ""),
            ("AgentListen 192.0.2.1:9009", ""),
            ("AgentListen [::1]:9009", ""),
            ("AgentListen localhost:9009", &wrong("localhost:9009")),
            ("AgentListen 192.0.2.1:0", &wrong("192.0.2.1:0")),
        ]);
    }
}
