//! Limits what each client may ask.
//!
//! Not one of Apache's modules: docs/limits.md.

mod charges;
mod connection_rule;
mod connections;
mod rule;
mod settings;
mod store;
mod table;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use conf::directive::Args::{Take1, Words};
use conf::{Allowed, Cmd, Directive, Level, ModuleInfo, Outcome, row, shown};
use server::module::{Debit, NamedCache, Spends, shared_caches};
use server::{Flow, Hook, Module, Order, Phase, PhaseHook, Request, ResponseHook, Server, StartError, Waiting};
use sys::time::monotonic;

use charges::{BYTES, LOGINS, count_bytes, count_failed_login, is_failed_login, remember, reserve_bytes, words};
use rule::{By, Counted, Rule};
use settings::{CLIENTS, ClientLimitDir, ClientLimitServer};
use table::{Answer, CLIENTS_OF_SERVER, Rate, Refused, Table};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "client_limit_module", source: "mod_client_limit.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::OpenLogs(open),
        Hook::Reception(&connections::RECEPTION),
        // Before anybody's password is checked. `Satisfy Any` lets nobody past a phase before that of access.
        Hook::Phase(
            Phase::HeaderParser,
            Order::First,
            checking(|request| {
                if request.is_hypothetical() {
                    connections::explain(request);
                }
                Box::pin(check(request, |rule| !is_by_user(rule)))
            }),
        ),
        Hook::Phase(Phase::Fixups, Order::First, checking(|request| Box::pin(check(request, is_by_user)))),
        // A directory has become its index, which may have limits of its own.
        Hook::Phase(Phase::Fixups, Order::ReallyLast, checking(|request| Box::pin(check(request, |_| true)))),
        // Before the client hears of it: the next attempt finds it counted.
        Hook::ResponseFields(
            Order::Middle,
            ResponseHook::Later { claims: is_failed_login, run: |request, _| Box::pin(count_failed_login(request)) },
        ),
        Hook::Filter(Order::ReallyLast, reserve_bytes),
        Hook::Log(Order::Middle, count_bytes),
    ],
};

/// A hook for requests that have limits.
const fn checking(run: fn(&mut Request) -> Waiting<'_, Flow>) -> PhaseHook {
    PhaseHook::Recording {
        claims: |request| request.dir::<ClientLimitDir>().rules.get().is_some() || request.is_hypothetical(),
        run,
    }
}

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("ClientLimit", Allowed::CONF, Words(set), "none", "How many requests or failed log-ins each client may send in a time, or how many bytes it may get: a rate, and whose requests count together").syntax("rate [burst=number] [by=address|network|user|expression] [of=requests|failed-logins|bytes] [only-log]|none"),
    row("ClientLimitClients", Allowed::GLOBAL, Take1(set_clients), shown!(CLIENTS), "How many clients are remembered at once").syntax("number"),
    row("ClientLimitConnections", Allowed::GLOBAL, Words(connections::set), "", "How many connections each client may have open at once; further ones are closed").syntax("number [by=address|network] [except=network,…] [only-log]"),
    row("ClientLimitStore", Allowed::GLOBAL, Take1(set_store), "", "The store in which several servers count together what each client has asked").syntax("redis:host[:port]"),
];

/// The most that may be configured: a gigabyte.
const CLIENTS_MAX: usize = 64 << 20;

/// The note with the rules that were asked: a request counts once, wherever internal redirects lead it.
const ASKED: &str = "client-limit-asked";

fn set(cmd: &mut Cmd<'_>, words: &[String]) -> Outcome {
    let origin = cmd.origin();
    if matches!(words, [only] if only.eq_ignore_ascii_case("none")) {
        cmd.dir.edit::<ClientLimitDir>().rules.begin(&origin);
        return Ok(());
    }
    let rule = Rule::read(words, origin.clone(), &cmd.context.language.server_root, cmd.expr_options())?;
    cmd.dir.edit::<ClientLimitDir>().rules.edit(&origin).push(rule);
    Ok(())
}

fn set_clients(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let clients = value.parse().ok().filter(|clients| (1..=CLIENTS_MAX).contains(clients));
    let clients =
        clients.ok_or_else(|| format!("ClientLimitClients: '{value}' is not a number from 1 to {CLIENTS_MAX}"))?;
    cmd.server_set(|s: &mut ClientLimitServer| &mut s.clients, clients)
}

fn set_store(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let store = NamedCache::read(text, shared_caches(cmd.context.language.loaded()))
        .map_err(|name| format!("ClientLimitStore: '{name}' is no store: mod_socache_{name} is not loaded"))?;
    let store = store.map_err(|why| format!("ClientLimitStore: {why}"))?;
    if !store.keeps_debts() {
        return Err(
            format!("ClientLimitStore: '{text}' cannot count for several servers at once: only redis can").into()
        );
    }
    cmd.server_set(|s: &mut ClientLimitServer| &mut s.store, store)
}

fn open(server: &Server) -> Result<(), StartError> {
    if let Some(store) = server.main().settings.get::<ClientLimitServer>().store.get() {
        store.open(store::USER, server, server.main(), None).map_err(|error| {
            StartError::from(format!("ClientLimitStore: the store cannot be used: {}", sys::describe(&error)))
        })?;
    }
    let without_memory = |error| StartError::of_system(&error, "no shared memory for the clients of ClientLimit");
    connections::prepare(server).map_err(without_memory)?;
    if CLIENTS_OF_SERVER.get().is_none() {
        let clients = server.main().settings.get::<ClientLimitServer>().clients();
        let table = Table::new(clients).map_err(without_memory)?;
        let _ = CLIENTS_OF_SERVER.set((table, RandomState::new()));
    }
    Ok(())
}

/// How many requests were refused, and how many only would have been, since the server started.
pub(crate) fn counts() -> Option<(u64, u64)> {
    CLIENTS_OF_SERVER.get().map(|(table, _)| table.counts(Refused::Request))
}

/// The same of connections.
pub(crate) fn connection_counts() -> Option<(u64, u64)> {
    CLIENTS_OF_SERVER.get().map(|(table, _)| table.counts(Refused::Connection))
}

fn is_by_user(rule: &Rule) -> bool {
    matches!(rule.by, By::User)
}

/// Asks the table for a request that a client has sent; then, about all limits that let it in, the store.
async fn check(request: &mut Request, concerns: fn(&Rule) -> bool) -> Flow {
    let slots = request.dir.slots.clone();
    let Some(rules) = slots.get::<ClientLimitDir>().rules.get() else { return Flow::Declined };
    let counted: fn(&Request, &Rule) -> bool = match request.previous() {
        // A subrequest is part of a request that counts, but may try a password.
        None if request.is_subrequest() => |_, rule| rule.counted == Counted::FailedLogins,
        // The page for a failed log-in is no attempt.
        Some(previous) if previous.status >= 400 => {
            |request, rule| rule.counted == Counted::Requests && !has_asked(request, rule)
        }
        _ => |request, rule| !has_asked(request, rule),
    };
    let (mut asked, mut debits) = (Vec::new(), Vec::new());
    for rule in rules.iter().filter(|rule| concerns(rule)) {
        if !counted(request, rule) {
            continue;
        }
        request.asks_beyond_head();
        match ask(request, rule) {
            Ok(None) => {
                request.note_passed_over("client_limit", Some(&rule.origin), |_| format!("{rule}: counts the request"))
            }
            Ok(Some(Asked { key, own: own @ Answer::Allowed { .. }, shared: Some(debit) })) => {
                asked.push((rule, key, own));
                debits.push(debit);
            }
            Ok(Some(Asked { own, .. })) => {
                if let flow @ Flow::Status(_) = settle(request, rule, own) {
                    return flow;
                }
            }
            // Whose request this is cannot be told: nobody gets past a limit that way.
            Err(why) => {
                request.log("client_limit", Level::Error, format!("{rule}: {why}"));
                return Flow::Status(500);
            }
        }
    }
    let ahead = store::ask(request, &debits).await;
    for (number, (rule, _, own)) in asked.iter().enumerate() {
        let shared = ahead.as_ref().and_then(|ahead| ahead.get(number)).map(|ahead| rule.rate.answer(*ahead));
        if let flow @ Flow::Status(_) = settle(request, rule, shared.unwrap_or(*own)) {
            // The store has not counted the request for the other limits.
            give_back(request, &asked[number + 1..]);
            return flow;
        }
    }
    Flow::Declined
}

/// Refuses a request if that is the answer, or says how many more may come.
fn settle(request: &mut Request, rule: &Rule, answer: Answer) -> Flow {
    match answer {
        Answer::Allowed { left } => {
            request.note_step("client_limit", Some(&rule.origin), |_| format!("{rule}: {left} more may come at once"));
            Flow::Declined
        }
        Answer::Refused { wait } => refuse(request, rule, wait.as_secs() + u64::from(wait.subsec_nanos() > 0)),
    }
}

/// Takes back what the table has counted for these limits.
fn give_back(request: &Request, asked: &[(&Rule, u64, Answer)]) {
    let Some((table, _)) = CLIENTS_OF_SERVER.get().filter(|_| !request.is_hypothetical()) else { return };
    for (rule, key, _) in asked.iter().filter(|(rule, ..)| rule.counted == Counted::Requests) {
        table.refund(*key, rule.rate.each);
    }
}

/// What the table says.
struct Asked {
    key: u64,
    own: Answer,
    /// What the store is to be asked, if there is one.
    shared: Option<Debit>,
}

/// What the client is told; `None`: the rule does not limit this client.
fn ask(request: &mut Request, rule: &Rule) -> Result<Option<Asked>, String> {
    let Some((table, hasher)) = CLIENTS_OF_SERVER.get() else { return Ok(None) };
    let Some(name) = name(request, &rule.by)? else { return Ok(None) };
    let limit = limit(hasher, rule);
    let key = hasher.hash_one((limit, &name));
    let shared_key = store::is_there(request).then(|| store::key(rule, &name));
    let charged = format!("{key} {} {}", rule.rate.each.as_nanos(), shared_key.as_deref().unwrap_or_default());
    remember(request, ASKED, &limit.to_string());
    match rule.counted {
        Counted::Requests => {}
        Counted::FailedLogins => remember(request, LOGINS, &charged),
        Counted::Bytes => remember(request, BYTES, &charged),
    }
    let takes = rule.counted == Counted::Requests && !request.is_hypothetical();
    let own = table.ask(key, rule.rate, monotonic(), takes);
    let shared = shared_key.map(|key| Debit {
        key,
        each: rule.rate.each,
        room: rule.rate.room(),
        spends: if takes { Spends::IfAllowed } else { Spends::Nothing },
        is_final: !rule.only_logs,
    });
    Ok(Some(Asked { key, own, shared }))
}

/// What tells a limit from others. A line with another rate is another limit, which nobody owes anything yet.
fn limit(hasher: &RandomState, rule: &Rule) -> u64 {
    hasher.hash_one((rule.origin.file(), rule.origin.line, rule.rate, rule.counted, rule.by.text()))
}

/// Whether a request has counted for a rule already, before an internal redirect or in an earlier phase.
fn has_asked(request: &Request, rule: &Rule) -> bool {
    CLIENTS_OF_SERVER.get().is_some_and(|(_, hasher)| {
        let limit = limit(hasher, rule).to_string();
        words(request, ASKED).any(|known| known == limit)
    })
}

/// The name under which the requests of this client count.
fn name(request: &Request, by: &By) -> Result<Option<String>, String> {
    match by {
        By::Address | By::Network => {
            let address = request.client().peer.ip().to_canonical();
            Ok(by.part_of(address).map(|part| part.to_string()))
        }
        By::User => Ok(request.login.user.clone()),
        By::Value(expr, _) => {
            let value = server::evaluate_string(request, expr).map_err(|why| why.to_string())?;
            Ok(Some(value).filter(|value| !value.is_empty()))
        }
    }
}

/// Refuses a request, or says that it would be refused.
fn refuse(request: &mut Request, rule: &Rule, seconds: u64) -> Flow {
    if let Some((table, _)) = CLIENTS_OF_SERVER.get().filter(|_| !request.is_hypothetical()) {
        table.count(Refused::Request, !rule.only_logs);
    }
    if rule.only_logs {
        request.env.set("CLIENT_LIMITED", rule.text.clone());
        request
            .note_step("client_limit", Some(&rule.origin), |_| format!("{rule}: would be refused, without only-log"));
        return Flow::Declined;
    }
    request.log("client_limit", Level::Info, format!("{rule} refuses {}, for {seconds} s", request.data.uri));
    request.note_reason(429, "client_limit", Some(&rule.origin), |_| {
        (rule.to_string(), format!("lets this client ask again in {seconds} s"))
    });
    let fields = &mut request.response.err_headers_out;
    fields.set("Retry-After", seconds.to_string());
    let Rate { each, burst } = rule.rate;
    let window = (each * burst).as_secs().max(1);
    // draft-ietf-httpapi-ratelimit-headers: the policy, and what is left of the quota until when.
    let unit = if rule.counted == Counted::Bytes { ";qu=\"content-bytes\"" } else { "" };
    fields.set("RateLimit-Policy", format!("\"client\";q={burst}{unit};w={window}"));
    fields.set("RateLimit", format!("\"client\";r=0;t={seconds}"));
    Flow::Status(429)
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines() {
        check(&[
            ("ClientLimit none", ""),
            ("ClientLimit 10/s", ""),
            ("ClientLimit 100/min burst=5 by=network only-log", ""),
            ("<Location />\nClientLimit 5/min of=failed-logins by=user\n</Location>", ""),
            ("ClientLimit 5/h by=%{HTTP:X-Key}", ""),
            ("ClientLimit 1M/s burst=20M of=bytes", ""),
            (
                "ClientLimit 1G/s of=bytes",
                "ClientLimit: '1G/s' is no rate, such as 500K/s, 100M/min or 2G/d, up to 100M/s and 3G/d",
            ),
            ("ClientLimit ten", "ClientLimit: 'ten' is no rate, such as 10/s, 100/min, 1000/h or 5000/d"),
            ("ClientLimit 1/s burst=0", "ClientLimit: 'burst=0' is not a number from 1 to 4294967295"),
            (
                "ClientLimit 1/s by=me",
                "ClientLimit: 'by=me' is neither address, network, user nor an expression like %{HTTP:X-Key}",
            ),
            ("ClientLimit 1/s of=sins", "ClientLimit: 'of=sins' is none of of=requests, of=failed-logins and of=bytes"),
            ("ClientLimit 1/s always", "ClientLimit: 'always' is none of burst=, by=, of= and only-log"),
            (
                "ClientLimitStore memcache:a",
                "ClientLimitStore: 'memcache:a' cannot count for several servers at once: only redis can",
            ),
            ("ClientLimitStore redis:192.0.2.1", ""),
            ("ClientLimitConnections 50\nClientLimitConnections 200 by=network except=192.0.2.0/24,::1 only-log", ""),
            ("ClientLimitConnections", "ClientLimitConnections takes a number, such as 50"),
            ("ClientLimitConnections 0", "ClientLimitConnections: '0' is not a number from 1 to 60000"),
            (
                "ClientLimitConnections 5 by=user",
                "ClientLimitConnections: 'by=user' is neither by=address nor by=network",
            ),
            (
                "ClientLimitConnections 5 except=a",
                "ClientLimitConnections: 'except=a' is no list of networks, such as 192.0.2.0/24,::1",
            ),
            ("ClientLimitConnections 5 x", "ClientLimitConnections: 'x' is none of by=, except= and only-log"),
            (
                "<VirtualHost *:80>\nClientLimitConnections 5\n</VirtualHost>",
                "ClientLimitConnections cannot occur within <VirtualHost> section",
            ),
            ("ClientLimitClients 0", "ClientLimitClients: '0' is not a number from 1 to 67108864"),
        ]);
    }
}
