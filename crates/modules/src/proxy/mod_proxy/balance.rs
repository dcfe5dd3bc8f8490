//! Lets a member of a balancer answer a request, and if that one cannot, another one.
//!
//! Apache manual: mod_proxy_balancer. What the environment tells and what becomes of a broken member was measured on 2.4.71. Beyond
//! Apache, a request that a member has not begun to answer goes to another one if sending it twice does no harm.

use std::sync::Arc;
use std::time::Duration;

use conf::Level;
use runtime::executor::sleep;
use server::{HandlerResult, Request};
use sys::time::Instant;
use upstream::Attempt;

use super::backends;
use super::balancer::{Balancer, Member, NAME, of_url};
use super::carried::{Carrier, carried};
use super::destination::to_member;
use super::elect::{Election, Session, session};
use super::map::{SOCKET, set};
use super::schemes::scheme;
use super::target::Target;
use super::way;

/// How often a request looks for a member that has become free, as in Apache.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Lets a member answer the request.
pub(super) async fn handle(request: &mut Request, target: &Target) -> HandlerResult {
    let url = target.url();
    let Some(balancer) = of_url(request, &url) else {
        request.log(NAME, Level::Error, format!("{url}: there is no such balancer"));
        return HandlerResult::Status(500);
    };
    if balancer.recover() {
        request.log(NAME, Level::Warn, format!("AH01165: {}: Forcing recovery of all workers", balancer.url()));
    }
    let session = session(&balancer, request, &url);
    let (status, line) = (request.response.status(), request.response.status_line().map(str::to_string));
    let mut tried = Vec::new();
    loop {
        let Some(index) = elect(request, &balancer, session.as_ref(), &tried).await else {
            return HandlerResult::Status(503);
        };
        tell(request, &balancer, index, session.as_ref());
        let election = Election::new(&balancer, index);
        let (member, attempt) = (election.member(), Arc::<Attempt>::default());
        let destination = to_member(request, member, &target.path, attempt.clone());
        let Some(scheme) = scheme(request, &destination.target.scheme) else {
            let text = format!("AH01144: No protocol handler was valid for the member {}", member.url);
            request.log(NAME, Level::Error, text);
            return HandlerResult::Status(500);
        };
        let Some(handler) = scheme.handler else { return HandlerResult::Status(500) };
        // What follows the mapping of a request to a backend of this protocol.
        request.notes.remove(SOCKET);
        set(request, &destination.target);
        (scheme.path)(request, &destination.target);
        let completed = match way::is_special(request) {
            true => way::complete(request, destination).await,
            false => Ok(destination),
        };
        let result = match completed {
            Ok(destination) => {
                backends::note(request, || member.url.clone(), &destination.server);
                handler(request, Arc::new(destination)).await
            }
            Err(refused) => refused,
        };
        election.sent(attempt.sent());
        election.received(attempt.received());
        // Only who cannot be reached is broken, or who the configuration says is. A request that fails says nothing about others.
        if attempt.is_unreached() || is_failure(request, &balancer, member, &result) {
            member.fails();
        }
        if attempt.may_be_repeated() && tried.len() < balancer.attempts {
            tried.push(index);
            request.notes.remove("error-notes");
            match &line {
                Some(line) => request.response.set_status_line(status, line.clone()),
                None => request.response.set_status(status),
            }
            continue;
        }
        return carried(result, Carrier::Member(election));
    }
}

/// Whether the configuration counts this result as a failure of the member.
fn is_failure(request: &Request, balancer: &Balancer, member: &Member, result: &HandlerResult) -> bool {
    let status = match result {
        HandlerResult::Status(504) if balancer.fail_on_timeout => return true,
        HandlerResult::Status(status) => *status,
        _ => request.response.status(),
    };
    let is_one = balancer.fail_on.contains(&status);
    if is_one {
        let text = format!(
            "AH01174: {}: Forcing worker ({}) into error state due to status code {status} matching 'failonstatus' balancer parameter",
            balancer.url(),
            member.url
        );
        request.log(NAME, Level::Error, text);
    }
    is_one
}

/// The member that gets the request. `None`: nobody can.
async fn elect(request: &Request, balancer: &Balancer, session: Option<&Session>, tried: &[usize]) -> Option<usize> {
    let until = balancer.timeout.map(|time| Instant::now() + time);
    loop {
        if let Some(index) = session.and_then(|session| balancer.of_session(&session.route, tried)) {
            return Some(index);
        }
        let is_bound = session.filter(|_| balancer.no_failover);
        if let Some(index) = is_bound.map_or_else(|| balancer.elect(tried), |_| None) {
            return Some(index);
        }
        if until.is_none_or(|until| Instant::now() >= until) || balancer.members.is_empty() || !tried.is_empty() {
            let name = balancer.url();
            let text = match is_bound {
                _ if balancer.members.is_empty() => format!("AH01171: {name}: No workers in balancer"),
                Some(session) => {
                    format!("AH01166: {name}: All workers are in error state for route ({})", session.route)
                }
                None => format!("AH01167: {name}: All workers are in error state"),
            };
            request.log(NAME, Level::Error, text);
            return None;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Tells the environment who was elected.
fn tell(request: &mut Request, balancer: &Balancer, index: usize, session: Option<&Session>) {
    let member = &balancer.members[index];
    let route = member.worker.parameters.route.clone().unwrap_or_default();
    let is_own = session.is_some_and(|session| session.route == route);
    if balancer.sticky.is_some() && !is_own {
        request.env.set("BALANCER_ROUTE_CHANGED", "1");
    }
    request.env.set("BALANCER_NAME", balancer.url());
    request.env.set("BALANCER_WORKER_NAME", member.url.clone());
    request.env.set("BALANCER_WORKER_ROUTE", route);
    if let Some(session) = session {
        request.env.set("BALANCER_SESSION_STICKY", session.name.clone());
        request.env.set("BALANCER_SESSION_ROUTE", session.route.clone());
    }
}
