//! The certificates on the status page, if there are any. Apache's page has nothing like it.

use std::fmt::Write;

use http::uri::escape_html;

use super::number::date;
use crate::ssl::mod_ssl::Expiry;

/// The maximum number shown; those that expire first come first.
const SHOWN: usize = 50;

/// `?auto`: the next expiry, for monitoring, and how many certificates expire soon.
pub(super) fn lines(out: &mut String, certificates: &[Expiry]) {
    if let Some(first) = certificates.iter().min_by_key(|one| one.end) {
        let soon = certificates.iter().filter(|one| one.warning().is_some()).count();
        let (count, end) = (certificates.len(), first.end);
        let _ = writeln!(out, "Certificates: {count}\nCertificatesExpiring: {soon}\nCertificateNextExpiry: {end}");
    }
}

/// The page for people: a line for each certificate.
pub(super) fn table(out: &mut String, certificates: &[Expiry]) {
    if certificates.is_empty() {
        return;
    }
    let mut certificates: Vec<&Expiry> = certificates.iter().collect();
    certificates.sort_by_key(|one| one.end);
    out.push_str(
        "<hr />\n<h2>Certificates</h2>\n<table rules=\"all\" cellpadding=\"1%\">\n<tr><th>Virtual host</th><th>Certificate</th>\
         <th>Expires</th><th>Days left</th></tr>\n",
    );
    for one in certificates.iter().take(SHOWN) {
        let (host, end, days) = (escape_html(&one.host), date(one.end), one.days());
        let days = if one.warning().is_some() { format!("<b>{days}</b>") } else { days.to_string() };
        let _ = writeln!(out, "<tr><td>{host}</td><td>{}</td><td>{end}</td><td>{days}</td></tr>", one.index);
    }
    out.push_str("</table>\n");
    if let Some(more) = certificates.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(out, "<p>{more} more expire later.</p>");
    }
}
