//! What all steps of an order use: how the server can be reached, waiting for the authority, and why there is no
//! certificate.

use std::io;
use std::time::Duration;

use instant_acme::{AuthorizationStatus, Error, Order, OrderStatus, Problem};
use runtime::executor::sleep;
use sys::time::Instant;

use super::client::Client;
use super::notify;

/// The authority that issues certificates if no `MDCertificateAuthority` names another one.
pub(super) const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The protocol name by which an authority requests a `tls-alpn-01` certificate (RFC 8737 section 6.2).
pub(super) const ALPN: &str = "acme-tls/1";
/// The time an authority may take to check a name, and to sign.
const PATIENCE: Duration = Duration::from_secs(180);
/// The first and the longest pause between two polls of an order.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// The facts beside the domain that an order depends on.
#[derive(Debug)]
pub(super) struct OrderContext {
    /// Whether the server is reachable at port 80, and at port 443.
    pub(super) reachable: (bool, bool),
    /// The user and group of the children.
    pub(super) children: notify::User,
    pub(super) proxy: Option<String>,
    pub(super) dns01_version: u32,
}

/// The reason why there is no certificate.
#[derive(Debug)]
pub(super) struct Failed {
    /// The type of the problem: a URN if the authority has given one.
    pub(super) problem: String,
    /// A description for the log.
    pub(super) detail: String,
    /// The pause that the authority demands.
    pub(super) retry_after: Option<Duration>,
}

impl Failed {
    pub(super) fn new(detail: impl Into<String>) -> Failed {
        Failed { problem: String::new(), detail: detail.into(), retry_after: None }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::new(error.to_string())
    }
}

impl From<rcgen::Error> for Failed {
    fn from(error: rcgen::Error) -> Failed {
        Failed::new(error.to_string())
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        match error {
            Error::Api(problem) => problem.into(),
            error => Failed::new(error.to_string()),
        }
    }
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Failed {
        let detail = problem.to_string();
        Failed { problem: problem.r#type.unwrap_or_default(), detail, retry_after: None }
    }
}

/// Polls an order until it has the wanted status, with growing pauses, or those that the authority demands.
pub(super) async fn wait_for(
    order: &mut Order,
    client: &Client,
    wanted: impl Fn(OrderStatus) -> bool,
) -> Result<(), Failed> {
    let deadline = Instant::now() + PATIENCE;
    let (mut pause, longest) = PAUSES;
    loop {
        let state = order.refresh().await?;
        if let Some(problem) = &state.error {
            return Err(problem.clone().into());
        }
        match state.status {
            status if wanted(status) => return Ok(()),
            OrderStatus::Invalid => return Err(Failed::new("ACME server order status is 'invalid'.")),
            _ => {}
        }
        let next = pause.max(client.retry_after().unwrap_or_default());
        if Instant::now() + next > deadline {
            return Err(Failed::new("the authority takes too long"));
        }
        sleep(next).await;
        pause = (pause * 3 / 2).min(longest);
    }
}

/// The reason why the authority rejected the proof for a name.
pub(super) async fn refused(order: &mut Order) -> Option<Failed> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        let state = authorization.refresh().await.ok()?;
        if state.status != AuthorizationStatus::Invalid {
            continue;
        }
        let problem = state.challenges.iter().find_map(|challenge| challenge.error.clone());
        let detail = problem.as_ref().map_or(String::new(), |problem| format!(", {problem}"));
        let text = format!("domain authorization for {name} failed, CA considers answer to challenge invalid{detail}");
        let problem = problem.and_then(|problem| problem.r#type).unwrap_or_default();
        return Some(Failed { problem, detail: text, retry_after: None });
    }
    None
}
