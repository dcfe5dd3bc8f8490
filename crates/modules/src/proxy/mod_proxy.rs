//! Which requests are passed on to which server: `ProxyPass` by URL, `SetHandler "proxy:…"` by section.
//!
//! Apache manual: mod_proxy. The differences are in `docs/differences.md`; doubtful cases were measured on 2.4.71. As
//! in Apache, the file name of a request contains its target: `proxy:fcgi://host/path`.

mod ajp_settings;
mod backends;
mod balance;
mod balancer;
mod balancer_lines;
mod blocked;
mod broken;
mod by_heartbeat;
mod carried;
mod destination;
mod elect;
mod encryption;
mod examine;
mod foreseen;
mod forward;
mod forwarded;
mod guard;
mod health;
mod interpolate;
mod limited;
mod map;
mod member;
mod method;
mod new_member;
mod open;
mod place;
mod received;
mod remote;
mod report;
mod rest;
mod reverse;
mod scheme;
mod schemes;
mod serve;
mod servlet;
mod set;
mod set_way;
mod settings;
mod sharing;
mod status;
mod target;
mod unused;
mod way;
mod worker;

use conf::directive::Args::{Flag, Iterate, Section, Take1, Take23, Words};
use conf::{Allowed, Directive, ModuleInfo, on_or_off, row};
use server::PhaseHook::Now;
use server::{Handler, Hook, Module, Order, Phase};

pub(crate) use self::ajp_settings::AjpSettings;
pub(crate) use self::backends::{Counted, counted};
pub(crate) use self::balancer::{
    Balancer, Balancers, NAME as BALANCER_LOG_NAME, NotAdded, STICKY_MAX, all, all_of_hosts, has_checks, persists,
    resolve, share_text, shown,
};
pub(crate) use self::blocked::BLOCKED;
pub(crate) use self::broken::broken;
pub(crate) use self::destination::timeout;
pub(crate) use self::forwarded::{
    Forwarded, HopByHop, adds_fields, asks_first, fields, host, host_name, is_trailer, one_of_each,
};
pub(crate) use self::health::{Health, HealthMethod};
pub(crate) use self::member::Member;
pub(crate) use self::method::Method;
pub(crate) use self::new_member::new_member;
pub(crate) use self::received::{pass_on, take_field};
pub(crate) use self::reverse::{EXPRESS, cookie, reversed};
pub(crate) use self::scheme::{Backend, BackendProtocol, Destination, Scheme, prepare, proxy_error, respond};
pub(crate) use self::schemes::port_of;
pub(crate) use self::set::{add_health_expr, add_health_template};
use self::settings::{
    ADD_HEADERS, BALANCER_INHERIT, BALANCER_PERSIST, FORWARD_CONTINUE, INHERIT, INTERPOLATE, PRESERVE_HOST, ProxyDir,
    ProxyServer, REQUESTS,
};
pub(crate) use self::status::Status;
pub(crate) use self::target::Target;
pub(crate) use self::way::{Wanted, find};
pub(crate) use self::worker::{ROUTE_MAX, factor};

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "proxy_module", source: "mod_proxy.c", linked: false, directives: DIRECTIVES },
    hooks: &[
        Hook::Repeatable,
        Hook::Mutex("proxy"),
        Hook::HandlerName(set::check_handler),
        Hook::Check(open::refuse),
        Hook::Check(backends::resolve),
        Hook::Examine(examine::lines),
        Hook::Start(encryption::prepare),
        Hook::Start(sharing::share),
        Hook::Start(backends::start),
        Hook::Tick(|_| upstream::tidy()),
        Hook::Tick(|_| backends::give_back()),
        Hook::Command("proxy", report::report),
        Hook::Forward(forward::detect),
        Hook::MapUndecoded(&map::UNDECODED),
        Hook::Phase(Phase::Translate, Order::First, Now(map::translate)),
        Hook::Phase(Phase::MapToStorage, Order::First, Now(map::sections)),
        // Before mod_rewrite, whose rules in sections escape the URLs they make themselves.
        Hook::Phase(Phase::Fixups, Order::ReallyFirst, Now(map::canonical)),
        Hook::Handler(
            Order::First,
            Handler::Later { claims: serve::claims, check: serve::refusal, run: |request| serve::handle(request) },
        ),
    ],
};

const BUFFER: &str = "The kernel chooses the size.";
const SPOKEN: &str = "The protocols are `http`, `https`, `h2`, `h2c`, `ws`, `wss`, `ajp`, `fcgi`, `scgi` and `uwsgi`; any other is refused. The parameters `min`, `keepalive`, `addressttl`, `flushwait`, `receivebuffersize` and `responsefieldsize` have no effect, and `iobuffersize`, `ping` and `secret` concern AJP only.";
const OPEN: &str = "On is refused if no `<Proxy>` section says who may use the proxy, or one lets everybody.";
const NO_GROWTH: &str =
    "Neither Apache's balancer-manager nor this one adds balancers; `growth` is the room for more members.";

const SERVER: Allowed = Allowed::SERVER;
const CONF: Allowed = Allowed::CONF;

/// A row of a directive with one word that is accepted and has no effect here.
const fn nothing(
    name: &'static str,
    allowed: Allowed,
    default: &'static str,
    help: &'static str,
    why: &'static str,
) -> Directive {
    row(name, allowed, Take1(|_, _| Ok(())), default, help).without_effect(why)
}

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("<Proxy", SERVER, Section(set::section), "", "Container for directives affecting resources located in the proxied location"),
    row("<ProxyMatch", SERVER, Section(set::section), "", "Container for directives affecting resources located in the proxied location, in regular expression syntax"),
    row("ProxyRequests", SERVER, Flag(|c, on| c.server_set(|s: &mut ProxyServer| &mut s.requests, on)), on_or_off(REQUESTS), "on if the true proxy requests should be accepted").differs(OPEN),
    row("ProxyRemote", SERVER, Take23(|c, which, proxy, user| set_way::remote(c, which, proxy, user, false)), "", "a scheme, partial URL or '*' and a proxy server"),
    row("ProxyRemoteMatch", SERVER, Take23(|c, which, proxy, user| set_way::remote(c, which, proxy, user, true)), "", "a regex pattern and a proxy server"),
    row("ProxyPassInterpolateEnv", CONF, Flag(|c, on| c.set(|d: &mut ProxyDir| &mut d.interpolate, on)), on_or_off(INTERPOLATE), "Interpolate Env Vars in reverse Proxy"),
    row("ProxyPass", CONF, Words(|c, words| set::add_pass(c, words, false)), "", "a virtual path and a URL").differs(SPOKEN),
    row("ProxyPassMatch", CONF, Words(|c, words| set::add_pass(c, words, true)), "", "a virtual path and a URL").differs(SPOKEN),
    row("ProxyPassReverse", CONF, Words(set::add_reverse), "", "a virtual path and a URL for reverse proxy behaviour"),
    row("ProxyPassReverseCookiePath", CONF, Take23(|c, inner, outer, word| { let one = set::reverse(inner, outer, word)?; c.push(|d: &mut ProxyDir| &mut d.cookie_paths, one) }), "", "Path rewrite rule for proxying cookies"),
    row("ProxyPassReverseCookieDomain", CONF, Take23(|c, inner, outer, word| { let one = set::reverse(inner, outer, word)?; c.push(|d: &mut ProxyDir| &mut d.cookie_domains, one) }), "", "Domain rewrite rule for proxying cookies"),
    row("ProxyBlock", SERVER, Iterate(set_way::block), "", "A list of names, hosts or domains to which the proxy will not connect"),
    nothing("ProxyReceiveBufferSize", SERVER, "0", "Receive buffer size for outgoing HTTP and FTP connections in bytes", BUFFER),
    row("ProxyIOBufferSize", SERVER, Take1(set::io_buffer), "8192", "IO buffer size for outgoing HTTP and FTP connections in bytes").differs("It is the length of packets to AJP servers only: other data is passed on as it arrives."),
    row("ProxyMaxForwards", SERVER, Take1(set::max_forwards), "-1", "The maximum number of proxies a request may be forwarded through."),
    row("NoProxy", SERVER, Iterate(set_way::no_proxy), "", "A list of domains, hosts, or subnets to which the proxy will connect directly"),
    row("ProxyDomain", SERVER, Take1(set_way::domain), "", "The default intranet domain name (in absence of a domain in the URL)"),
    row("ProxyVia", SERVER, Take1(set::via), "Off", "Configure Via: proxy header header to one of: on | off | block | full"),
    row("ProxyErrorOverride", CONF, Words(set::error_override), "Off", "use our error handling pages instead of the servers' we are proxying"),
    row("ProxyPreserveHost", CONF, Flag(|c, on| c.set(|d: &mut ProxyDir| &mut d.preserve_host, on)), on_or_off(PRESERVE_HOST), "on if we should preserve host header while proxying"),
    row("ProxyTimeout", SERVER, Take1(set::timeout), "Timeout", "Set the timeout (in seconds) for a proxied connection. This overrides the server timeout"),
    row("ProxyBadHeader", SERVER, Take1(|c, v| set::check_word(c, v, &["IsError", "Ignore", "StartBody"])), "IsError", "How to handle bad header line in response: IsError | Ignore | StartBody").differs("A response with a malformed header is always an error."),
    row("BalancerMember", CONF, Words(set::add_member), "", "A balancer name and scheme with list of params").differs(SPOKEN),
    row("BalancerGrowth", SERVER, Take1(set::check_growth), "5", "Number of additional Balancers that can be added post-config").without_effect(NO_GROWTH),
    row("BalancerPersist", SERVER, Flag(|c, on| c.server_set(|s: &mut ProxyServer| &mut s.balancer_persist, on)), on_or_off(BALANCER_PERSIST), "on if the balancer should persist changes on reboot/restart made via the Balancer Manager"),
    row("BalancerInherit", SERVER, Flag(|c, on| c.server_set(|s: &mut ProxyServer| &mut s.balancer_inherit, on)), on_or_off(BALANCER_INHERIT), "on if this server should inherit Balancers and Workers defined in the main server (Setting to off recommended if using the Balancer Manager)"),
    row("ProxyPassInherit", SERVER, Flag(|c, on| c.server_set(|s: &mut ProxyServer| &mut s.inherit, on)), on_or_off(INHERIT), "on if this server should inherit all ProxyPass directives defined in the main server (Setting to off recommended if using the Balancer Manager)"),
    row("ProxyStatus", SERVER, Take1(set::status), "Off", "Configure Status: proxy status to one of: on | off | full"),
    row("ProxySet", CONF, Words(set::parameters), "", "A balancer or worker name with list of params"),
    row("ProxySourceAddress", SERVER, Take1(set_way::source), "", "Configure local source IP used for request forward"),
    row("ProxyAddHeaders", CONF, Flag(|c, on| c.set(|d: &mut ProxyDir| &mut d.add_headers, on)), on_or_off(ADD_HEADERS), "on if X-Forwarded-* headers should be added or completed"),
    row("Proxy100Continue", CONF, Flag(|c, on| c.set(|d: &mut ProxyDir| &mut d.forward_continue, on)), on_or_off(FORWARD_CONTINUE), "on if 100-Continue should be forwarded to the origin server, off if the proxy should handle it by itself"),
];

#[cfg(test)]
mod tests;
