//! What forms of the page `balancer-manager` change: for all processes, and until the next restart, or beyond (`BalancerPersist`).
//!
//! Which values count was measured on 2.4.71. As in Apache, one that is out of range changes nothing.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use conf::Level;
use conf::values::atoi;
use http::uri::escape_html;
use server::{HandlerResult, Request};

use super::fields::Fields;
use crate::proxy::mod_proxy::{
    BALANCER_LOG_NAME, Balancer, Member, Method, NotAdded, ROUTE_MAX, STICKY_MAX, Status, factor, has_checks,
    new_member,
};

/// The flags of a status that the forms offer: the letter, and the heading.
pub(super) const FLAGS: [(char, &str); 7] = [
    ('I', "Ignore Errors"),
    ('N', "Draining Mode"),
    ('D', "Disabled"),
    ('H', "Hot Standby"),
    ('R', "Hot Spare"),
    (HEALTH, "HC Fail"),
    ('S', "Stopped"),
];
/// The flag that there is with mod_proxy_hcheck only.
pub(super) const HEALTH: char = 'C';
/// The longest time that a request waits for a member, in seconds.
const TIMEOUT_MAX: i32 = 7200;
/// The most attempts.
const ATTEMPTS_MAX: i32 = 99;

/// Changes what the form says. `Err`: the response that says what is wrong.
pub(super) fn apply(
    request: &mut Request,
    balancer: &Balancer,
    member: Option<&Member>,
    fields: &Fields,
) -> Result<(), HandlerResult> {
    let changed = change(request, balancer, member, fields);
    balancer.changes().fetch_add(1, Relaxed);
    changed.map_err(|refused| refuse(request, balancer, refused))
}

/// Why a form has no effect.
enum Refused {
    /// A new member that cannot be one, and why.
    Member(String, String),
    NotAdded(String, NotAdded),
    Stuck,
}

fn change(request: &Request, balancer: &Balancer, member: Option<&Member>, fields: &Fields) -> Result<(), Refused> {
    if let Some(member) = member {
        change_member(request, balancer, member, fields)?;
    }
    change_balancer(request, balancer, fields)?;
    match fields.get("b_nwrkr").filter(|_| fields.get("b_wyes") == Some("1")) {
        Some(url) => add(request, balancer, url),
        None => Ok(()),
    }
}

fn change_member(request: &Request, balancer: &Balancer, member: &Member, fields: &Fields) -> Result<(), Refused> {
    let was_usable = member.status().is_usable();
    let share = fields.get("w_lf").and_then(factor).unwrap_or(member.factor());
    let set = fields.get("w_ls").map(atoi).and_then(|set| u8::try_from(set).ok()).filter(|set| *set < 100);
    member.set_share(share, set.unwrap_or(member.set_number()));
    if fields.get("w_wr").or(fields.get("w_rr")).is_some() {
        // As in Apache, one that is too long is none.
        let valid = |text: &&str| text.len() <= ROUTE_MAX && !text.chars().any(char::is_control);
        let (route, redirect) = (member.route().unwrap_or_default(), member.redirect().unwrap_or_default());
        let new = |name, own| fields.get(name).map_or(own, |text| Some(text).filter(valid).unwrap_or_default());
        let new = (new("w_wr", &*route), new("w_rr", &*redirect));
        if new != (&*route, &*redirect) {
            balancer.set_routes(member, new.0, new.1).map_err(|_| Refused::Stuck)?;
        }
    }
    for (status, letter, _) in Status::flags().filter(|(_, letter, _)| is_offered(request, *letter)) {
        if let Some(text) = fields.get(&format!("w_status_{letter}")) {
            member.set(status, atoi(text) != 0);
        }
    }
    if has_checks(request.server) {
        let mut values = ["w_hm", "w_hi", "w_hp", "w_hf", "w_he", "w_hu"].map(|name| fields.get(name));
        // As in Apache, a path from the page is no longer than a route; a longer one is none.
        values[5] = values[5].map(|uri| if uri.len() <= ROUTE_MAX { uri } else { "" });
        if let Some(health) = member.health_with(values).filter(|health| *health != *member.health()) {
            balancer.set_health(member, &health).map_err(|_| Refused::Stuck)?;
        }
    }
    if !was_usable && member.status().is_usable() {
        balancer.forget_traffic(balancer.method());
    }
    let text = format!("{}: {} is now {}", balancer.url(), member.url, member.status().words().trim_end());
    request.log(BALANCER_LOG_NAME, Level::Notice, text);
    Ok(())
}

/// Whether the forms offer the flag with this letter.
pub(super) fn is_offered(request: &Request, letter: char) -> bool {
    let has_checks = || request.server.language.has_module("proxy_hcheck_module");
    FLAGS.iter().any(|(own, _)| *own == letter) && (letter != HEALTH || has_checks())
}

fn change_balancer(request: &Request, balancer: &Balancer, fields: &Fields) -> Result<(), Refused> {
    let before = balancer.settings();
    let mut settings = before.clone();
    let method = fields.get("b_lbm").and_then(Method::named);
    if let Some(method) = method.filter(|method| request.server.language.has_module(method.module())) {
        settings.method = method;
    }
    let number = |name: &str, most: i32| fields.get(name).map(atoi).filter(|number| (0..=most).contains(number));
    if let Some(seconds) = number("b_tmo", TIMEOUT_MAX) {
        settings.timeout = Some(Duration::from_secs(seconds.unsigned_abs().into())).filter(|time| !time.is_zero());
    }
    if let Some(attempts) = number("b_max", ATTEMPTS_MAX) {
        settings.attempts = attempts.unsigned_abs() as usize;
    }
    match fields.get("b_sforce") {
        Some("1") => settings.no_failover = true,
        Some("0") => settings.no_failover = false,
        _ => {}
    }
    match fields.get("b_ss") {
        Some("-") => settings.sticky = None,
        Some(text) if !text.is_empty() && text.len() <= STICKY_MAX && !text.chars().any(char::is_control) => {
            let (cookie, parameter) = text.split_once('|').unwrap_or((text, text));
            settings.sticky = Some((cookie.to_string(), parameter.to_string()));
        }
        _ => {}
    }
    if settings == before {
        return Ok(());
    }
    balancer.change(&settings).map_err(|_| Refused::Stuck)?;
    let text = format!(
        "{}: now lbmethod={} timeout={} maxattempts={} nofailover={} stickysession={}",
        balancer.url(),
        settings.method.name(),
        settings.timeout.map_or(0, |time| time.as_secs()),
        settings.attempts,
        if settings.no_failover { "On" } else { "Off" },
        settings.sticky.map(|(cookie, parameter)| format!("{cookie}|{parameter}")).unwrap_or_default(),
    );
    request.log(BALANCER_LOG_NAME, Level::Notice, text);
    Ok(())
}

fn add(request: &Request, balancer: &Balancer, url: &str) -> Result<(), Refused> {
    let target = new_member(request.server, url).map_err(|why| Refused::Member(url.to_string(), why))?;
    let member = balancer.add(&target).map_err(|why| Refused::NotAdded(url.to_string(), why))?;
    let text = format!("{}: {} is a new member, and disabled", balancer.url(), member.url);
    request.log(BALANCER_LOG_NAME, Level::Notice, text);
    Ok(())
}

/// Logs why a form has no effect, and says so on the page.
fn refuse(request: &mut Request, balancer: &Balancer, refused: Refused) -> HandlerResult {
    let name = balancer.url();
    let failed = |url: &str, number: &str| format!("AH{number}: {name}: failed to add worker {url}");
    let (status, text, note) = match refused {
        Refused::Member(url, why) => (400, failed(&url, "10163"), why),
        Refused::NotAdded(url, NotAdded::Known) => (400, failed(&url, "10164"), format!("{url} is a member already")),
        Refused::NotAdded(url, NotAdded::Full) => {
            let why = format!("{name} has no room for another member: growth= in its <Proxy> section makes some");
            (400, failed(&url, "10164"), why)
        }
        Refused::NotAdded(_, NotAdded::Stuck) | Refused::Stuck => {
            let why = format!("{name}: a process does not let go of the balancer");
            (503, why.clone(), why)
        }
    };
    request.log(BALANCER_LOG_NAME, Level::Error, text);
    request.notes.set("error-notes", format!("Reason: {}.<br />", escape_html(&note)));
    HandlerResult::Status(status)
}
