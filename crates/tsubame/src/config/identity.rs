//! Finds out as which user and group the children will run, and refuses root.

use conf::SettingsMap;
use server::machine::Machine;
use server::settings::user;
use sys::cred::{Identity, User};

/// The user and group of the children if root starts the server. Without `User` they run as nobody: a child of a server
/// on the network never runs as root. `program` is the name the server was called by.
pub(crate) fn identity(settings: &SettingsMap, program: &str) -> Result<Option<Identity>, String> {
    if !sys::cred::is_root() {
        return Ok(None);
    }
    let (user, group) = user::identity(settings, &Machine).map_err(|error| error.text(program))?;
    const NOBODY: u32 = 65534;
    let nobody = |id| if id == u32::MAX { NOBODY } else { id };
    let (uid, gid) = (nobody(user.id), nobody(group.id));
    if uid == 0 {
        return Err(
            "AH00526: User root: a web server whose children run as root is not started; name another user".into()
        );
    }
    let user = sys::cred::user_by_id(uid).ok().flatten().unwrap_or(User {
        name: String::new(),
        uid,
        gid,
        home: String::new(),
    });
    Ok(Some(Identity::new(&user, gid)))
}

/// Assumes the identity of the children, if this process may.
pub(crate) fn become_child(server: &server::Server, program: &str) -> Result<(), String> {
    match identity(&server.main().settings, program)? {
        Some(children) => {
            children.assume().map_err(|error| format!("{}: cannot become the server's user", sys::describe(&error)))
        }
        None => Ok(()),
    }
}
