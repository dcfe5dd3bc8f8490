//! Who may: the order in which access and authorization are asked (contract.md 8, `Satisfy`).

use conf::Level;

use crate::authz::Satisfy;
use crate::module::{Flow, PhaseHook};
use crate::request::{Kind, Request};

/// Asks. `Err`: the request ends.
pub(crate) fn check(request: &mut Request) -> Result<(), Flow> {
    if let Kind::Lookup { dir, .. } = &request.kind
        && dir.id == request.dir.id
    {
        // The same settings let the asking request in.
        return Ok(());
    }
    let server = request.server.clone();
    let hooks = &server.hooks;
    let by_host = all(request, &hooks.access_checker);
    match request.dir::<Satisfy>().any.or(false) {
        false => {
            by_host?;
            by_user(request)
        }
        true => by_host.or_else(|_| by_user(request)),
    }
}

fn by_user(request: &mut Request) -> Result<(), Flow> {
    let server = request.server.clone();
    let hooks = &server.hooks;
    if hooks.access_checker_ex.is_empty() {
        // No module can ask for a user, and no directive of one could have been written.
        return Ok(());
    }
    match first(request, &hooks.access_checker_ex) {
        Flow::Ok => return Ok(()),
        Flow::Status(status) => return Err(Flow::Status(status)),
        Flow::Declined => {}
    }
    // A user might be let in: who is it, and may he?
    match first(request, &hooks.check_user) {
        Flow::Ok => {}
        Flow::Status(status) => return Err(Flow::Status(status)),
        Flow::Declined => {
            request.log("core", Level::Crit, "AH00027: check user.  No user file?");
            return Err(Flow::Status(500));
        }
    }
    match first(request, &hooks.auth_checker) {
        Flow::Ok => Ok(()),
        Flow::Status(status) => Err(Flow::Status(status)),
        Flow::Declined => Err(Flow::Status(500)),
    }
}

/// The last to be asked who a user is: nobody is set up to know.
pub(crate) fn nobody_knows(request: &mut Request) -> Flow {
    let text = format!(
        "AH00027: No authentication done but request not allowed without authentication for {}. Authentication not \
         configured?",
        request.uri
    );
    request.log("core", Level::Error, text);
    Flow::Status(500)
}

/// Runs all hooks; the first status ends it.
pub(crate) fn all(request: &mut Request, hooks: &[PhaseHook]) -> Result<(), Flow> {
    for hook in hooks {
        if let Flow::Status(status) = hook(request) {
            return Err(Flow::Status(status));
        }
    }
    Ok(())
}

/// Runs hooks until one does not decline.
pub(crate) fn first(request: &mut Request, hooks: &[PhaseHook]) -> Flow {
    hooks.iter().map(|hook| hook(request)).find(|flow| *flow != Flow::Declined).unwrap_or(Flow::Declined)
}
