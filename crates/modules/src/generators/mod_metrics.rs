//! Metrics: the server's activity as numbers, for Prometheus and its kin (`SetHandler metrics`).
//!
//! Not one of Apache's modules: docs/status.md. The number of lines does not depend on requests: labels come from
//! closed sets, and never contain a script or path; a host is a label if it has a certificate.

mod counts;
mod families;
mod proxy;
mod text;

use conf::ModuleInfo;
use http::accept::preferences;
use runtime::scoreboard::{self, Described};
use server::{Body, Handler, HandlerResult, Hook, Module, Order, Request};

use text::Format;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "metrics_module", source: "mod_metrics.c", linked: false, directives: &[] },
    hooks: &[Hook::Repeatable, Hook::Handler(Order::Middle, Handler::Now(handler))],
};

fn handler(request: &mut Request) -> HandlerResult {
    match &*request.data.method {
        _ if request.handler_name() != Some("metrics") => return HandlerResult::Declined,
        "GET" | "HEAD" => {}
        // The default handler says what is allowed.
        "OPTIONS" => return HandlerResult::Declined,
        _ => {
            request.response.err_headers_out.set("Allow", "GET,HEAD,OPTIONS");
            return HandlerResult::Status(405);
        }
    }
    let format = format_for(request.header("Accept").as_deref().unwrap_or_default());
    request.response.set_content_type(format.media_type());
    request.response.headers_out.set("Vary", "Accept");
    let mpm = super::mod_status::mpm_of(request);
    let mut families = families::of(
        &scoreboard::snapshot(Described::Nobody),
        gateway::gate::status().as_ref(),
        &gateway::backend::stats::pools(),
        &crate::proxy::mod_proxy::all(request.server),
        &crate::proxy::mod_proxy::counted(request.server),
        &crate::ssl::mod_ssl::expiries(request.server),
        mpm,
    );
    families.push(families::configuration(&request.server.version));
    families.extend(counts::of_modules());
    HandlerResult::Body(Body::text(text::write(&families, format)))
}

/// OpenMetrics, unless the client prefers plain text, like old versions of Prometheus, or is a browser, which would not
/// show it.
fn format_for(accept: &str) -> Format {
    let quality = |kind: &str, subtype: &str| {
        let ranges = [format!("{kind}/{subtype}"), format!("{kind}/*"), "*/*".into()];
        let of = |range: &String| {
            let alike = |one: &http::accept::Preference<'_>| one.value.eq_ignore_ascii_case(range.as_bytes());
            preferences(accept.as_bytes()).filter(alike).map(|one| one.quality).max()
        };
        ranges.iter().find_map(of).unwrap_or(0)
    };
    let is_browser = preferences(accept.as_bytes()).any(|one| one.value.eq_ignore_ascii_case(b"text/html"));
    match is_browser || quality("text", "plain") > quality("application", "openmetrics-text") {
        true => Format::Plain,
        false => Format::OpenMetrics,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_accept() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let cases = [
            ("", Format::OpenMetrics),
            ("*/*", Format::OpenMetrics),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Plain),
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text; version=1.0.0", Format::OpenMetrics),
            ("text/plain", Format::Plain),
            ("text/*", Format::Plain),
            ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Format::Plain),
        ];
        for (accept, want) in cases {
            assert_eq!(format_for(accept), want, "{accept}");
        }
    }
}
