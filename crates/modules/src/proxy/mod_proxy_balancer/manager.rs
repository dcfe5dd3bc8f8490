//! The page `balancer-manager`: the balancers and their members, and forms that change them.
//!
//! Apache manual: mod_proxy_balancer, "Enabling Balancer Manager Support". The page and `?xml=1` are as Apache's. Changes come by POST,
//! from a page of this host, and with the balancer's nonce: anything else is ignored.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::uri::escape_html;
use server::{Body, HandlerResult, Request, RequestBody};

use super::change;
use super::fields::Fields;
use crate::abbreviated_size::abbreviated_size;
use crate::proxy::mod_proxy::{
    Balancer, Balancers, Health, HealthMethod, Member, Method, Status, has_checks, persists, share_text,
};

/// The longest form, in bytes.
const FORM_MAX: usize = 8192;
pub(super) fn claims(request: &Request) -> bool {
    request.handler_name() == Some("balancer-manager")
}

pub(super) fn check(request: &mut Request) -> Option<HandlerResult> {
    (!matches!(&*request.data.method, "GET" | "HEAD" | "POST")).then_some(HandlerResult::Status(405))
}

/// Makes the page, after the changes that a form asks for.
pub(super) async fn handle(request: &mut Request) -> HandlerResult {
    request.asks_beyond_head();
    let is_form = request.data.method == "POST";
    let text = match is_form {
        true => match request.body.collect(FORM_MAX).await {
            Ok(text) => text.to_vec(),
            Err(error) => return HandlerResult::Status(error.status()),
        },
        false => request.data.args.clone().unwrap_or_default().into_bytes(),
    };
    request.body = RequestBody::default();
    let fields = if is_from_here(request) { Fields::of(&text) } else { Fields::none() };
    let vhost = request.vhost;
    let all = vhost.settings.get::<Balancers>().all();
    let named = fields.get("b").and_then(|name| all.iter().find(|one| one.name == name));
    let knows = |balancer: &Balancer| balancer.nonce.as_deref().is_none_or(|nonce| fields.get("nonce") == Some(nonce));
    let chosen = named.filter(|balancer| knows(balancer));
    let member = chosen.and_then(|balancer| {
        let name = fields.get("w")?;
        balancer.members().find(|member| member.url == name)
    });
    if let Some(balancer) = chosen.filter(|_| is_form)
        && let Err(refused) = change::apply(request, balancer, member, &fields)
    {
        return refused;
    }
    let page = match fields.get("xml") {
        Some(_) => {
            request.response.set_content_type("text/xml");
            xml(all)
        }
        None => {
            request.response.set_content_type("text/html; charset=ISO-8859-1");
            html(request, all, chosen, member)
        }
    };
    HandlerResult::Body(Body::Bytes(http::text::to_bytes(&page).into_owned().into()))
}

/// Whether a page of this host has sent the request: other sites cannot make an administrator's browser change anything.
fn is_from_here(request: &Request) -> bool {
    let Some(referer) = request.header("Referer") else { return false };
    let Some((_, rest)) = referer.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return false;
    }
    let host = match authority.starts_with('[') {
        true => authority.split_inclusive(']').next().unwrap_or_default(),
        false => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case(&request.server_name())
}

fn on(is_on: bool) -> &'static str {
    if is_on { "On" } else { "Off" }
}

const STYLE: &str = "table {\n border-width: 1px;\n border-spacing: 3px;\n border-style: solid;\n border-color: gray;\n \
    border-collapse: collapse;\n background-color: white;\n text-align: center;\n}\nth {\n border-width: 1px;\n padding: 2px;\n \
    border-style: dotted;\n border-color: gray;\n background-color: lightgray;\n text-align: center;\n}\ntd {\n border-width: 1px;\n \
    padding: 2px;\n border-style: dotted;\n border-color: gray;\n background-color: white;\n text-align: center;\n}\n";

fn html(request: &Request, all: &[Arc<Balancer>], chosen: Option<&Arc<Balancer>>, member: Option<&Member>) -> String {
    let mut out = String::with_capacity(4096);
    let name = escape_html(&request.server_name()).into_owned();
    let action = escape_html(&request.data.uri).into_owned();
    // Writing into a string never fails, here and below.
    let _ = write!(
        out,
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
         <html><head><title>Balancer Manager</title>\n<style type='text/css'>\n{STYLE}</style>\n</head>\n\
         <body><h1>Load Balancer Manager for {name}</h1>\n\n<dl><dt>Server Version: {}</dt>\n\
         <dt>Balancer changes will {}be persisted on restart.</dt></dl>\n",
        escape_html(&request.server.software),
        if persists(request) { "" } else { "NOT " },
    );
    for balancer in all {
        table(&mut out, &action, balancer, request.server.language.has_module("proxy_hcheck_module"));
    }
    out.push_str("<hr />\n");
    match (chosen, member) {
        (Some(balancer), Some(member)) => member_form(&mut out, &action, request, balancer, member),
        (Some(balancer), None) => balancer_form(&mut out, &action, request, balancer),
        (None, _) => {}
    }
    out.push_str("</body></html>\n");
    out
}

/// The query of a link to a form.
fn query(balancer: &Balancer, member: Option<&Member>) -> String {
    let mut text = format!("b={}", balancer.name);
    if let Some(member) = member {
        let _ = write!(text, "&w={}", member.url);
    }
    if let Some(nonce) = &balancer.nonce {
        let _ = write!(text, "&nonce={nonce}");
    }
    escape_html(&text).into_owned()
}

/// `has_checks`: whether there are columns about health checks.
fn table(out: &mut String, action: &str, balancer: &Balancer, has_checks: bool) {
    let (used, most) = (balancer.count(), balancer.count_max());
    let sticky = sticky(balancer).map_or_else(|| " (None) ".into(), |text| escape_html(&text).into_owned());
    let _ = write!(
        out,
        "<hr />\n<h3>LoadBalancer Status for <a href=\"{action}?{}\">{}</a></h3>\n\n\n\
         <table><tr><th>MaxMembers</th><th>StickySession</th><th>DisableFailover</th><th>Timeout</th><th>FailoverAttempts</th>\
         <th>Method</th><th>Path</th><th>Active</th></tr>\n<tr><td>{most} [{used} Used]</td>\n<td>{sticky}</td><td>{}</td>\n\
         <td>{}</td><td>{}</td>\n<td>{}</td>\n<td>{}</td>\n<td>Yes</td>\n</tr>\n</table>\n<br />\n\n\
         <table><tr><th>Worker URL</th><th>Route</th><th>RouteRedir</th><th>Factor</th><th>Set</th><th>Status</th><th>Elected</th>\
         <th>Busy</th><th>Load</th><th>To</th><th>From</th>{}</tr>\n",
        query(balancer, None),
        escape_html(&balancer.url()),
        on(balancer.no_failover()),
        seconds(balancer),
        balancer.attempts(),
        balancer.method().name(),
        escape_html(balancer.path.as_deref().unwrap_or_default()),
        if has_checks { CHECKS } else { "" },
    );
    for member in balancer.members() {
        let checks = if has_checks { checks(&member.health()) } else { String::new() };
        let _ = writeln!(
            out,
            "<tr>\n<td><a href=\"{action}?{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td>{checks}</tr>",
            query(balancer, Some(member)),
            escape_html(&member.url),
            escape_html(&member.route().unwrap_or_default()),
            escape_html(&member.redirect().unwrap_or_default()),
            share_text(member.factor()),
            member.set_number(),
            member.status().words(),
            member.elected().load(Relaxed),
            member.tally.busy(),
            member.arrears(),
            abbreviated_size(Some(member.sent().load(Relaxed))),
            abbreviated_size(Some(member.received().load(Relaxed))),
        );
    }
    out.push_str("</table>\n");
}

/// The headings of the columns about health checks.
const CHECKS: &str =
    "<th>HC Method</th><th>HC Interval</th><th>Passes</th><th>Fails</th><th>HC uri</th><th>HC Expr</th>";

/// The columns about the health checks of a member.
fn checks(health: &Health) -> String {
    let condition = health.condition.as_ref().map_or("", |condition| &condition.name);
    format!(
        "<td>{}</td><td>{}ms</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
        health.method().map_or_else(|| "NONE".into(), HealthMethod::name),
        health.interval().as_millis(),
        health.passes(),
        health.fails(),
        escape_html(health.uri.as_deref().unwrap_or_default()),
        escape_html(condition),
    )
}

/// The fields of every form that say what it is about.
fn hidden(out: &mut String, balancer: &Balancer) {
    let _ = writeln!(out, "<input type=hidden name='b' value=\"{}\">", escape_html(&balancer.name));
    if let Some(nonce) = &balancer.nonce {
        let _ = writeln!(out, "<input type=hidden name='nonce' value='{}'>", escape_html(nonce));
    }
    out.push_str("</form>\n<hr />\n");
}

fn member_form(out: &mut String, action: &str, request: &Request, balancer: &Balancer, member: &Member) {
    let name = escape_html(&member.url);
    let _ = write!(
        out,
        "<h3>Edit worker settings for {name}</h3>\n\
         <form method='POST' enctype='application/x-www-form-urlencoded' action=\"{action}\">\n\
         <table><tr><td>Load factor:</td><td><input name='w_lf' id='w_lf' type=text value='{}'></td></tr>\n\
         <tr><td>LB Set:</td><td><input name='w_ls' id='w_ls' type=text value='{}'></td></tr>\n\
         <tr><td>Route:</td><td><input name='w_wr' id='w_wr' type=text value=\"{}\"></td></tr>\n\
         <tr><td>Route Redirect:</td><td><input name='w_rr' id='w_rr' type=text value=\"{}\"></td></tr>\n\
         <tr><td>Status:</td><td><table><tr>",
        share_text(member.factor()),
        member.set_number(),
        escape_html(&member.route().unwrap_or_default()),
        escape_html(&member.redirect().unwrap_or_default()),
    );
    let offered = || change::FLAGS.into_iter().filter(|(letter, _)| change::is_offered(request, *letter));
    for (_, heading) in offered() {
        let _ = write!(out, "<th>{heading}</th>");
    }
    out.push_str("</tr>\n<tr>");
    for (letter, _) in offered() {
        let is_on = Status::flags().any(|(status, own, _)| own == letter && member.status().has(status));
        let checked = |is_it: bool| if is_it { " checked" } else { "" };
        let _ = writeln!(
            out,
            "<td><label for='w_status_{letter}1'>On</label> <input name='w_status_{letter}' id='w_status_{letter}1' value='1' \
             type=radio{}> <br/> <label for='w_status_{letter}0'>Off</label> <input name='w_status_{letter}' id='w_status_{letter}0' \
             value='0' type=radio{}></td>",
            checked(is_on),
            checked(!is_on)
        );
    }
    let _ = write!(
        out,
        "</tr></table></td></tr>\n{}<tr><td colspan='2'><input type=submit value='Submit'></td></tr>\n</table>\n\
         <input type=hidden name='w' id='w' value=\"{name}\">\n",
        if has_checks(request.server) { fields_of_checks(member) } else { String::new() },
    );
    hidden(out, balancer);
}

/// The part of a member's form that is about its checks.
fn fields_of_checks(member: &Member) -> String {
    let health = member.health();
    let [method, interval, passes, fails, condition, uri] = health.values();
    let option = |name: &str, chosen: &str| {
        let selected = if name == chosen { "selected" } else { "" };
        let name = escape_html(name);
        format!("<option value='{name}' {selected} >{name}</option>\n")
    };
    // Without a condition the first one would be chosen.
    let conditions = std::iter::once("").chain(member.conditions());
    format!(
        "<tr><td colspan='2'>\n<table align='center'><tr><th>Health Check param</th><th>Value</th></tr>\n\
         <tr><td>Method</td><td><select name='w_hm'>\n{}</select>\n</td></tr>\n\
         <tr><td>Expr</td><td><select name='w_he'>\n{}</select>\n</td></tr>\n\
         <tr><td>Interval (ms)</td><td><input name='w_hi' id='w_hi' type='text' value='{interval}'></td></tr>\n\
         <tr><td>Passes trigger</td><td><input name='w_hp' id='w_hp' type='text' value='{passes}'></td></tr>\n\
         <tr><td>Fails trigger</td><td><input name='w_hf' id='w_hf' type='text' value='{fails}'></td></tr>\n\
         <tr><td>HC uri</td><td><input name='w_hu' id='w_hu' type='text' value=\"{}\"></td></tr>\n</table>\n</td></tr>\n",
        HealthMethod::names().map(|(_, name)| option(&name, &method)).collect::<String>(),
        conditions.map(|name| option(name, &condition)).collect::<String>(),
        escape_html(&uri),
    )
}

fn balancer_form(out: &mut String, action: &str, request: &Request, balancer: &Balancer) {
    let _ = write!(
        out,
        "<h3>Edit balancer settings for {}</h3>\n\
         <form method='POST' enctype='application/x-www-form-urlencoded' action=\"{action}\">\n\
         <table>\n<tr><td>LBmethod:</td><td>\n<select name='b_lbm' id='b_lbm'>",
        escape_html(&balancer.url())
    );
    for method in Method::ALL.into_iter().filter(|method| request.server.language.has_module(method.module())) {
        let name = method.name();
        let selected = if method == balancer.method() { " selected " } else { "" };
        let _ = writeln!(out, "<option value='{name}'{selected}>{name}");
    }
    let checked = |is_it: bool| if is_it { " checked" } else { "" };
    let is_bound = balancer.no_failover();
    let _ = write!(
        out,
        "</select>\n</td></tr>\n\
         <tr><td>Timeout:</td><td><input name='b_tmo' id='b_tmo' type=text value='{}'></td></tr>\n\
         <tr><td>Failover Attempts:</td><td><input name='b_max' id='b_max' type=text value='{}'></td></tr>\n\
         <tr><td>Disable Failover:</td><td><label for='b_sforce1'>On</label> <input name='b_sforce' id='b_sforce1' value='1' \
         type=radio{}> <br/> <label for='b_sforce0'>Off</label> <input name='b_sforce' id='b_sforce0' value='0' type=radio{}></td></tr>\n\
         <tr><td>Sticky Session:</td><td><input name='b_ss' id='b_ss' size=64 type=text value=\"{}\">&nbsp;&nbsp;&nbsp;&nbsp;\
         (Use '-' to delete)</td></tr>\n",
        seconds(balancer),
        balancer.attempts(),
        checked(is_bound),
        checked(!is_bound),
        escape_html(&sticky(balancer).unwrap_or_default()),
    );
    // As in Apache, there is no field without room.
    if balancer.count() < balancer.count_max() {
        out.push_str(
            "<tr><td>Add New Worker:</td><td><input name='b_nwrkr' id='b_nwrkr' size=32 type=text>&nbsp;&nbsp;&nbsp;&nbsp;\
             Are you sure? <input name='b_wyes' id='b_wyes' type=checkbox value='1'></td></tr>",
        );
    }
    out.push_str("<tr><td colspan=2><input type=submit value='Submit'></td></tr>\n</table>\n");
    hidden(out, balancer);
}

/// How long a request waits for a member, in seconds.
fn seconds(balancer: &Balancer) -> u64 {
    balancer.timeout().map_or(0, |time| time.as_secs())
}

/// The cookie of sessions and the parameter of paths, as the configuration names them.
fn sticky(balancer: &Balancer) -> Option<String> {
    balancer.sticky().map(|sticky| match &*sticky {
        (cookie, path) if cookie == path => cookie.clone(),
        (cookie, path) => format!("{cookie}|{path}"),
    })
}

/// `?xml=1`, for tools.
fn xml(all: &[Arc<Balancer>]) -> String {
    let mut out = String::from(
        "<?xml version='1.0' encoding='UTF-8' ?>\n<httpd:manager xmlns:httpd='http://httpd.apache.org'>\n  <httpd:balancers>\n",
    );
    let element = |out: &mut String, depth: usize, name: &str, value: &dyn std::fmt::Display| {
        let value = value.to_string();
        let _ = writeln!(out, "{:depth$}<httpd:{name}>{}</httpd:{name}>", "", escape_html(&value));
    };
    for balancer in all {
        out.push_str("    <httpd:balancer>\n");
        element(&mut out, 6, "name", &balancer.url());
        element(&mut out, 6, "stickysession", &balancer.sticky().map_or_else(String::new, |sticky| sticky.0.clone()));
        element(&mut out, 6, "nofailover", &on(balancer.no_failover()));
        element(&mut out, 6, "timeout", &seconds(balancer));
        element(&mut out, 6, "maxattempts", &balancer.attempts());
        element(&mut out, 6, "lbmethod", &balancer.method().name());
        out.push_str("      <httpd:workers>\n");
        for member in balancer.members() {
            let target = &member.worker.target;
            out.push_str("        <httpd:worker>\n");
            let facts: [(&str, &dyn std::fmt::Display); 13] = [
                ("name", &member.url),
                ("scheme", &target.scheme),
                ("hostname", &target.host),
                ("loadfactor", &share_text(member.factor())),
                ("status", &member.status().words()),
                ("lbstatus", &member.arrears()),
                ("transferred", &member.sent().load(Relaxed)),
                ("read", &member.received().load(Relaxed)),
                ("elected", &member.elected().load(Relaxed)),
                ("route", &member.route().unwrap_or_default()),
                ("redirect", &member.redirect().unwrap_or_default()),
                ("busy", &member.tally.busy()),
                ("lbset", &member.set_number()),
            ];
            facts.iter().for_each(|(name, value)| element(&mut out, 10, name, *value));
            out.push_str("        </httpd:worker>\n");
        }
        out.push_str("      </httpd:workers>\n    </httpd:balancer>\n");
    }
    out.push_str("  </httpd:balancers>\n</httpd:manager>");
    out
}
