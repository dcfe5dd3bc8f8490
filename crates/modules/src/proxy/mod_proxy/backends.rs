//! What is counted of backends: those that the configuration names, each member of a balancer on its own, and all others together.

use std::sync::{Arc, Mutex, PoisonError};

use conf::{Context, Error, settings};
use server::{Draft, Request, Running, Server, UpstreamUse, Work};
use sys::shm::Shared;
use upstream::{Address, Ledger, RemoteServer, Tally};

use super::balancer::all;
use super::limited::limit_of;
use super::member::Member;
use super::rest::Rest;
use super::schemes::port_of;
use super::settings::ProxyServer;
use super::status::Status;
use super::target::Target;
use super::worker::{Common, Parameters, Worker};
use crate::derived::Derived;
use crate::loggers::mod_log_config::logs_upstream;

settings! {
    /// The backends of a configuration that are no members of balancers.
    pub struct Backends {
        known: Derived<Arc<[Known]>>,
    }
}

/// The name of all backends that the configuration does not name: they come from rules, handlers, or clients of a forward proxy.
const OTHERS: &str = "*";

/// A backend that is no member of a balancer.
#[derive(Debug)]
struct Known {
    name: String,
    address: Option<Address>,
    status: Status,
    tally: Tally,
    rest: Option<Rest>,
}

/// A backend, and what was counted of it.
pub(crate) struct Counted {
    /// The balancer that it is a member of.
    pub(crate) balancer: Option<String>,
    /// Its URL, or `*` for all that the configuration does not name.
    pub(crate) name: String,
    pub(crate) status: Status,
    pub(crate) tally: Tally,
    /// Connections that no child keeps for itself.
    shared_idle: u64,
}

impl Counted {
    /// The idle connections to it.
    pub(crate) fn idle(&self) -> u64 {
        self.tally.idle() + self.shared_idle
    }
}

/// Makes the places to count in. Backends of the same URL, in several servers, are one.
pub(super) fn resolve(draft: &mut Draft, context: &mut Context) -> Result<(), Error> {
    let lines = |draft: &Draft| -> Vec<Arc<Worker>> {
        draft.servers().flat_map(|conf| conf.get::<ProxyServer>().workers.iter().cloned().collect::<Vec<_>>()).collect()
    };
    let lines = lines(draft);
    let mut names: Vec<String> = vec![OTHERS.to_string()];
    for name in lines.iter().filter(|line| line.target.scheme != "balancer").map(|line| line.target.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let ledger = Ledger::new(names.len())
        .map_err(|error| Error::check(format!("{}: no shared memory for backends", sys::describe(&error))))?;
    let failures = Shared::new(names.len())
        .map_err(|error| Error::check(format!("{}: no shared memory for backends", sys::describe(&error))))?;
    let failures = Arc::new(failures);
    let mut known: Vec<Known> = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let of_name = || lines.iter().filter(|line| line.target.name() == name);
        let tally = ledger.tally(index);
        let mut parameters = Parameters::default();
        of_name().for_each(|line| parameters.changed_by(&line.parameters));
        let target = of_name().next().map(|line| &line.target);
        let limit = target.and_then(|target| limit_of(target, &parameters, context));
        let rest = Rest::new(&failures, index, parameters.status, parameters.retry);
        let common = Common { tally: tally.clone(), limit, rest: rest.clone() };
        // A line that counts for several servers is the same one.
        of_name().for_each(|line| _ = line.common.set(common.clone()));
        let (address, status) = (target.map(address_of), parameters.status.of(Status::default()));
        known.push(Known { name, address, status, tally, rest });
    }
    draft.main.edit::<Backends>().known = Derived(known.into());
    Ok(())
}

/// The address of a backend.
pub(super) fn address_of(target: &Target) -> Address {
    match &target.socket {
        Some(path) => Address::Unix(path.clone()),
        None => Address::Tcp(target.host.clone(), target.port.unwrap_or_else(|| port_of(&target.scheme))),
    }
}

/// The place for backends that the configuration does not name.
pub(super) fn others(request: &Request) -> Option<&Tally> {
    request.host::<Backends>().known.0.first().map(|known| &known.tally)
}

/// All backends: first those that are no members of balancers.
pub(crate) fn counted(server: &Server) -> Vec<Counted> {
    let idle = |address: &Address| upstream::waiting(address) as u64;
    let plain = server.main().settings.get::<Backends>();
    let plain =
        plain.known.0.iter().filter(|known| known.name != OTHERS || is_used(&known.tally)).map(|known| Counted {
            balancer: None,
            name: known.name.clone(),
            status: Rest::status(known.rest.as_ref(), known.status),
            tally: known.tally.clone(),
            shared_idle: known.address.as_ref().map_or(0, idle),
        });
    let member = |balancer: &str, member: &Member| Counted {
        balancer: Some(balancer.to_string()),
        name: member.url.clone(),
        status: member.status(),
        tally: member.tally.clone(),
        shared_idle: idle(&address_of(&member.worker.target)),
    };
    let balancers = all(server);
    let members = balancers.iter().flat_map(|balancer| balancer.members().map(|one| member(&balancer.name, one)));
    plain.chain(members).collect()
}

fn is_used(tally: &Tally) -> bool {
    tally.get(upstream::Count::Requests) > 0
}

/// The places of the configuration that is in use, for the parent: what balancer and backend they are of.
static IN_USE: Mutex<Vec<(Option<String>, String, Tally)>> = Mutex::new(Vec::new());

/// Goes on with what was counted under the former configuration.
pub(super) fn start(server: &Server) -> Result<(), String> {
    let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    let new = counted_of(server);
    for (balancer, name, tally) in &new {
        if let Some((.., former)) = in_use.iter().find(|(of, one, _)| (of, one) == (balancer, name)) {
            tally.go_on_from(former);
        }
    }
    *in_use = new;
    Ok(())
}

fn counted_of(server: &Server) -> Vec<(Option<String>, String, Tally)> {
    let plain = server.main().settings.get::<Backends>();
    let plain = plain.known.0.iter().map(|known| (None, known.name.clone(), known.tally.clone()));
    let balancers = all(server);
    let members = balancers.iter().flat_map(|balancer| {
        balancer.members().map(|one| (Some(balancer.name.clone()), one.url.clone(), one.tally.clone()))
    });
    plain.chain(members).collect()
}

/// Gives back what children that are gone had under way.
pub(super) fn give_back() {
    let in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut done: Vec<&Arc<Ledger>> = Vec::new();
    for (.., tally) in in_use.iter() {
        if !done.iter().any(|one| Arc::ptr_eq(one, tally.ledger())) {
            tally.ledger().give_back();
            done.push(tally.ledger());
        }
    }
}

/// Records which backend a request goes to, if a log or a span wants to know. `attempt`: how many backends it has gone to, this
/// one included. Returns its child span, if the request is recorded.
pub(super) fn note(
    request: &mut Request,
    name: impl FnOnce() -> String,
    server: &RemoteServer,
    attempt: usize,
) -> Option<Running> {
    let is_wanted = request.account.recorded.is_some() || logs_upstream(request);
    request.account.upstream = is_wanted.then(|| Arc::new(UpstreamUse::new(name(), server.address.to_string())));
    let server = request.account.upstream.clone()?;
    request.begin_child(|_| Work::Upstream { server, attempt })
}
