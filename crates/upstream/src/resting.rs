//! Idle connections that stay with the reactor of a thread that polls all connections of its process. The next request need not
//! register the connection again, and the reactor knows whether the server has closed it.

use std::cell::RefCell;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt as _};
use sys::time::Instant;

use crate::remote::{Keep, Key, Kind};
use crate::stream::Stream;
use crate::tally::Tally;

/// How many rest in a thread, to all servers together.
const RESTING_MAX: usize = 1024;

/// Connections that rest.
#[derive(Default)]
struct Resting {
    of: HashMap<Key, Interchangeable>,
    count: usize,
}

/// Those of one kind, the last one used last.
struct Interchangeable {
    kept: Vec<(Stream, Instant)>,
    /// Where they count as idle: a mark for each would cost every request that takes one.
    tally: Option<Tally>,
}

thread_local! {
    static RESTING: RefCell<Resting> = RefCell::new(Resting { of: HashMap::new(), count: 0 });
}

/// Takes the connection that was used last, within this time if one is given.
pub(crate) fn take(kind: &Kind, keep: Keep, within: Option<Duration>) -> Option<Stream> {
    RESTING.with_borrow_mut(|resting| {
        let Resting { of, count } = resting;
        let Interchangeable { kept, tally } = of.get_mut(&kind.key)?;
        while kept.last().is_some_and(|(_, since)| within.is_none_or(|time| since.elapsed() <= time))
            && let Some((mut stream, since)) = kept.pop()
        {
            *count -= 1;
            tally.iter().for_each(Tally::wakes);
            // A request that may be sent twice finds out whether the server has closed it just now.
            if keep.allows(since) && stream.may_go_on(within.is_some()) {
                return Some(stream);
            }
        }
        None
    })
}

/// Lets a connection rest, after a request that any thread may have gone on with if `by_any`. `Err`: it cannot, or there are
/// enough.
pub(crate) fn give(kind: &Kind, keep: Keep, stream: Stream, by_any: bool) -> Result<(), Stream> {
    // Under event the thread that listens may end a response, and the next request is one of another thread, unless that
    // thread takes such requests itself.
    let is_taken_here = runtime::scoreboard::one_thread_serves_all() || by_any && runtime::is_brief();
    if !sys::watch::serves_many() || !is_taken_here {
        return Err(stream);
    }
    RESTING.with_borrow_mut(|resting| {
        if resting.count >= RESTING_MAX {
            resting.forget(Keep { idle: None, ..keep });
        }
        let Resting { of, count } = resting;
        let of_kind = of.entry(kind.key.clone());
        let Interchangeable { kept, tally } =
            of_kind.or_insert_with(|| Interchangeable { kept: Vec::new(), tally: kind.tally.clone() });
        if kept.len() >= keep.max || *count >= RESTING_MAX {
            return Err(stream);
        }
        kept.push((stream, Instant::now()));
        tally.iter().for_each(Tally::rests);
        *count += 1;
        Ok(())
    })
}

/// How many of a kind rest in this thread.
pub(crate) fn count(key: &Key) -> usize {
    RESTING.with_borrow(|resting| resting.of.get(key).map_or(0, |one| one.kept.len()))
}

impl Resting {
    /// Closes those that have been idle for too long.
    fn forget(&mut self, keep: Keep) {
        for Interchangeable { kept, tally } in self.of.values_mut() {
            let before = kept.len();
            kept.retain(|(_, since)| keep.allows(*since));
            (kept.len()..before).for_each(|_| tally.iter().for_each(Tally::wakes));
        }
        self.of.retain(|_, one| !one.kept.is_empty());
        self.count = self.of.values().map(|one| one.kept.len()).sum();
    }
}
