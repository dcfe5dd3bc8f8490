//! The daemons that start scripts, for the modules that need them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conf::{Context, Error, Setting, settings};
use gateway::daemon::{self, Socket, Users};
use gateway::owners;
use runtime::HelperProcess;
use server::{Draft, Server};
use sys::cred::Identity;
use sys::local::SocketKind;
use sys::process::Pid;

use crate::derived::Derived;
use crate::run_directory;

settings! {
    /// The number of daemons, and their address.
    pub struct DaemonServer {
        pub(super) socket: Setting<String>,
        pub(super) count: Setting<Option<usize>>,
        path: Derived<String>,
    }
}

/// Finds the socket's path, even if it is not configured.
pub(super) fn resolve(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    let conf = draft.main.edit::<DaemonServer>();
    conf.path = Derived(context.runtime_relative(conf.socket.get().map_or("cgisock", String::as_str)));
    Ok(())
}

/// Whether daemons start all scripts, instead of mod_cgi: the module loaded first decides.
pub(super) fn start_all_scripts(server: &Server) -> bool {
    let infos = server.infos();
    let place = |id: &str| infos.iter().position(|info| info.id == id);
    match (place("cgi_module"), place("cgid_module")) {
        (Some(cgi), Some(cgid)) => cgid < cgi,
        (_, cgid) => cgid.is_some(),
    }
}

/// Opens their socket, with the parent's number after its name as in Apache, and a new one after each restart: the
/// children of each configuration have daemons of their own. If scripts run as owners, the daemons are root.
pub(super) fn open(server: &Server, children: Option<&Identity>) -> Result<HelperProcess, String> {
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    let conf = server.main().settings.get::<DaemonServer>();
    let path = match OPENED.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{}.{}", conf.path.0, Pid::own()),
        restarts => format!("{}.{}.{restarts}", conf.path.0, Pid::own()),
    };
    run_directory::make("cgid", Path::new(&path), children).map_err(|error| {
        format!(
            "{}: AH01242: Couldn't bind unix domain socket {path}: its directory cannot be created",
            sys::describe(&error)
        )
    })?;
    let socket =
        Socket::open(path.clone().into(), children.map(|identity| (identity.uid, identity.gid)), SocketKind::Stream);
    let socket = socket
        .map_err(|error| format!("{}: AH01242: Couldn't bind unix domain socket {path}", sys::describe(&error)))?;
    daemon::set_address(socket.path());
    let users = Users { server: children.cloned(), owners: owners::all(server), programs: Arc::default() };
    let processors = || sys::affinity::processors().max(2);
    Ok(HelperProcess {
        name: "cgid",
        count: conf.count.value_or(None).unwrap_or_else(processors),
        privileged: users.owners.is_some(),
        starts_scripts: true,
        life: Box::new(move |orders| daemon::serve(&socket, users.clone(), orders)),
    })
}

/// Whether there is a directory for the socket, or one that it can be made in. What only root may make is root's to find out.
pub(super) fn can_be_opened(server: &Server) -> Result<(), String> {
    let path = &server.main().settings.get::<DaemonServer>().path.0;
    let there = Path::new(path).ancestors().skip(1).find(|above| above.exists());
    match there.map(std::fs::metadata) {
        Some(Ok(meta)) if !meta.is_dir() => Err(format!(
            "(20)Not a directory: AH01242: Couldn't bind unix domain socket {path}: its directory cannot be created"
        )),
        _ => Ok(()),
    }
}
