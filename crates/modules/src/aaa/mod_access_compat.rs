//! `Order`, `Allow`, `Deny` and `Satisfy`: the access control of Apache 2.2, in addition to `Require`.
//!
//! Nothing is merged: a section with any of these lines discards those of the outer ones, including `Satisfy`.
//!
//! Apache manual: mod_access_compat.

use std::sync::Arc;

use conf::directive::Args::{Iterate2, Take1};
use conf::ip::{Subnet, SubnetError};
use conf::{
    Allowed, Cmd, Directive, Gathered, Level, Limited, ModuleInfo, Origin, Outcome, Refusal, SettingsMap, row, settings,
};
use server::PhaseHook::{Later, Now};
use server::settings::satisfy::Satisfy;
use server::{Flow, Hook, Module, Order, Phase, Request, dns};

use super::denied_thing;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo {
        id: "access_compat_module",
        source: "mod_access_compat.c",
        linked: false,
        directives: DIRECTIVES,
    },
    hooks: &[
        Hook::Repeatable,
        Hook::Phase(Phase::AccessChecker, Order::Middle, Now(check_now)),
        Hook::Phase(
            Phase::AccessChecker,
            Order::Middle,
            Later { claims: asks_for_name, run: |request| Box::pin(check(request)) },
        ),
    ],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("order", Allowed::LIMIT, Take1(set_order), "deny,allow", "'allow,deny', 'deny,allow', or 'mutual-failure'"),
    row("allow", Allowed::LIMIT, Iterate2(|c, from, clients| add(c, from, clients, |rules| &mut rules.allow)), "", "'from' followed by hostnames or IP-address wildcards"),
    row("deny", Allowed::LIMIT, Iterate2(|c, from, clients| add(c, from, clients, |rules| &mut rules.deny)), "", "'from' followed by hostnames or IP-address wildcards"),
    row("Satisfy", Allowed::AUTH, Take1(set_satisfy), "All", "access policy if both allow and require used ('all' or 'any')"),
];

settings! {
    /// The module's settings of a section.
    pub struct CompatDir {
        rules: Gathered<Rules>,
    }
}

/// The `Order`, `Allow` and `Deny` lines of a section.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    orders: Vec<(Methods, AccessOrder, Origin)>,
    allow: Vec<(Methods, Clients)>,
    deny: Vec<(Methods, Clients)>,
}

/// The `<Limit>` around a line.
type Methods = Option<Arc<Limited>>;

/// `Order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessOrder {
    AllowDeny,
    DenyAllow,
    MutualFailure,
}

/// The clients that a line applies to.
#[derive(Clone, Debug)]
enum Clients {
    All,
    Env(String),
    NotEnv(String),
    Network(Subnet),
    Host(String),
}

/// Whether the lines of these settings keep anybody out; `None`: there are none.
pub(crate) fn restricts(settings: &SettingsMap) -> Option<bool> {
    let rules = settings.get::<CompatDir>().rules.get()?;
    let lets_all_in = rules.allow.iter().any(|(methods, clients)| methods.is_none() && matches!(clients, Clients::All));
    let order = rules.orders.last().map_or(AccessOrder::DenyAllow, |(_, order, _)| *order);
    Some(match order {
        AccessOrder::DenyAllow => !rules.deny.is_empty() && !lets_all_in,
        AccessOrder::AllowDeny | AccessOrder::MutualFailure => !rules.deny.is_empty() || !lets_all_in,
    })
}

/// The lines of this section, which from now on replace those of the outer ones, including `Satisfy`.
fn rules<'a>(cmd: &'a mut Cmd<'_>) -> &'a mut Rules {
    let origin = cmd.origin();
    cmd.dir.edit::<Satisfy>().lines.edit(&origin);
    cmd.dir.edit::<CompatDir>().rules.edit(&origin)
}

/// Marks a line of this section as replaced by a later one, for all its methods.
fn forget(cmd: &mut Cmd<'_>, lost: &Origin) {
    cmd.dir.edit::<Satisfy>().lines.forget(lost);
    cmd.dir.edit::<CompatDir>().rules.forget(lost);
}

fn includes(later: &Methods, before: &Methods) -> bool {
    match (later, before) {
        (None, _) => true,
        (Some(later), Some(before)) => later.includes(before),
        (Some(_), None) => false,
    }
}

fn set_order(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let table = [
        ("allow,deny", AccessOrder::AllowDeny),
        ("deny,allow", AccessOrder::DenyAllow),
        ("mutual-failure", AccessOrder::MutualFailure),
    ];
    let turn = conf::values::one_of(value, &table).ok_or("unknown order")?;
    let (methods, origin) = (cmd.place.limited.clone(), cmd.origin());
    let orders = &mut rules(cmd).orders;
    let lost: Vec<_> = orders.extract_if(.., |(before, ..)| includes(&methods, before)).collect();
    orders.push((methods, turn, origin));
    lost.iter().for_each(|(.., origin)| forget(cmd, origin));
    Ok(())
}

fn set_satisfy(cmd: &mut Cmd<'_>, value: &str) -> Outcome {
    let any = conf::values::one_of(value, &[("all", false), ("any", true)]);
    let any = any.ok_or("Satisfy either 'any' or 'all'.")?;
    let methods = cmd.place.limited.clone();
    // Forgets the outer rules.
    rules(cmd);
    let origin = cmd.origin();
    let lines = cmd.dir.edit::<Satisfy>().lines.edit(&origin);
    let lost: Vec<_> = lines.extract_if(.., |(before, ..)| includes(&methods, before)).collect();
    lines.push((methods, any, origin));
    lost.iter().for_each(|(.., origin)| forget(cmd, origin));
    Ok(())
}

fn add(cmd: &mut Cmd<'_>, from: &str, clients: &str, list: fn(&mut Rules) -> &mut Vec<(Methods, Clients)>) -> Outcome {
    if !from.eq_ignore_ascii_case("from") {
        return Err(Refusal::argument(1, "allow and deny must be followed by 'from'"));
    }
    let clients = parse_clients(clients)?;
    let methods = cmd.place.limited.clone();
    list(rules(cmd)).push((methods, clients));
    Ok(())
}

fn parse_clients(word: &str) -> Result<Clients, String> {
    if word.contains('#') {
        return Err("No comments are allowed here".into());
    }
    if word.eq_ignore_ascii_case("all") {
        return Ok(Clients::All);
    }
    if let Some(name) = word.get(..4).filter(|start| start.eq_ignore_ascii_case("env=")).map(|_| &word[4..]) {
        return Ok(match name.strip_prefix('!') {
            Some(name) => Clients::NotEnv(name.into()),
            None => Clients::Env(name.into()),
        });
    }
    match Subnet::parse(word) {
        Ok(network) => Ok(Clients::Network(network)),
        Err(SubnetError::NotAnAddress) if word.contains('/') => Err("An IP address was expected".into()),
        Err(SubnetError::NotAnAddress) => Ok(Clients::Host(word.into())),
        Err(error) => Err(error.to_string()),
    }
}

/// A client's name: `None` if it is not known yet.
type Name<'a> = Option<Option<&'a str>>;

/// Whether a line names hosts.
fn asks_for_name(request: &Request) -> bool {
    let is_host = |(_, clients): &(Methods, Clients)| matches!(clients, Clients::Host(_));
    let rules = request.dir::<CompatDir>().rules.get();
    rules.is_some_and(|rules| rules.allow.iter().chain(&rules.deny).any(is_host))
}

/// Decides if no name has to be looked up.
fn check_now(request: &mut Request) -> Flow {
    if asks_for_name(request) {
        return Flow::Declined;
    }
    let slots = request.dir.slots.clone();
    let Some(rules) = slots.get::<CompatDir>().rules.get() else { return Flow::Declined };
    let let_in = admits(request, rules, None);
    flow_of(let_in, request)
}

/// Decides, and looks up the name of the client if necessary. If it cannot be found out, access is denied: a line that
/// denies might apply to this client.
async fn check(request: &mut Request) -> Flow {
    let slots = request.dir.slots.clone();
    let Some(rules) = slots.get::<CompatDir>().rules.get() else { return Flow::Declined };
    let let_in = match admits(request, rules, None) {
        None => match request.client().own_name().await {
            Ok(name) => admits(request, rules, Some(name.as_deref())),
            Err(why) => {
                let text = format!("{why}: cannot check Allow and Deny for host names: this client's name is unknown");
                request.log("access_compat", Level::Error, text);
                None
            }
        },
        known => known,
    };
    flow_of(let_in, request)
}

fn flow_of(let_in: Option<bool>, request: &mut Request) -> Flow {
    if let_in == Some(true) {
        return Flow::Ok;
    }
    let text = format!("AH01797: client denied by server configuration: {}", denied_thing(request));
    request.log("access_compat", Level::Error, text);
    request.note_reason(403, "access_compat", request.dir::<CompatDir>().rules.origin(), |request| {
        ("Order, Allow and Deny".into(), format!("keep {} from {}", request.client().ip(), denied_thing(request)))
    });
    Flow::Status(403)
}

/// Whether the lines grant access; `None`: that depends on the client's name.
fn admits(request: &Request, rules: &Rules, name: Name<'_>) -> Option<bool> {
    let turn = rules.orders.iter().rev().find(|(methods, ..)| covers(methods, &request.data.method));
    let (allowed, denied) = (|| applies(request, &rules.allow, name), || applies(request, &rules.deny, name));
    match turn.map_or(AccessOrder::DenyAllow, |(_, turn, _)| *turn) {
        AccessOrder::AllowDeny | AccessOrder::MutualFailure => match (allowed(), denied()) {
            (Some(false), _) | (_, Some(true)) => Some(false),
            (Some(true), Some(false)) => Some(true),
            _ => None,
        },
        AccessOrder::DenyAllow => match (denied(), allowed()) {
            (Some(false), _) | (_, Some(true)) => Some(true),
            (Some(true), Some(false)) => Some(false),
            _ => None,
        },
    }
}

fn covers(methods: &Methods, method: &str) -> bool {
    methods.as_ref().is_none_or(|limited| limited.covers(method))
}

/// Whether any of the lines applies to this request; `None`: that depends on the client's name.
fn applies(request: &Request, lines: &[(Methods, Clients)], name: Name<'_>) -> Option<bool> {
    let client = request.client().peer.ip().to_canonical();
    let mut otherwise = Some(false);
    for (_, clients) in lines.iter().filter(|(methods, _)| covers(methods, &request.data.method)) {
        let is_listed = match clients {
            Clients::All => true,
            Clients::Env(variable) => request.env.contains(variable),
            Clients::NotEnv(variable) => !request.env.contains(variable),
            Clients::Network(network) => network.contains(client),
            Clients::Host(domain) => match name {
                Some(name) => name.is_some_and(|name| dns::in_domain(domain, name)),
                None => {
                    otherwise = None;
                    false
                }
            },
        };
        if is_listed {
            return Some(true);
        }
    }
    otherwise
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives() {
        let inside = |line: &str| format!("<Location />\n{line}\n</Location>");
        for (line, want) in [
            ("Allow from all", ""),
            ("Allow FROM ALL", ""),
            (
                "Allow all",
                "allow requires at least two arguments, 'from' followed by hostnames or IP-address wildcards",
            ),
            ("Deny foo all", "allow and deny must be followed by 'from'"),
            ("Allow from 300.1.1.1", "The specified IP address is invalid."),
            ("Allow from 10/8", "The specified IP address is invalid."),
            ("Allow from foo/8", "An IP address was expected"),
            ("Allow from 10.0.0.0/99", "The specified network mask is invalid."),
            ("Allow from a #b", "No comments are allowed here"),
            ("Allow from env=a env=!b .example.com 10 fe80::/10 1.2.3.4/255.255.0.0", ""),
            ("Order foo", "unknown order"),
            ("Order allow, deny", "order takes one argument, 'allow,deny', 'deny,allow', or 'mutual-failure'"),
            ("Order Mutual-Failure", ""),
            ("Satisfy some", "Satisfy either 'any' or 'all'."),
            ("Satisfy ANY", ""),
        ] {
            crate::testing::check(&[(&inside(line), want)]);
        }
        crate::testing::check(&[
            ("Order allow,deny", "order not allowed here"),
            ("<VirtualHost *>\nAllow from all\n</VirtualHost>", "allow not allowed in <VirtualHost> context"),
        ]);
    }

    #[test]
    fn words_after_from() {
        assert!(matches!(parse_clients("ENV=!X"), Ok(Clients::NotEnv(name)) if name == "X"));
        assert!(matches!(parse_clients("env="), Ok(Clients::Env(name)) if name.is_empty()));
        assert!(matches!(parse_clients("10."), Ok(Clients::Network(_))));
        assert!(matches!(parse_clients("xn--bcher-kva.example"), Ok(Clients::Host(_))));
    }
}
