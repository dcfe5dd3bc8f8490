//! `Require ip`, `Require host`, `Require forward-dns` and `Require local`.
//!
//! Host names are looked up beside the event loop, with a time limit. A name that cannot be found out neither matches
//! nor fails to match, so neither `Require host` nor `Require not host` grants access because of it.
//!
//! Apache manual: mod_authz_host.

use std::sync::Arc;

use conf::ip::{Networks, Subnet};
use conf::words::words;
use conf::{Cmd, Level, ModuleInfo, Refusal};
use server::authz::AuthzCheck::{Later, Now};
use server::authz::{AuthzProvider, Parsed, Verdict};
use server::{Hook, Module, Request, dns};

use super::Text;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "authz_host_module", source: "mod_authz_host.c", linked: false, directives: &[] },
    hooks: &[Hook::Authz(&IP), Hook::Authz(&HOST), Hook::Authz(&FORWARD_DNS), Hook::Authz(&LOCAL)],
};

static IP: AuthzProvider = AuthzProvider { name: "ip", parse: parse_networks, check: Now(in_networks) };
static HOST: AuthzProvider = AuthzProvider {
    name: "host",
    parse: parse_names,
    check: Later(|request, names| Box::pin(in_domains(request, names))),
};
static FORWARD_DNS: AuthzProvider = AuthzProvider {
    name: "forward-dns",
    parse: parse_names,
    check: Later(|request, names| Box::pin(has_name(request, names))),
};
static LOCAL: AuthzProvider = AuthzProvider { name: "local", parse: |_, _| Ok(Arc::new(())), check: Now(is_local) };

/// The names in `Require host` and `Require forward-dns`; the line is kept for messages.
struct Names {
    text: Text,
    line: String,
}

fn granted_if(yes: bool) -> Verdict {
    if yes { Verdict::Granted } else { Verdict::Denied }
}

fn parse_networks(_: &mut Cmd<'_>, line: &str) -> Result<Parsed, Refusal> {
    let words = words(line);
    if words.is_empty() {
        return Err(Refusal::missing("'require ip' requires an argument"));
    }
    let network = |(number, word): (usize, &String)| {
        Subnet::parse(word).map_err(|error| Refusal::argument(number, error.require_ip_message(word)))
    };
    Ok(Arc::new((1..).zip(&words).map(network).collect::<Result<Networks, Refusal>>()?))
}

fn in_networks(request: &mut Request, networks: &Parsed) -> Verdict {
    let Some(networks) = networks.downcast_ref::<Networks>() else { return Verdict::Error };
    granted_if(networks.contains(request.client().peer.ip()))
}

fn parse_names(cmd: &mut Cmd<'_>, line: &str) -> Result<Parsed, Refusal> {
    Ok(Arc::new(Names { text: Text::of_require(cmd, line)?, line: line.to_string() }))
}

async fn in_domains(request: &Request, names: &Parsed) -> Verdict {
    let Some(names) = names.downcast_ref::<Names>() else { return Verdict::Error };
    let (why, verdict) = match request.client().own_name().await {
        Ok(Some(host)) => return is_in_domains(request, names, &host),
        Ok(None) => (String::new(), Verdict::Denied),
        Err(why) => (format!("{why}: "), Verdict::Unknown),
    };
    let text = format!(
        "{why}AH01753: access check of '{}' to {} failed, reason: unable to get the remote host name",
        names.line, request.data.uri
    );
    request.log("authz_host", Level::Error, text);
    verdict
}

fn is_in_domains(request: &Request, names: &Names, host: &str) -> Verdict {
    let what = "AH02593: authz_host authorize: require host: Can't evaluate require expression";
    let Some(text) = names.text.value(request, "authz_host", what) else { return Verdict::Unknown };
    let domains = words(without_comment(&text));
    if text.contains('#') {
        let (level, message) = match domains.is_empty() {
            true => (
                Level::Error,
                format!("AH10120: authz_host authorize: dubious empty 'Require host {text}' with only comment"),
            ),
            false => (Level::Warn, format!("AH10121: authz_host authorize: ignoring comment in 'Require host {text}'")),
        };
        request.log("authz_host", level, message);
    }
    granted_if(domains.iter().any(|domain| dns::in_domain(domain, host)))
}

async fn has_name(request: &Request, names: &Parsed) -> Verdict {
    let Some(names) = names.downcast_ref::<Names>() else { return Verdict::Error };
    let what = "AH03354: authz_host authorize: require forward-dns: Can't evaluate require expression";
    let Some(text) = names.text.value(request, "authz_host", what) else { return Verdict::Unknown };
    let client = request.client().peer.ip().to_canonical();
    let (deadline, mut otherwise) = (dns::deadline(), Verdict::Denied);
    for name in words(without_comment(&text)) {
        let (why, addresses) = match dns::addresses_of(&name, client, deadline).await {
            Ok(addresses) => (String::new(), addresses),
            Err(why) => {
                otherwise = Verdict::Unknown;
                (format!("{why}: "), Arc::default())
            }
        };
        if addresses.is_empty() {
            request.log("authz_host", Level::Warn, format!("{why}AH03356: No sockaddr info for \"{name}\""));
            continue;
        }
        let same = addresses.contains(&client);
        let answer = if same { "yes" } else { "no" };
        request.log("authz_host", Level::Debug, format!("AH03355: access check for {client} as '{name}': {answer}"));
        if same {
            return Verdict::Granted;
        }
    }
    otherwise
}

/// The text before a `#`: the author took the rest for a comment, so it must not name hosts.
fn without_comment(text: &str) -> &str {
    text.split_once('#').map_or(text, |(before, _)| before)
}

fn is_local(request: &mut Request, _: &Parsed) -> Verdict {
    let client = request.client().peer.ip().to_canonical();
    granted_if(client.is_loopback() || client == request.local().ip().to_canonical())
}
