//! The page of mod_ldap (`SetHandler ldap-status`): what the caches hold.

use std::fmt::Write;

use server::{Body, HandlerResult, Request};

use super::cache::{COMPARES, SEARCHES, Table};

/// Answers with the page.
pub(super) fn handler(request: &mut Request) -> HandlerResult {
    if request.handler_name() != Some("ldap-status") || !matches!(&*request.data.method, "GET" | "HEAD") {
        return HandlerResult::Declined;
    }
    let mut page = String::from(HEAD);
    for table in [&SEARCHES, &COMPARES] {
        row(&mut page, table);
    }
    page.push_str("</table>\n</body></html>\n");
    request.response.set_content_type("text/html; charset=ISO-8859-1");
    HandlerResult::Body(Body::Bytes(page.into()))
}

const HEAD: &str = "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
    <html><head><title>LDAP Cache Information</title></head>\n<body><h1>LDAP Cache Information</h1>\n<table>\n\
    <tr><th>Cache Name</th><th>Entries</th><th>Hits</th><th>Ins/Rem</th></tr>\n";

fn row(page: &mut String, table: &Table) {
    let name = table.name;
    let written = match table.counts() {
        None => writeln!(page, "<tr><td>{name}</td><td colspan='3'>Cache has not been enabled/initialised.</td></tr>"),
        Some(counts) => {
            let full = counts.used * 100 / counts.places.max(1);
            let hits = counts.found * 100 / counts.asked.max(1);
            writeln!(
                page,
                "<tr><td>{name}</td><td>{} ({full}% full)</td><td>{}/{} {hits}%</td><td>{}/{}</td></tr>",
                counts.used, counts.found, counts.asked, counts.kept, counts.removed
            )
        }
    };
    // A String takes whatever is written to it.
    let _ = written;
}
