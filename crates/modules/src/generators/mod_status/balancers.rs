//! The balancers of mod_proxy on the status page, as Apache shows them (`ProxyStatus On`).

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::uri::escape_html;

use crate::abbreviated_size::abbreviated_size;
use crate::proxy::mod_proxy::{Balancer, share_text};

/// `?auto`: lines for each member.
pub(super) fn lines(out: &mut String, balancers: &[Arc<Balancer>]) {
    // Writing into a string never fails, here and below.
    for (number, balancer) in balancers.iter().enumerate() {
        let _ = writeln!(out, "ProxyBalancer[{number}]Name: {}", balancer.url());
        for (index, member) in balancer.members().enumerate() {
            let of = format!("ProxyBalancer[{number}]Worker[{index}]");
            let _ = writeln!(
                out,
                "{of}Name: {}\n{of}Status: {}\n{of}Elected: {}\n{of}Busy: {}\n{of}Sent: {}K\n{of}Rcvd: {}K",
                member.url,
                member.status().words(),
                member.elected().load(Relaxed),
                member.tally.busy(),
                member.sent().load(Relaxed) >> 10,
                member.received().load(Relaxed) >> 10,
            );
        }
    }
}

/// The page for people: a table for each balancer.
pub(super) fn tables(out: &mut String, balancers: &[Arc<Balancer>]) {
    for balancer in balancers {
        let sticky = match balancer.sticky().as_deref() {
            Some((cookie, path)) if cookie == path => escape_html(cookie).into_owned(),
            Some((cookie, path)) => escape_html(&format!("{cookie} | {path}")).into_owned(),
            None => " - ".into(),
        };
        let _ = write!(
            out,
            "<hr />\n<h1>Proxy LoadBalancer Status for {}</h1>\n\n\n\n<table border=\"0\"><tr><th>SSes</th><th>Timeout</th>\
             <th>Method</th></tr>\n<tr><td>{sticky}</td><td>{}</td><td>{}</td>\n</table>\n\n\n\
             <table border=\"0\"><tr><th>Sch</th><th>Host</th><th>Stat</th><th>Route</th><th>Redir</th><th>F</th><th>Set</th>\
             <th>Acc</th><th>Busy</th><th>Wr</th><th>Rd</th></tr>\n",
            escape_html(&balancer.url()),
            balancer.timeout().map_or(0, |time| time.as_secs()),
            balancer.method().name(),
        );
        for member in balancer.members() {
            let _ = writeln!(
                out,
                "<tr>\n<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
                 <td>{}</td><td>{}</td>\n</tr>",
                escape_html(&member.worker.target.scheme),
                escape_html(&member.worker.target.host),
                member.status().words(),
                escape_html(member.route().as_deref().unwrap_or_default()),
                escape_html(member.redirect().as_deref().unwrap_or_default()),
                share_text(member.factor()),
                member.set_number(),
                member.elected().load(Relaxed),
                member.tally.busy(),
                abbreviated_size(Some(member.sent().load(Relaxed))),
                abbreviated_size(Some(member.received().load(Relaxed))),
            );
        }
        out.push_str("</table>\n");
    }
    if !balancers.is_empty() {
        out.push_str(LEGEND);
    }
}

const LEGEND: &str = "<hr /><table>\n<tr><th>SSes</th><td>Sticky session name</td></tr>\n<tr><th>Timeout</th><td>Balancer Timeout</td></tr>\n\
    <tr><th>Sch</th><td>Connection scheme</td></tr>\n<tr><th>Host</th><td>Backend Hostname</td></tr>\n\
    <tr><th>Stat</th><td>Worker status</td></tr>\n<tr><th>Route</th><td>Session Route</td></tr>\n\
    <tr><th>Redir</th><td>Session Route Redirection</td></tr>\n<tr><th>F</th><td>Load Balancer Factor</td></tr>\n\
    <tr><th>Acc</th><td>Number of uses</td></tr>\n<tr><th>Wr</th><td>Number of bytes transferred</td></tr>\n\
    <tr><th>Rd</th><td>Number of bytes read</td></tr>\n</table>";
