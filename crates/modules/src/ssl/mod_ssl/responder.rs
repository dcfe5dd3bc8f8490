//! The HTTP side of OCSP (RFC 6960 appendix A): asks a responder.

use std::io;
use std::time::Duration;

use runtime::executor::timeout_at;
use sys::time::Instant;

use crate::http_client;

/// The largest accepted response, in bytes.
pub(super) const RESPONSE_MAX: usize = 32 * 1024;

/// Asks the responder at `http://host[:port]/path`, through this proxy if there is one.
pub(super) async fn status_of(
    url: &str,
    request: &[u8],
    timeout: Duration,
    proxy: Option<&str>,
) -> Result<Vec<u8>, String> {
    let deadline = Instant::now() + timeout;
    let asked = timeout_at(deadline, fetch(url, request, deadline, proxy)).await;
    asked.map_err(|_| format!("no answer within {} s", timeout.as_secs()))?
}

async fn fetch(url: &str, request: &[u8], deadline: Instant, proxy: Option<&str>) -> Result<Vec<u8>, String> {
    let parse = |url: &str| url.parse::<http_types::Uri>().map_err(|error| format!("no URL: {error}"));
    let uri = parse(url)?;
    if uri.scheme_str() != Some("http") {
        return Err("only http:// responders are asked".into());
    }
    let failed = |error: io::Error| sys::describe(&error);
    let (host, port) = http_client::endpoint(&uri).map_err(failed)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let ((to, at), target) = match proxy {
        None => ((host.clone(), port), path.to_string()),
        Some(proxy) => (http_client::endpoint(&parse(proxy)?).map_err(failed)?, format!("http://{host}:{port}{path}")),
    };
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\nContent-Type: application/ocsp-request\r\n\
         Content-Length: {}\r\n\r\n",
        request.len()
    );
    let stream = http_client::connect(&to, at, deadline).await.map_err(failed)?;
    let received = http_client::exchange(stream, &[head.as_bytes(), request].concat()).await.map_err(failed)?;
    let response = http_client::parse(&received, false).map_err(failed)?;
    match response.status().as_u16() {
        200 if response.body().len() <= RESPONSE_MAX => Ok(response.into_body().to_vec()),
        200 => Err("its response is too large".into()),
        status => Err(format!("the responder answers with status {status}")),
    }
}
