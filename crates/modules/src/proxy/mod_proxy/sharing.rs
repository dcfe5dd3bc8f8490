//! Which connections to backends all children share.

use conf::Level;
use server::Server;
use upstream::Address;

use super::backends::address_of;
use super::balancer::all;
use super::destination::keep_of;
use super::schemes::scheme_named;
use super::settings::ProxyServer;
use super::target::Target;

/// How many idle connections to a backend a child keeps for itself, where it serves many clients at a time.
const OWN: usize = 4;

/// Lets the children share the connections to the backends that the configuration names, if their protocol keeps connections open.
pub(super) fn share(server: &Server) -> Result<(), String> {
    let lines = server.hosts.iter().flat_map(|host| host.settings.get::<ProxyServer>().workers.iter());
    let balancers = all(server);
    let members = balancers.iter().flat_map(|balancer| balancer.members()).map(|member| &member.worker);
    let addresses = lines
        .map(|worker| &**worker)
        .chain(members)
        .filter_map(|worker| Some((address(&worker.target)?, keep_of(&worker.parameters))));
    // A child of prefork has one client at a time, who may ask nothing more for a long time.
    let own = if server.has_module("mpm_prefork_module") { 0 } else { OWN };
    if let Err(error) = upstream::share(addresses, own) {
        let text = format!("{}: each child has connections to backends of its own", sys::describe(&error));
        server.main().log("proxy", Level::Warn, &text);
    }
    Ok(())
}

/// The address of a backend whose connections are shared.
fn address(target: &Target) -> Option<Address> {
    let scheme = scheme_named(&target.scheme).filter(|scheme| scheme.reuse);
    scheme.filter(|scheme| !["https", "wss", "h2", "h2c"].contains(&scheme.name)).map(|_| address_of(target))
}
