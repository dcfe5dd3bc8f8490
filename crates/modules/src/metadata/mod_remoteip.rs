//! The client behind a proxy: from a field of the request, or from the proxy's announcement on the connection.
//!
//! Apache manual: mod_remoteip. Doubtful cases were measured on 2.4.71.

mod preface;

use std::net::{IpAddr, SocketAddr};

use conf::directive::Args::{Flag, Iterate, Take1};
use conf::ip::Subnet;
use conf::words::words;
use conf::{Allowed, Cmd, Directive, Level, Listed, ModuleInfo, Outcome, Setting, Stacked, on_or_off, row, settings};
use server::PhaseHook::Now;
use server::{Announced, Flow, Hook, Module, Order, Phase, Preface, Request, Server};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "remoteip_module", source: "mod_remoteip.c", linked: false, directives: DIRECTIVES },
    hooks: &[Hook::Repeatable, Hook::Preface(&PREFACE), Hook::Phase(Phase::PostRead, Order::First, Now(find_client))],
};

static PREFACE: Preface = Preface { is_used, is_expected, read: preface::read };

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("RemoteIPHeader", Allowed::SERVER, Take1(|c, name| c.server_set(|s: &mut RemoteIpServer| &mut s.header, name.into())), "", "Specifies a request header to trust as the client IP, e.g. X-Forwarded-For"),
    row("RemoteIPProxiesHeader", Allowed::SERVER, Take1(|c, name| c.server_set(|s: &mut RemoteIpServer| &mut s.proxies_header, name.into())), "", "Specifies a request header to record proxy IP's, e.g. X-Forwarded-By; if not given then do not record"),
    row("RemoteIPTrustedProxy", Allowed::SERVER, Iterate(|c, host| add_proxy(c, host, false)), "", "Specifies one or more proxies which are trusted to present IP headers"),
    row("RemoteIPInternalProxy", Allowed::SERVER, Iterate(|c, host| add_proxy(c, host, true)), "", "Specifies one or more internal (transparent) proxies which are trusted to present IP headers"),
    row("RemoteIPTrustedProxyList", Allowed::SERVER, Take1(|c, file| add_proxies(c, file, false)), "", "The filename to read the list of trusted proxies, see the RemoteIPTrustedProxy directive"),
    row("RemoteIPInternalProxyList", Allowed::SERVER, Take1(|c, file| add_proxies(c, file, true)), "", "The filename to read the list of internal proxies, see the RemoteIPInternalProxy directive"),
    row("RemoteIPProxyProtocol", Allowed::SERVER, Flag(|c, on| c.server_set(|s: &mut RemoteIpServer| &mut s.protocol, on)), on_or_off(PROTOCOL), "Enable PROXY protocol handling ('on', 'off')"),
    row("RemoteIPProxyProtocolExceptions", Allowed::SERVER, Iterate(add_exception), "", "Disable PROXY protocol handling for this list of networks in CIDR format"),
];

/// Whether the PROXY protocol is on by default.
const PROTOCOL: bool = false;

/// The note with the proxies of a request.
const PROXIES: &str = "remoteip-proxy-ip-list";

settings! {
    /// The module's settings of a server.
    pub struct RemoteIpServer {
        header: Setting<String>,
        proxies_header: Setting<String>,
        /// The trusted proxies. Those of a virtual host come before the main server's: the first that contains an address
        /// decides.
        proxies: Stacked<Proxy>,
        protocol: Setting<bool> = PROTOCOL,
        exceptions: Listed<Subnet>,
    }
}

/// The network of a proxy whose word about its client is taken.
#[derive(Clone, Debug)]
struct Proxy {
    network: Subnet,
    /// Whether it is also trusted for non-public addresses, and not recorded.
    internal: bool,
}

fn add_proxy(cmd: &mut Cmd<'_>, host: &str, internal: bool) -> Outcome {
    for network in networks(cmd, host)? {
        let origin = cmd.node.origin.clone();
        cmd.server.edit::<RemoteIpServer>().proxies.push(Proxy { network, internal }, &origin);
    }
    Ok(())
}

/// The networks of an address, a network, or a name.
fn networks(cmd: &Cmd<'_>, host: &str) -> Result<Vec<Subnet>, String> {
    let directive = cmd.row.name;
    let (name, mask) = host.split_once('/').map_or((host, None), |(name, mask)| (name, Some(mask)));
    let is_address = name.contains(':') || name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let error = |why: String| format!("RemoteIP: Error parsing IP {host} ({why} error) for {directive}");
    if is_address {
        return Subnet::parse(host).map(|network| vec![network]).map_err(|why| error(why.to_string()));
    }
    if let Some(mask) = mask {
        return Err(format!("RemoteIP: Error parsing IP {host} the subnet /{mask} is invalid for {directive}"));
    }
    let addresses = cmd.context.system.resolve(name).map_err(|why| error(sys::describe(&why)))?;
    let whole = |address: &IpAddr| Subnet::parse(&address.to_canonical().to_string());
    addresses.iter().map(whole).collect::<Result<_, _>>().map_err(|why| error(why.to_string()))
}

/// A file of proxies, in the form of the directives for them; a `#` begins a comment.
fn add_proxies(cmd: &mut Cmd<'_>, file: &str, internal: bool) -> Outcome {
    let path = cmd.context.server_relative(file);
    let bytes = cmd
        .context
        .system
        .read(&path)
        .map_err(|why| format!("{}: Could not open file {path}: {}", cmd.row.name, sys::reason(&why)))?;
    for (number, line) in http::text::from_bytes(&bytes).lines().enumerate() {
        for word in words(line).iter().take_while(|word| !word.starts_with('#')) {
            let added = add_proxy(cmd, word, internal);
            added.map_err(|why| format!("{} at line {} of {path}", why.message(), number + 1))?;
        }
    }
    Ok(())
}

fn add_exception(cmd: &mut Cmd<'_>, text: &str) -> Outcome {
    let network = Subnet::parse(text).map_err(|error| error.require_ip_message(text))?;
    cmd.server_push(|s: &mut RemoteIpServer| &mut s.exceptions, network)
}

fn is_used(server: &Server) -> bool {
    server.hosts.iter().any(|host| host.settings.get::<RemoteIpServer>().protocol())
}

/// The main server covers all addresses; of the virtual hosts with one address, the last with a setting decides.
fn is_expected(server: &Server, client: IpAddr, ours: SocketAddr) -> bool {
    let main = server.main().settings.get::<RemoteIpServer>();
    let mut expected = main.protocol();
    if !expected {
        for host in &server.hosts[1..] {
            let own = &host.settings.get::<RemoteIpServer>().protocol;
            let is_here = host.addresses.iter().any(|address| {
                address.ip.is_none_or(|ip| ip == ours.ip().to_canonical())
                    && address.port.is_none_or(|port| port == ours.port())
            });
            if own.origin() != main.protocol.origin() && is_here {
                expected = own.value_or(PROTOCOL);
            }
        }
    }
    expected && !main.exceptions.iter().any(|network| network.contains(client))
}

fn find_client(request: &mut Request) -> Flow {
    if let Announced::Client(address) = request.announced() {
        let client = request.client().behind(address);
        request.set_client(client);
        return Flow::Declined;
    }
    let host = request.vhost;
    let conf = host.settings.get::<RemoteIpServer>();
    let Some(header) = conf.header.get() else { return Flow::Declined };
    if let Some(list) = request.header_joined(header).map(std::borrow::Cow::into_owned) {
        from_list(request, conf, header, &list);
    }
    Flow::Declined
}

/// Goes through a list of addresses from its end, as long as the proxy that added one is trusted.
fn from_list(request: &mut Request, conf: &RemoteIpServer, header: &str, list: &str) {
    let proxies: Vec<&Proxy> = conf.proxies.iter().collect();
    // If proxies are listed, they count as internal until an external one is found.
    let mut internal = !proxies.is_empty();
    let (mut rest, mut client, mut passed) = (Some(list), request.client().peer, Vec::new());
    while let Some(left) = rest {
        let address = client.ip().to_canonical();
        match proxies.iter().find(|proxy| proxy.network.contains(address)) {
            Some(proxy) => internal &= proxy.internal,
            None if !proxies.is_empty() => break,
            None => {}
        }
        let (before, last) = left.rsplit_once(',').map_or((None, left), |(before, last)| (Some(before), last));
        let last = last.trim_matches(' ');
        let debug = |number: &str, what: &str| {
            let text = format!("{number}: RemoteIP: Header {header} value of {last} {what}");
            request.log("remoteip", Level::Debug, text);
        };
        if last.is_empty() {
            break;
        }
        let Some(found) = conf::ip::parse_address(last).map(|ip| ip.to_canonical()) else {
            debug("AH01568", "cannot be parsed as a client IP");
            break;
        };
        if !internal && !is_of_the_internet(found) {
            debug("AH01569", "appears to be a private IP or nonsensical.  Ignored");
            break;
        }
        if !internal {
            passed.push(address.to_string());
        }
        // The port of a client in a list is unknown.
        client = SocketAddr::new(found, 0);
        rest = before;
    }
    if rest == Some(list) {
        return;
    }
    match rest {
        Some(left) => request.headers_mut().set(header.to_string(), left),
        None => request.headers_mut().remove(header),
    }
    if !passed.is_empty() {
        let passed = passed.join(", ");
        if let Some(name) = conf.proxies_header.get() {
            request.headers_mut().set(name.clone(), passed.clone());
        }
        request.notes.set(PROXIES, passed);
    }
    let client = request.client().behind(client);
    request.set_client(client);
}

/// Whether an external proxy may be trusted for an address: not for those that Apache considers private or nonsensical.
fn is_of_the_internet(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => !(ip.is_private() || ip.is_loopback() || ip.is_link_local()),
        IpAddr::V6(ip) => ip.octets()[0] & 0xe0 == 0x20,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn lines_as_apache_takes_them() {
        check(&[
            (
                "RemoteIPTrustedProxy 10.0.0.0/99",
                "RemoteIP: Error parsing IP 10.0.0.0/99 (The specified network mask is invalid. error) for RemoteIPTrustedProxy",
            ),
            (
                "RemoteIPInternalProxy name/8",
                "RemoteIP: Error parsing IP name/8 the subnet /8 is invalid for RemoteIPInternalProxy",
            ),
            (
                "RemoteIPTrustedProxyList /none",
                "RemoteIPTrustedProxyList: Could not open file /none: No such file or directory",
            ),
            ("RemoteIPProxyProtocolExceptions x", "ip address 'x' appears to be invalid"),
            ("RemoteIPProxyProtocol maybe", "RemoteIPProxyProtocol must be On or Off"),
            ("RemoteIPTrustedProxy 10.0.0.0/8 ::1 127.0.0.1\nRemoteIPHeader X-A\nRemoteIPProxiesHeader X-B", ""),
        ]);
    }
}
