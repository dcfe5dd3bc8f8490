//! One check of one member.

use http::h1::received::ResponseHead;
use http::text::{from_bytes, to_bytes};
use http::{HeadWriter, Version};
use runtime::executor::timeout_at;
use sys::time::Instant;
use upstream::http1::Exchange;
use upstream::{Address, Room, Stream, connect_plain};

use super::response::Response;
use crate::proxy::mod_proxy::{Health, HealthMethod, Member, port_of};

/// The most of a response's body that conditions look at, in bytes.
const BODY_MAX: usize = 1 << 20;

/// How many interim responses a member may send, as to other requests.
const INTERIM_MAX: usize = 10;

/// Why a member has not passed.
pub(super) enum Failure {
    /// What is wrong with it.
    Member(String),
    /// Something that this machine lacks: nobody knows how the member is.
    Shortage(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Member(why)
    }
}

/// Checks a member.
pub(super) async fn check(member: &Member, health: &Health, method: HealthMethod) -> Result<(), Failure> {
    let deadline = Instant::now() + member.timeout;
    let checked = timeout_at(deadline, examine(member, health, method, deadline)).await;
    checked.unwrap_or_else(|_| Err("it has been silent for too long".to_string().into()))
}

async fn examine(member: &Member, health: &Health, method: HealthMethod, deadline: Instant) -> Result<(), Failure> {
    let target = &member.worker.target;
    let port = target.port.unwrap_or_else(|| port_of(&target.scheme));
    let address = match &target.socket {
        Some(path) => Address::Unix(path.clone()),
        None => Address::Tcp(target.host.clone(), port),
    };
    let connection = connect_plain(&address, deadline).await.map_err(|error| match sys::is_shortage(&error) {
        true => Failure::Shortage(sys::describe(&error)),
        false => Failure::Member(sys::describe(&error)),
    })?;
    let HealthMethod::Request(method, version) = method else { return Ok(()) };
    let mut room = Room::take();
    room.request = head(member, health, method, version, port)?;
    let mut exchange = Exchange::new(Stream::new(connection), room, None, member.timeout);
    for _ in 0..=INTERIM_MAX {
        exchange.next_head().await.map_err(|failure| failure.to_string())?;
        let (head, bytes) = exchange.head();
        if head.status(bytes) >= 200 {
            return Ok(judge(health, method, exchange).await?);
        }
        runtime::yield_now().await;
    }
    Err(format!("it has sent more than {INTERIM_MAX} interim responses").into())
}

/// Whether a response, whose final head has come, is that of a healthy member.
async fn judge(health: &Health, method: &str, mut exchange: Exchange) -> Result<(), String> {
    let (head, bytes) = exchange.head();
    let status = head.status(bytes);
    let Some(condition) = &health.condition else {
        return match status {
            200..400 => Ok(()),
            _ => Err(format!("its status is {status}")),
        };
    };
    let end = head.body_end(bytes, method == "HEAD").map_err(|bad| bad.to_string())?;
    let fields = fields(head, bytes);
    exchange.begin_body(end);
    let mut body = Vec::new();
    while let Some(piece) = exchange.next_piece().await.map_err(|failure| failure.to_string())? {
        if body.len() + piece.len() > BODY_MAX {
            return Err(format!("its response is longer than {BODY_MAX} bytes"));
        }
        body.extend_from_slice(&piece);
        runtime::yield_now().await;
    }
    let response = Response { status, fields, body: from_bytes(&body).into_owned() };
    match response.meets(&condition.expr) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("its response does not meet {}", condition.name)),
        Err(why) => Err(format!("{}: {why}", condition.name)),
    }
}

fn fields(head: &ResponseHead, bytes: &[u8]) -> Vec<(String, String)> {
    let text = |bytes| from_bytes(bytes).into_owned();
    head.fields(bytes).map(|(name, value)| (text(name), text(value))).collect()
}

/// The head of the request.
fn head(member: &Member, health: &Health, method: &str, version: u8, port: u16) -> Result<Vec<u8>, String> {
    let target = &member.worker.target;
    let path = match (method, health.uri.as_deref()) {
        ("OPTIONS", None) => "*".to_string(),
        (_, uri) => {
            let (start, end) = (target.path.trim_end_matches('/'), uri.unwrap_or_default().trim_start_matches('/'));
            format!("{start}/{end}")
        }
    };
    let version = if version == 0 { Version::Http10 } else { Version::Http11 };
    let mut out = Vec::new();
    let start = HeadWriter::start_request(&mut out, method.as_bytes(), &to_bytes(&path), version);
    let mut head = start.map_err(|_| format!("{path:?} is no path of a request"))?;
    let host = format!("{}:{port}", target.host);
    head.field("Host", host.as_bytes()).map_err(|_| format!("{host:?} is no name of a host"))?;
    if version == Version::Http11 {
        // A constant is valid.
        let _ = head.field("Connection", b"close");
    }
    head.end();
    Ok(out)
}
