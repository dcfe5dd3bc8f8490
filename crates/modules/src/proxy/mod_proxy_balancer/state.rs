//! What the page `balancer-manager` has changed, as JSON: what differs from the configuration, the members that it has added, and the
//! counts of members.
//!
//! As in Apache, a change of the page counts more than a line that changes later. A member that is gone is forgotten.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Map, Value, json};
use server::Server;

use super::change::{FLAGS, HEALTH};
use crate::proxy::mod_proxy::{Balancer, Member, Method, NotAdded, Status, new_member};

/// The first member of the JSON, which says what it is.
const FORMAT: &str = "Tsubame balancers 1";

/// A balancer, and the server that has it.
pub(super) type Named = (String, Arc<Balancer>);

/// The state of these balancers.
pub(super) fn of(balancers: &[Named]) -> Value {
    let all: Vec<Value> = balancers.iter().map(|(server, balancer)| of_balancer(server, balancer)).collect();
    json!({ "format": FORMAT, "balancers": all })
}

fn of_balancer(server: &str, balancer: &Balancer) -> Value {
    let (first, now) = (&balancer.first, balancer.settings());
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| _ = all.insert(name.into(), value);
    put("server", server.into());
    put("name", balancer.name.as_str().into());
    if now.method != first.method {
        put("method", now.method.name().into());
    }
    if now.timeout != first.timeout {
        put("timeout", now.timeout.map_or(0, |time| time.as_secs()).into());
    }
    if now.attempts != first.attempts {
        put("attempts", now.attempts.into());
    }
    if now.no_failover != first.no_failover {
        put("nofailover", now.no_failover.into());
    }
    if now.sticky != first.sticky {
        put("sticky", now.sticky.map_or_else(|| json!([]), |(cookie, parameter)| json!([cookie, parameter])));
    }
    put("members", balancer.members().map(of_member).collect());
    all.into()
}

fn of_member(member: &Member) -> Value {
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| _ = all.insert(name.into(), value);
    put("url", member.url.as_str().into());
    if member.is_added {
        put("added", true.into());
    }
    if member.factor() != member.first_factor() {
        put("factor", member.factor().into());
    }
    if member.set_number() != member.first_set() {
        put("set", member.set_number().into());
    }
    let (now, first) = (letters(member.status()), letters(member.first_status()));
    if now != first {
        put("status", now.into());
    }
    let first = &member.worker.parameters;
    for (name, now, first) in
        [("route", member.route(), &first.route), ("redirect", member.redirect(), &first.redirect)]
    {
        if now.as_deref().unwrap_or_default() != first.as_deref().unwrap_or_default() {
            put(name, now.unwrap_or_default().into());
        }
    }
    let health = member.health();
    if *health != first.health {
        put("health", health.values().to_vec().into());
    }
    for (name, count) in [("elected", member.elected()), ("sent", member.sent()), ("received", member.received())] {
        put(name, count.load(Relaxed).into());
    }
    all.into()
}

/// The letters of what the page may change, and nobody else does.
fn letters(status: Status) -> String {
    flags().filter(|(flag, _)| status.has(*flag)).map(|(_, letter)| letter).collect()
}

fn flags() -> impl Iterator<Item = (Status, char)> {
    let is_changed = |letter: char| letter != HEALTH && FLAGS.iter().any(|(own, _)| *own == letter);
    Status::flags().map(|(status, letter, _)| (status, letter)).filter(move |(_, letter)| is_changed(*letter))
}

/// Brings balancers into a state. Returns what no longer fits. `Err`: it is no state at all, and changes nothing.
pub(super) fn apply(state: &Value, balancers: &[Named], server: &Server) -> Result<Vec<String>, &'static str> {
    const OTHER: &str = "it was made by another program, or is damaged";
    if state["format"] != FORMAT {
        return Err(OTHER);
    }
    let states = state["balancers"].as_array().ok_or(OTHER)?;
    if !states
        .iter()
        .all(|one| one["members"].as_array().is_some_and(|all| all.iter().all(|one| one["url"].is_string())))
    {
        return Err(OTHER);
    }
    let mut lost = Vec::new();
    for (of, balancer) in balancers {
        let is_its = |state: &&Value| state["server"] == **of && state["name"] == *balancer.name;
        if let Some(state) = states.iter().find(is_its) {
            apply_to_balancer(state, balancer);
            for member in state["members"].as_array().into_iter().flatten() {
                if let Err(why) = apply_to_member(member, balancer, server) {
                    lost.push(format!("{}: {}: {why}", balancer.url(), member["url"].as_str().unwrap_or_default()));
                }
            }
        }
    }
    Ok(lost)
}

fn apply_to_balancer(state: &Value, balancer: &Balancer) {
    let mut settings = balancer.first.clone();
    let method = state["method"].as_str().and_then(Method::named);
    settings.method = method.unwrap_or(settings.method);
    if let Some(seconds) = state["timeout"].as_u64() {
        settings.timeout = Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero());
    }
    let attempts = state["attempts"].as_u64().and_then(|number| usize::try_from(number).ok());
    settings.attempts = attempts.unwrap_or(settings.attempts);
    settings.no_failover = state["nofailover"].as_bool().unwrap_or(settings.no_failover);
    if let Some(sticky) = state["sticky"].as_array() {
        settings.sticky = match &sticky[..] {
            [Value::String(cookie), Value::String(parameter)] => Some((cookie.clone(), parameter.clone())),
            _ => None,
        };
    }
    // Nobody else has the balancer yet.
    let _ = balancer.change(&settings);
}

/// `Err`: why the member cannot be added.
fn apply_to_member(state: &Value, balancer: &Balancer, server: &Server) -> Result<(), String> {
    let url = state["url"].as_str().unwrap_or_default();
    let is_added = state["added"] == true;
    let find = || balancer.members().find(|member| member.url == url);
    let member = match find() {
        Some(member) => member,
        None if !is_added => return Ok(()),
        None => balancer.add(&new_member(server, url)?).map_err(|why| match why {
            NotAdded::Full => "there is no room for another member (growth)".to_string(),
            NotAdded::Known | NotAdded::Stuck => "it cannot be added".to_string(),
        })?,
    };
    let factor = state["factor"].as_u64().and_then(|factor| u32::try_from(factor).ok());
    let factor = factor.filter(|factor| (100..=10_000).contains(factor)).unwrap_or(member.first_factor());
    let set = state["set"].as_u64().and_then(|set| u8::try_from(set).ok()).filter(|set| *set < 100);
    member.set_share(factor, set.unwrap_or(member.first_set()));
    // A member that was added has no line: what is not in its state is not the case.
    let status = state["status"].as_str().or(Some("").filter(|_| member.is_added));
    if let Some(letters) = status {
        flags().for_each(|(flag, letter)| member.set(flag, letters.contains(letter)));
    }
    let text = |name: &str| state[name].as_str().filter(|text| is_route(text));
    if let (Some(_), _) | (_, Some(_)) = (text("route"), text("redirect")) {
        let (route, redirect) = (member.route().unwrap_or_default(), member.redirect().unwrap_or_default());
        let new = (text("route").unwrap_or(&route), text("redirect").unwrap_or(&redirect));
        // Nobody else has the balancer yet.
        let _ = balancer.set_routes(member, new.0, new.1);
    }
    let values: Option<Vec<Option<&str>>> =
        state["health"].as_array().map(|all| all.iter().map(Value::as_str).collect());
    let values = values.and_then(|values| <[Option<&str>; 6]>::try_from(values).ok());
    if let Some(health) = values.and_then(|values| member.health_with(values)) {
        // Nobody else has the balancer yet.
        let _ = balancer.set_health(member, &health);
    }
    for (name, count) in [("elected", member.elected()), ("sent", member.sent()), ("received", member.received())] {
        count.store(state[name].as_u64().unwrap_or(0), Relaxed);
    }
    Ok(())
}

fn is_route(text: &str) -> bool {
    text.len() <= crate::proxy::mod_proxy::ROUTE_MAX && !text.chars().any(char::is_control)
}
