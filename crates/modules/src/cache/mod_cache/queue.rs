//! The requests of a child for the same response: the first one asks for it, the others may wait for what becomes of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::executor::{Awaited, timeout_at};
use runtime::release_worker;
use sys::time::Instant;

/// For how many keys a child knows that their responses are not stored. More would only save a short wait.
const UNSTORABLE_MAX: usize = 1024;
/// How long to wait for a body that has begun: it may come, or be taken by its client, at any pace.
pub(super) const BODY_MAX: Duration = Duration::from_secs(1);

/// What has become of the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its response is stored, or another one is.
    Stored,
    /// Its response is not stored, and that of the next request will hardly be.
    Unstorable,
    /// The others go on alone: its response is not stored for a reason that is its own, or takes too long.
    Alone,
    /// It has ended before that was known: its client may be gone.
    Open,
}

/// What is known of a key.
enum State {
    /// A request asks for the response, since then.
    Asked(Behind, Instant),
    /// Responses are not stored, at least until then.
    Unstorable(Instant),
}

static STATES: Mutex<Option<HashMap<String, State>>> = Mutex::new(None);

fn states() -> MutexGuard<'static, Option<HashMap<String, State>>> {
    STATES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a request in the queue of its key.
pub(super) enum Place {
    First(Turn),
    Behind(Behind),
    /// There is no queue: nothing would be stored.
    NoQueue,
}

/// The first request for a response, until it is dropped.
pub(super) struct Turn {
    key: String,
    awaited: Behind,
    since: Instant,
    end: End,
    /// For how long an end that is none counts.
    max_age: Duration,
}

/// What a request waits for behind the first one.
#[derive(Clone, Default)]
pub(super) struct Behind {
    /// When the body of the response has begun, or all is over.
    begun: Awaited<Instant>,
    end: Awaited<End>,
}

/// Takes a place. A first request that has taken longer than `max_age` holds up nobody.
pub(super) fn enter(key: &str, max_age: Duration) -> Place {
    let (mut states, now) = (states(), Instant::now());
    let all = states.get_or_insert_default();
    match all.get(key) {
        Some(State::Asked(awaited, since)) if now < *since + max_age => return Place::Behind(awaited.clone()),
        Some(State::Unstorable(until)) if now < *until => return Place::NoQueue,
        _ => {}
    }
    let turn = Turn { key: key.to_string(), awaited: Behind::default(), since: now, end: End::Open, max_age };
    all.insert(key.to_string(), State::Asked(turn.awaited.clone(), now));
    Place::First(turn)
}

impl Behind {
    /// Waits for the first request, until `deadline` at most, and not for long once its body has begun.
    pub(super) async fn wait(self, deadline: Instant) -> End {
        let waits = async {
            let begun = timeout_at(deadline, self.begun.wait()).await?;
            timeout_at(deadline.min(begun + BODY_MAX), self.end.wait()).await
        };
        release_worker(waits).await.unwrap_or(End::Alone)
    }
}

impl Turn {
    /// The body of the response begins, and is stored while it goes out.
    pub(super) fn begin_body(&self) {
        self.awaited.begun.set(Instant::now());
    }

    /// Says what has become of the request.
    pub(super) fn settle(&mut self, end: End) {
        self.end = end;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut states = states();
        let all = states.get_or_insert_default();
        // Another request may have taken its place.
        if matches!(all.get(&self.key), Some(State::Asked(_, since)) if *since == self.since) {
            all.remove(&self.key);
            if self.end == End::Unstorable {
                remember(all, std::mem::take(&mut self.key), Instant::now() + self.max_age);
            }
        }
        drop(states);
        self.awaited.end.set(self.end);
        self.awaited.begun.set(Instant::now());
    }
}

fn remember(all: &mut HashMap<String, State>, key: String, until: Instant) {
    if all.len() >= UNSTORABLE_MAX {
        let now = Instant::now();
        all.retain(|_, state| !matches!(state, State::Unstorable(until) if *until <= now));
    }
    if all.len() < UNSTORABLE_MAX {
        all.insert(key, State::Unstorable(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(60);

    fn end_of(behind: &Behind) -> Option<End> {
        behind.end.get()
    }

    #[test]
    fn the_first_lets_the_others_go() {
        for end in [End::Stored, End::Unstorable, End::Alone, End::Open] {
            let key = format!("key {end:?}");
            let Place::First(mut turn) = enter(&key, AGE) else { panic!("it is the first") };
            let Place::Behind(behind) = enter(&key, AGE) else { panic!("it is behind") };
            assert_eq!(end_of(&behind), None);
            turn.settle(end);
            drop(turn);
            assert_eq!(end_of(&behind), Some(end));
            // The next one is the first again, unless there is nothing to wait for.
            assert_eq!(matches!(enter(&key, AGE), Place::NoQueue), end == End::Unstorable);
        }
    }

    #[test]
    fn an_old_one_holds_up_nobody() {
        let Place::First(old) = enter("old", Duration::ZERO) else { panic!("it is the first") };
        let Place::First(_new) = enter("old", Duration::ZERO) else { panic!("the old one does not count") };
        drop(old);
        assert!(matches!(enter("old", AGE), Place::Behind(_)), "the new one keeps its place");
    }
}
