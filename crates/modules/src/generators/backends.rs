//! The process manager, for the modules whose scripts are backends.

use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conf::{Context, Error, settings};
use gateway::backend::{self, Manager, Users};
use gateway::daemon::Socket;
use gateway::owners;
use runtime::HelperProcess;
use server::paths::c_path;
use server::{Draft, HelperHook, Server, StartError};
use sys::cred::Identity;
use sys::local::SocketKind;
use sys::process::Pid;

use super::{fastcgi_classes, mod_wsgi};
use crate::derived::Derived;

/// The helper process of all modules that have backends.
pub(super) static MANAGER: HelperHook = manager;

settings! {
    /// The place of the backends' sockets.
    pub struct BackendServer {
        directory: Derived<String>,
    }
}

/// Finds the directory of the backends' sockets.
pub(super) fn resolve(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    draft.main.edit::<BackendServer>().directory = Derived(context.runtime_relative("backends"));
    Ok(())
}

/// Opens the directory of the sockets: a private one of its user, with the parent's number after its name, and a new one after each
/// restart. If backends run as owners, the manager is root.
fn manager(server: &Arc<Server>, children: Option<&Identity>) -> Result<Option<HelperProcess>, String> {
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    let directory = &server.main().settings.get::<BackendServer>().directory.0;
    let restarts = OPENED.fetch_add(1, Ordering::Relaxed);
    let directory = PathBuf::from(format!("{directory}.{}.{restarts}", Pid::own()));
    let users =
        Users { server: children.cloned(), owners: owners::all(server), programs: mod_wsgi::owned(server).into() };
    let privileged = users.owners.is_some() || !users.programs.is_empty();
    let open = || {
        make_directory(&directory, children, privileged)?;
        let owner = children.map(|identity| (identity.uid, identity.gid));
        let socket = Socket::open(directory.join("manager"), owner, SocketKind::Packets)?;
        let standing = [fastcgi_classes::standing(server), mod_wsgi::standing(server)].concat();
        Manager::open(socket, directory.clone(), users, standing)
    };
    let manager = open().map_err(|error| {
        format!(
            "{}: the directory {} of the process manager cannot be used",
            sys::describe(&error),
            directory.display()
        )
    })?;
    backend::set_address(manager.socket.path());
    let manager = Arc::new((manager, Directory { path: directory, made_by: Pid::own() }));
    Ok(Some(HelperProcess {
        name: "backend",
        count: 1,
        privileged,
        starts_scripts: true,
        life: Box::new(move |orders| backend::serve(&manager.0, orders)),
    }))
}

/// Foresees whether the manager can make its directory, or the first one above that is missing.
pub(super) fn preflight(server: &Server) -> Result<(), StartError> {
    let directory = Path::new(&server.main().settings.get::<BackendServer>().directory.0);
    let Some(above) = directory.parent().filter(|above| !above.as_os_str().is_empty()) else { return Ok(()) };
    let existing = above.ancestors().find(|directory| directory.exists()).unwrap_or(Path::new("/"));
    // With a slash at its end the name is that of a directory.
    let writable = c_path(&format!("{}/", existing.display())).map_or(Ok(()), |path| sys::file::may_write(&path));
    writable.map_err(|error| {
        let above = above.display();
        StartError::of_system(&error, &format!("the process manager cannot make its directory in {above}"))
    })
}

/// Makes the directory, for the user of the manager: that of the children, who find the manager's socket there, or
/// root, and then the children cannot change its content. Removes what an earlier process with the same number left
/// there.
fn make_directory(directory: &Path, children: Option<&Identity>, privileged: bool) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Some(above) = directory.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(above)?;
    }
    std::fs::DirBuilder::new().mode(if privileged { 0o710 } else { 0o700 }).create(directory)?;
    if let Some(identity) = children {
        lchown(directory, Some(identity.uid).filter(|_| !privileged), Some(identity.gid))?;
    }
    Ok(())
}

/// The directory, removed when the process that made it drops it.
struct Directory {
    path: PathBuf,
    made_by: Pid,
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.made_by == Pid::own() {
            // The directory may have been removed already.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
