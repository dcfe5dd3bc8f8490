//! CGI scripts, started by daemons.
//!
//! Apache manual: mod_cgid. Apache has one daemon, which a busy machine waits for; here there are several.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conf::directive::Args::Take1;
use conf::values::duration;

use conf::{Allowed, Cmd, Directive, Error, Face, Merge, Outcome, Setting, World, settings};
use gateway::Starter;
use gateway::daemon::{self, Socket, Users};
use seam::Companion;
use server::{Draft, Handler, Hook, Module, Order, Server};
use sys::cred::Identity;
use sys::process::Pid;

use super::script::{SCRIPT_LOG, SCRIPT_LOG_BUFFER, SCRIPT_LOG_LENGTH, Way, answer};
use crate::row;

/// The module. Where mod_cgi is loaded too, the one that was loaded first runs the scripts, as in Apache.
pub static MODULE: Module = Module {
    face: Face { id: "cgid_module", source: "mod_cgid.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Check(resolve),
        Hook::Companion(daemons),
        Hook::Handler(Order::Middle, Handler::Later(|request| answer(request, &WAY))),
    ],
};

static WAY: Way = Way {
    module: "cgid",
    refusals: ["AH01262", "AH01264", "AH01265", "AH01266"],
    timeout: |request| request.dir::<CgidDir>().timeout.get().copied(),
    // There are none where one process is all there is (`-X`).
    starter: |_| daemon::address().map_or(Starter::Own, |address| Starter::Daemon { address, owner: None }),
};

/// The most daemons there may be.
const DAEMONS_MAX: usize = 256;

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ScriptSock", Allowed::GLOBAL, Take1(set_socket), "cgisock", "the name of the socket to use for communication with the cgi daemon."),
    row("ScriptSockDaemons", Allowed::GLOBAL, Take1(set_daemons), "auto", "How many daemons start scripts: auto (as many as there are processors, at least 2) or a number"),
    SCRIPT_LOG,
    SCRIPT_LOG_LENGTH,
    SCRIPT_LOG_BUFFER,
    row("CGIDScriptTimeout", Allowed::CONF, Take1(set_timeout), "", "The amount of time to wait between successful reads from the CGI script, in seconds."),
];

settings! {
    /// The module's settings of the server.
    pub struct CgidServer {
        socket: Setting<String>,
        daemons: Setting<Option<usize>>,
        /// Where the socket is, once the whole configuration is known.
        path: Known,
    }
}

/// A path that only the whole configuration says.
#[derive(Clone, Debug, Default)]
struct Known(String);

impl Merge for Known {
    /// It is the main server's, and known only after servers were merged.
    fn merge(base: &Self, _: &Self) -> Self {
        base.clone()
    }
}

settings! {
    /// The module's settings of a section.
    pub struct CgidDir {
        timeout: Setting<Duration>,
    }
}

fn set_socket(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    cmd.server_set(|s: &mut CgidServer| &mut s.socket, value.to_string())
}

fn set_daemons(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let daemons = match value.parse() {
        _ if value.eq_ignore_ascii_case("auto") => None,
        Ok(number @ 1..=DAEMONS_MAX) => Some(number),
        _ => return Err(format!("ScriptSockDaemons: '{value}' is neither auto nor a number from 1 to {DAEMONS_MAX}")),
    };
    cmd.server_set(|s: &mut CgidServer| &mut s.daemons, daemons)
}

fn set_timeout(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let timeout = duration(value, Duration::from_secs(1)).ok_or("CGIDScriptTimeout has wrong format")?;
    cmd.set(|d: &mut CgidDir| &mut d.timeout, timeout)
}

/// Where the socket is when nobody says so.
fn resolve(draft: &mut Draft, world: &mut World) -> Result<(), Error> {
    let conf = draft.main.edit::<CgidServer>();
    conf.path = Known(world.runtime_relative(conf.socket.get().map_or("cgisock", String::as_str)));
    Ok(())
}

/// The daemons, where they are who starts scripts.
fn daemons(server: &Server, children: Option<&Identity>) -> Result<Option<Companion>, String> {
    let place = |id: &str| server.faces().iter().position(|face| face.id == id);
    if place("cgi_module").is_some_and(|cgi| place("cgid_module").is_some_and(|cgid| cgi < cgid)) {
        daemon::set_address(None);
        return Ok(None);
    }
    let conf = server.main().settings.get::<CgidServer>();
    let processors = || std::thread::available_parallelism().map_or(1, usize::from).max(2);
    let count = conf.daemons.or(None).unwrap_or_else(processors);
    open(&conf.path.0, count, Users { server: children.cloned() }).map(Some)
}

/// Opens the socket, with the parent's number behind its name as in Apache, and a further one after each restart: the
/// children of each configuration have daemons of their own.
fn open(socket: &str, count: usize, users: Users) -> Result<Companion, String> {
    let owner = users.server.as_ref().map(|identity| (identity.uid, identity.gid));
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    let path = match OPENED.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{socket}.{}", Pid::own()),
        restarts => format!("{socket}.{}.{restarts}", Pid::own()),
    };
    let socket = Socket::open(path.clone().into(), owner)
        .map_err(|error| format!("{}: AH01242: Couldn't bind unix domain socket {path}", sys::describe(&error)))?;
    daemon::set_address(Some(socket.path()));
    Ok(Companion {
        name: "cgid",
        count,
        privileged: false,
        life: Box::new(move |orders| daemon::serve(&socket, users.clone(), orders)),
    })
}
