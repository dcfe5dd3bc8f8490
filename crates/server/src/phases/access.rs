//! Access: the order in which access control and authorization are applied (Apache manual, mod_access_compat,
//! `Satisfy`).

use conf::Level;

use crate::phases::run_hooks::{run_all, run_until_decided};
use crate::request::flow::Flow;
use crate::request::phase::Phase;
use crate::request::{Request, RequestKind};
use crate::settings::satisfy::Satisfy;

/// Checks access. `Err`: the request ends.
pub(crate) async fn check(request: &mut Request) -> Result<(), Flow> {
    if is_known(request) {
        return Ok(());
    }
    let by_host = run_all(request, Phase::AccessChecker).await;
    match request.dir::<Satisfy>().any(&request.data.method) {
        false => {
            by_host?;
            by_user(request, "AH00027").await
        }
        true if by_host.is_ok() => by_host,
        true => by_user(request, "AH00028").await,
    }
}

/// Whether another request was judged under the same settings: the one that asked for this subrequest, or that led to this
/// redirect. An error document may be shown even if everything else is denied: the administrator chose it.
fn is_known(request: &mut Request) -> bool {
    match &request.kind {
        RequestKind::Main => false,
        RequestKind::Subrequest { dir, .. } => dir.id == request.dir.id,
        RequestKind::Redirected(previous) => {
            let judged = previous.status >= 400 || previous.method == request.data.method;
            let same = judged && previous.dir.id == request.dir.id;
            if same {
                request.login.user.clone_from(&previous.user);
            }
            same
        }
    }
}

/// `number` is that of the message about an unknown user; Apache has two.
async fn by_user(request: &mut Request, number: &str) -> Result<(), Flow> {
    if request.hooks.of(Phase::AccessCheckerEx).is_empty() {
        // No module can authenticate a user, and no directive of one could have been written.
        return Ok(());
    }
    match run_until_decided(request, Phase::AccessCheckerEx).await {
        Flow::Ok => return Ok(()),
        Flow::Status(status) => return Err(Flow::Status(status)),
        Flow::Declined => {}
    }
    // A user might be admitted: authenticate, then authorize.
    match run_until_decided(request, Phase::CheckUser).await {
        Flow::Ok => {}
        Flow::Status(status) => return Err(Flow::Status(status)),
        Flow::Declined => return Err(not_configured(request, "check user")),
    }
    if request.login.user.is_none() {
        let text = format!(
            "{number}: No authentication done but request not allowed without authentication for {}. Authentication \
             not configured?",
            request.data.uri
        );
        request.log("core", Level::Error, text);
        return Err(Flow::Status(500));
    }
    match run_until_decided(request, Phase::AuthChecker).await {
        Flow::Ok => Ok(()),
        Flow::Status(status) => Err(Flow::Status(status)),
        Flow::Declined => Err(not_configured(request, "check access")),
    }
}

/// No module is configured for a question that must not stay open.
fn not_configured(request: &Request, what: &str) -> Flow {
    let text = format!("AH00025: configuration error:  couldn't {what}: {}", request.data.uri);
    request.log("core", Level::Crit, text);
    Flow::Status(500)
}
