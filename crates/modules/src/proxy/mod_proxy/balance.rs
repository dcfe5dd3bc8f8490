//! Lets a member of a balancer answer a request, and if that one cannot, another one.
//!
//! Apache manual: mod_proxy_balancer. What the environment tells and what becomes of a broken member was measured on 2.4.71. Beyond
//! Apache, a request that a member has not begun to answer goes to another one if sending it twice does no harm.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use conf::Level;
use runtime::executor::sleep;
use server::{HandlerResult, Request, Running};
use sys::time::Instant;
use upstream::Attempt;

use super::backends;
use super::balancer::{Balancer, NAME, of_url};
use super::carried::{Carrier, carried};
use super::destination::to_member;
use super::elect::{Election, Session, session};
use super::limited;
use super::map::{SOCKET, file_name};
use super::member::Member;
use super::scheme::{Backend, Destination, Scheme};
use super::schemes::scheme;
use super::target::Target;
use super::way;

/// How often a request looks for a member that has become free, as in Apache.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How requests with the same URL of a balancer go on.
pub(super) struct ToBalancer {
    url: String,
    /// The path and the query for its members.
    path: String,
    balancer: Option<Arc<Balancer>>,
    /// Its URL, for the environment.
    name: Arc<str>,
    /// What there is to know of each member, once one of the requests goes to it.
    members: Box<[OnceLock<ToMember>]>,
}

/// How such requests go on at a member.
struct ToMember {
    /// `None`: its module is not loaded.
    scheme: Option<&'static Scheme>,
    backend: Arc<Backend>,
    /// Its URL with the path, as the file name of the requests.
    filename: String,
    /// Its URL, and the route that the configuration gives it, for the environment.
    name: Arc<str>,
    route: Arc<str>,
}

impl ToBalancer {
    /// With this URL.
    pub(super) fn new(request: &Request, target: &Target) -> ToBalancer {
        let url = target.url();
        let balancer = of_url(request, &url);
        let name = balancer.as_ref().map(|balancer| balancer.url()).unwrap_or_default().into();
        let most = balancer.as_ref().map_or(0, |balancer| balancer.count_max());
        let members = (0..most).map(|_| OnceLock::new()).collect();
        ToBalancer { url, path: target.path.clone(), balancer, name, members }
    }

    /// Lets a member answer the request.
    pub(super) async fn handle(&self, request: &mut Request) -> HandlerResult {
        let Some(balancer) = &self.balancer else {
            request.log(NAME, Level::Error, format!("{}: there is no such balancer", self.url));
            return HandlerResult::Status(500);
        };
        if balancer.recover() {
            request.log(NAME, Level::Warn, format!("AH01165: {}: Forcing recovery of all workers", balancer.url()));
        }
        let session = session(balancer, request, &self.url);
        let (status, line) = (request.response.status(), request.response.status_line().map(str::to_string));
        let (mut tried, mut asked) = (Vec::new(), 0);
        loop {
            let Some(index) = elect(request, balancer, session.as_ref(), &tried).await else {
                return HandlerResult::Status(503);
            };
            let election = Election::new(balancer, index);
            let (member, attempt) = (election.member(), Arc::<Attempt>::default());
            let known = self.members[index].get_or_init(|| ToMember::new(request, member, &self.path));
            self.tell(request, known, member, session.as_ref());
            let Some(scheme) = known.scheme else {
                let text = format!("AH01144: No protocol handler was valid for the member {}", member.url);
                request.log(NAME, Level::Error, text);
                return HandlerResult::Status(500);
            };
            let Some(handler) = scheme.handler else { return HandlerResult::Status(500) };
            let destination = Destination { backend: known.backend.clone(), attempt: Some(attempt.clone()) };
            // A member that has no connection to spare is not broken, and another one may have.
            let permit = match limited::permit(request, scheme, &destination).await {
                Ok(permit) => permit,
                Err(limited::Busy) if tried.len() < balancer.attempts() => {
                    tried.push(index);
                    continue;
                }
                Err(limited::Busy) => return HandlerResult::Status(503),
            };
            known.map(request, scheme);
            let completed = match way::is_special(request) {
                true => way::complete(request, destination).await,
                false => Ok(destination),
            };
            let mut running = None;
            let result = match completed {
                Ok(destination) => {
                    let name = || member.url.clone();
                    asked += 1;
                    running = backends::note(request, name, &destination.server, asked);
                    let span = running.as_ref().map(Running::span);
                    let result = handler(request, Arc::new(destination)).await;
                    request.child_led_to(span.as_deref(), &result);
                    result
                }
                Err(refused) => refused,
            };
            election.sent(attempt.sent());
            election.received(attempt.received());
            // Only who cannot be reached is broken, or who the configuration says is. A request that fails says nothing about others.
            if attempt.is_unreached() || is_failure(request, balancer, member, &result) {
                member.fails();
            }
            if attempt.may_be_repeated() && tried.len() < balancer.attempts() {
                tried.push(index);
                request.notes.remove("error-notes");
                match &line {
                    Some(line) => request.response.set_status_line(status, line.clone()),
                    None => request.response.set_status(status),
                }
                continue;
            }
            return carried(result, Carrier::Member(election), permit, running);
        }
    }

    /// Tells the environment who was elected.
    fn tell(&self, request: &mut Request, elected: &ToMember, member: &Member, session: Option<&Session>) {
        let route = match member.route() {
            Some(Cow::Owned(changed)) => changed.into(),
            Some(Cow::Borrowed(_)) => elected.route.clone(),
            None => "".into(),
        };
        let is_own = session.is_some_and(|session| *session.route == *route);
        if self.balancer.as_ref().is_some_and(|balancer| balancer.sticky().is_some()) && !is_own {
            request.env.set("BALANCER_ROUTE_CHANGED", "1");
        }
        request.env.set("BALANCER_NAME", self.name.clone());
        request.env.set("BALANCER_WORKER_NAME", elected.name.clone());
        request.env.set("BALANCER_WORKER_ROUTE", route);
        if let Some(session) = session {
            request.env.set("BALANCER_SESSION_STICKY", session.name.clone());
            request.env.set("BALANCER_SESSION_ROUTE", session.route.clone());
        }
    }
}

impl ToMember {
    /// For requests with this path and query.
    fn new(request: &Request, member: &Member, path: &str) -> ToMember {
        let backend = to_member(request, member, path);
        ToMember {
            scheme: scheme(request, &backend.target.scheme),
            filename: file_name(&backend.target),
            backend: Arc::new(backend),
            name: member.url.as_str().into(),
            route: member.worker.parameters.route.as_deref().unwrap_or_default().into(),
        }
    }

    /// What follows the mapping of a request to a backend of this protocol.
    fn map(&self, request: &mut Request, scheme: &Scheme) {
        let target = &self.backend.target;
        match &target.socket {
            Some(socket) => request.notes.set(SOCKET, socket.clone()),
            None => request.notes.remove(SOCKET),
        }
        request.mapped.filename.clone_from(&self.filename);
        (scheme.path)(request, target);
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
    let until = balancer.timeout().map(|time| Instant::now() + time);
    loop {
        if let Some(index) = session.and_then(|session| balancer.of_session(&session.route, tried)) {
            return Some(index);
        }
        let is_bound = session.filter(|_| balancer.no_failover());
        if let Some(index) = is_bound.map_or_else(|| balancer.elect(tried), |_| None) {
            return Some(index);
        }
        if until.is_none_or(|until| Instant::now() >= until) || balancer.count() == 0 || !tried.is_empty() {
            let name = balancer.url();
            let text = match is_bound {
                _ if balancer.count() == 0 => format!("AH01171: {name}: No workers in balancer"),
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
