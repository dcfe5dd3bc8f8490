//! What clients are charged for when it has happened: failed log-ins, and bytes.

use std::time::Duration;

use server::module::Debit;
use server::{Body, Request};
use sys::time::monotonic;

use super::store;
use super::table::CLIENTS_OF_SERVER;

/// The notes with the clients that are charged when the request ends: for a failed log-in, for what was sent. Each word is a key of
/// the table, the time that one costs in nanoseconds, and the key in the store.
pub(super) const LOGINS: &str = "client-limit-logins";
pub(super) const BYTES: &str = "client-limit-bytes";

/// The note with the bytes that were counted before they were sent, and the store's failures until then.
const RESERVED: &str = "client-limit-reserved";

/// Whether a request with credentials is refused, whatever page is sent instead.
pub(super) fn is_failed_login(request: &Request) -> bool {
    let before = std::iter::successors(request.previous(), |previous| previous.before.as_ref());
    let mut statuses = std::iter::once(request.response.status()).chain(before.map(|previous| previous.status));
    request.header("Authorization").is_some() && !request.is_hypothetical() && statuses.any(|status| status == 401)
}

pub(super) async fn count_failed_login(request: &mut Request) {
    let Some((table, _)) = CLIENTS_OF_SERVER.get() else { return };
    let charged: Vec<Charged> = words(request, LOGINS).filter_map(Charged::read).collect();
    charged.iter().for_each(|Charged { key, each, .. }| table.charge(*key, *each, monotonic()));
    let shared = charged.into_iter().filter(|charged| !charged.shared_key.is_empty());
    let debits: Vec<Debit> = shared.map(|charged| store::charge(charged.shared_key, charged.each, true)).collect();
    store::ask(request, &debits).await;
}

/// Counts what will be sent, as far as that is known: other requests of the client are asked meanwhile.
pub(super) fn reserve_bytes(request: &mut Request, body: Body) -> Body {
    let is_counted = words(request, BYTES).next().is_some() && request.notes.get(RESERVED).is_none();
    if is_counted && !request.is_hypothetical() && !request.is_subrequest() {
        let length = body.length().filter(|_| !request.data.header_only && request.response.status() != 429);
        let length = length.and_then(|length| i64::try_from(length).ok()).unwrap_or(0);
        let failures = store::failures();
        charge_bytes(request, length, reserved_in_store(length));
        request.notes.set(RESERVED, format!("{length} {failures}"));
    }
    body
}

/// Counts what was sent. Being refused costs nothing.
pub(super) fn count_bytes(request: &mut Request) {
    let noted = request.notes.get(RESERVED).and_then(|note| note.split_once(' '));
    let (reserved, failures): (i64, u64) =
        noted.and_then(|(length, failures)| Some((length.parse().ok()?, failures.parse().ok()?))).unwrap_or_default();
    let is_refused = request.response.status() == 429;
    let sent = if is_refused { 0 } else { i64::try_from(request.account.sent.bytes).unwrap_or(i64::MAX) };
    // If the store may not have heard of the reservation, nothing is given back that was perhaps never taken.
    let shared = match reserved_in_store(reserved) {
        0 => sent,
        _ if store::failures() != failures => 0,
        reserved => sent - reserved,
    };
    charge_bytes(request, sent - reserved, shared);
}

/// How much of a response's length is counted in the store when it begins: a short one is over soon, and the store hears of it once.
fn reserved_in_store(length: i64) -> i64 {
    const SHORT: i64 = 64 << 10;
    if length > SHORT { length } else { 0 }
}

/// Charges a client for so many bytes, or gives them back; and in the store for so many `shared` ones.
fn charge_bytes(request: &Request, bytes: i64, shared: i64) {
    let Some((table, _)) = CLIENTS_OF_SERVER.get() else { return };
    let mut debits = Vec::new();
    for Charged { key, each, shared_key } in words(request, BYTES).filter_map(Charged::read) {
        let cost = |bytes: i64| {
            let nanos = each.as_nanos().saturating_mul(bytes.unsigned_abs().into());
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        match bytes {
            0 => {}
            1.. => table.charge(key, cost(bytes), monotonic()),
            _ => table.refund(key, cost(bytes)),
        }
        if shared != 0 && !shared_key.is_empty() {
            debits.push(store::charge(shared_key, cost(shared), shared > 0));
        }
    }
    store::tell(request, debits);
}

/// A client that is charged.
struct Charged {
    key: u64,
    each: Duration,
    shared_key: String,
}

impl Charged {
    /// Reads a word of a note.
    fn read(word: &str) -> Option<Charged> {
        let mut parts = word.split(' ');
        let (key, each) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Charged {
            key,
            each: Duration::from_nanos(each),
            shared_key: parts.next().unwrap_or_default().to_string(),
        })
    }
}

/// Adds a word to a note of the request, once.
pub(super) fn remember(request: &mut Request, note: &'static str, word: &str) {
    if !words(request, note).any(|known| known == word) {
        let all = request.notes.get(note).map_or_else(|| word.to_string(), |words| format!("{words},{word}"));
        request.notes.set(note, all);
    }
}

/// The words of a note, also of the requests before internal redirects.
pub(super) fn words<'a>(request: &'a Request, note: &'a str) -> impl Iterator<Item = &'a str> {
    let before = std::iter::successors(request.previous(), |previous| previous.before.as_ref());
    let notes = std::iter::once(&request.notes).chain(before.map(|previous| &previous.notes));
    notes.filter_map(move |notes| notes.get(note)).flat_map(|words| words.split(','))
}
