//! Explains which backend a request would go to, and why no other one: for `tsubame explain`.

use server::Request;
use sys::time::Instant;

use super::balancer::Balancer;
use super::elect::session;
use super::member::Member;
use super::scheme::Destination;
use super::status::Status;

/// The way to a backend, and whether that gets requests.
pub(super) fn backend(destination: &Destination) -> String {
    let server = &destination.server;
    let kept = if server.keep.is_some() { "a persistent connection" } else { "a new connection" };
    let state = match destination.status.is_usable() {
        true => String::new(),
        false => format!("; its status ({}) lets no request through", destination.status.words().trim_end()),
    };
    format!("{}, over {kept} to {}{state}", destination.target.url(), server.address)
}

/// The member that would get the request, and why the others would not.
pub(super) fn balancer(balancer: &Balancer, request: &Request, url: &str) -> Vec<String> {
    let (now, session) = (Instant::now(), session(balancer, request, url));
    let route = session.as_ref().map(|session| &*session.route);
    let chosen = balancer.foresee(route);
    let of_session = |member: &Member| route.is_some() && member.route().as_deref() == route;
    let method = balancer.method().name();
    let first = match chosen.map(|index| balancer.member(index)) {
        Some(member) if of_session(member) => {
            format!(
                "{} goes to {}, the member of its session ({})",
                balancer.url(),
                member.url,
                route.unwrap_or_default()
            )
        }
        Some(member) => format!("{} goes to {}, whose turn it is ({method})", balancer.url(), member.url),
        None if balancer.count() == 0 => format!("{} has no members", balancer.url()),
        None => format!("{} goes nowhere: no member gets requests", balancer.url()),
    };
    let chosen_set = chosen.map(|index| balancer.member(index).set_number());
    let mut all = Vec::new();
    for (_, member) in balancer.members().enumerate().filter(|(index, _)| chosen != Some(*index)) {
        let status = member.status_at(now);
        let is_other_session = route.is_some() && !of_session(member);
        let why = match () {
            () if status.has(Status::DISABLED) => "it is disabled".to_string(),
            () if status.has(Status::STOPPED) => "it is stopped".to_string(),
            () if status.has(Status::UNHEALTHY) => "it has failed its health checks".to_string(),
            () if status.has(Status::IN_ERROR) => {
                format!("it could not be reached, and rests for {} s more", member.rest(now).as_secs() + 1)
            }
            () if status.has(Status::DRAINING) && !of_session(member) => {
                "it gets the requests of its sessions only".to_string()
            }
            () if chosen.is_none() && is_other_session => "it does not belong to the session".to_string(),
            () if chosen_set.is_some_and(|set| set < member.set_number()) => {
                format!("its set {} waits until no lower one can", member.set_number())
            }
            () if status.has(Status::SPARE) => "it is a spare".to_string(),
            () if status.has(Status::STANDBY) => "it is a standby".to_string(),
            () if is_other_session => "it does not belong to the session".to_string(),
            () => "it is not its turn".to_string(),
        };
        all.push(format!("not to {}: {why} ({})", member.url, status.words().trim_end()));
    }
    // A brief explanation shows the last steps.
    all.push(first);
    all
}
