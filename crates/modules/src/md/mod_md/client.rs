//! The HTTP client for certificate authorities: HTTP/1.1 over TLS, one connection per request, a deadline for each
//! step.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_types::{Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use runtime::executor::{Descriptor, timeout_at};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sys::time::Instant;
use tokio_rustls::TlsConnector;

use crate::http_client::{STEP, connect, endpoint, exchange, parse, read, write};

/// The time limit of a request, from the name lookup to the last byte of the response.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest pause that an authority may demand: certificates must not expire meanwhile.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Sends the requests to certificate authorities, encrypted and through the proxy if there is one.
#[derive(Clone)]
pub(super) struct Client {
    tls: Arc<ClientConfig>,
    /// `MDHttpProxy`: host and port.
    proxy: Option<(String, u16)>,
    /// The pause that the last response demanded (`Retry-After`).
    retry_after: Arc<Mutex<Option<Duration>>>,
}

impl Client {
    /// A client that trusts the certificates in this file, or else those that the system trusts.
    pub(super) fn new(ca_file: Option<&str>, proxy: Option<&str>) -> io::Result<Client> {
        let config = crate::trusted::client(ca_file).map_err(|error| match ca_file {
            Some(_) => io::Error::other(format!("MDCACertificateFile {error}")),
            None => error,
        })?;
        let proxy = proxy.map(|url| endpoint(&url.parse().map_err(io::Error::other)?)).transpose()?;
        Ok(Client { tls: Arc::new(config), proxy, retry_after: Arc::default() })
    }

    /// The pause that the last response demanded.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn exchange(&self, request: Request<BodyWrapper<Bytes>>) -> io::Result<BytesResponse> {
        let deadline = Instant::now() + PATIENCE;
        let (parts, body) = request.into_parts();
        // A response provides its body as a whole; a request does not.
        let body = BytesResponse::from(Response::new(body)).body.into_bytes().await.map_err(io::Error::other)?;
        let (host, port) = endpoint(&parts.uri)?;
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut head = format!("{} {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n", parts.method);
        head.push_str(concat!("User-Agent: Tsubame/", env!("CARGO_PKG_VERSION"), " mod_md\r\n"));
        for (name, value) in parts.headers.iter().filter(|(name, _)| *name != http_types::header::USER_AGENT) {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let message = [head.as_bytes(), &body].concat();
        let exchanged = timeout_at(deadline, async {
            let stream = self.connect(&host, port, deadline).await?;
            if parts.uri.scheme_str() == Some("http") {
                return exchange(stream, &message).await;
            }
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
            exchange(stream, &message).await
        });
        let mut response = parse(&exchanged.await??, parts.method == "HEAD")?;
        // Hidden from the library, which would add any value to the current time unchecked.
        let after = response.headers_mut().remove("retry-after");
        let after = after.and_then(|value| retry_after(value.to_str().ok()?.trim()));
        *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = after;
        let (parts, body) = response.into_parts();
        Ok(BytesResponse { parts, body: Box::new(body) })
    }

    /// Connects to this host, through the proxy if there is one.
    async fn connect(&self, host: &str, port: u16, deadline: Instant) -> io::Result<Descriptor> {
        let Some((proxy, proxy_port)) = &self.proxy else { return connect(host, port, deadline).await };
        let mut stream = connect(proxy, *proxy_port, deadline).await?;
        write(&mut stream, format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").as_bytes()).await?;
        let mut response = Vec::new();
        while !response.windows(4).any(|end| end == b"\r\n\r\n") {
            if response.len() > STEP || read(&mut stream, &mut response).await? == 0 {
                return Err(io::Error::other("the proxy (MDHttpProxy) does not answer as a proxy does"));
            }
        }
        match parse(&response, true)?.status().as_u16() {
            200..300 => Ok(stream),
            status => Err(io::Error::other(format!("the proxy (MDHttpProxy) answers {status}"))),
        }
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let url = request.uri().to_string();
            client.exchange(request).await.map_err(|error| Error::Other(format!("{url}: {error}").into()))
        })
    }
}

/// `Retry-After`: seconds, or a date (RFC 9110 section 10.2.3).
pub(super) fn retry_after(value: &str) -> Option<Duration> {
    let pause = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        // Too large for a number.
        Err(_) if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => RETRY_AFTER_MAX,
        Err(_) => {
            let date = http::date::parse_http_date(value.as_bytes())?;
            Duration::from_secs(u64::try_from(date).ok()?).saturating_sub(sys::time::realtime())
        }
    };
    Some(pause.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_that_an_authority_demands() {
        for (value, pause) in [
            ("17", Some(17)),
            ("604801", Some(604_800)),
            ("18446744073709551615", Some(604_800)),
            ("99999999999999999999", Some(604_800)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(604_800)),
            ("Thu, 01 Jan 1970 00:00:01 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after(value), pause.map(Duration::from_secs), "{value}");
        }
    }
}
