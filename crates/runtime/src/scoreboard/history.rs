//! The last ten minutes: where the counters stood, second by second.
//!
//! The parent notes them when it looks at its children, so a request pays nothing for it. The memory is fixed:
//! [`MOMENTS`] times 272 bytes, which is 160 KiB.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use super::board::Board;
use super::clock::now;
use super::layout::{self, CLASSES, DURATIONS, Field, HANDSHAKES, Header, WATCH};
use super::moment::{MOMENTS, Moment, WORDS};
use super::states::State;

impl Board {
    /// Where the counters stand.
    fn moment(&self) -> Moment {
        let header = self.header();
        header.read(|| {
            let cpu = header.load(Header::CpuUser) + header.load(Header::CpuSystem);
            let start = Moment { at: now(), cpu, ..Moment::default() };
            (0..self.used()).fold(start, |sum, slot| self.with_slot(sum, slot))
        })
    }

    fn with_slot(&self, mut sum: Moment, slot: usize) -> Moment {
        let row = self.process(slot);
        let watch = row.series(WATCH);
        let watched = watch.iter().sum::<u64>();
        let [watch_sent, watch_received] = [Field::WatchSent, Field::WatchReceived].map(|field| row.load(field));
        let received = row.load(Field::Received);
        let bytes = row.load(Field::PastBytes) + row.load(Field::OwnBytes);
        sum.accesses += (row.load(Field::PastAccesses) + row.load(Field::OwnAccesses)).saturating_sub(watched);
        sum.sent += bytes.saturating_sub(received).saturating_sub(watch_sent);
        sum.received += received.saturating_sub(watch_received);
        let [completed @ .., failed] = row.series(HANDSHAKES);
        sum.handshakes += completed.iter().sum::<u64>();
        sum.failed_handshakes += failed;
        for (count, of) in sum.classes.iter_mut().zip(row.series(CLASSES)) {
            *count += of;
        }
        // All that the live page asks for is answered with 200.
        sum.classes[1] = sum.classes[1].saturating_sub(watched);
        for ((count, of), own) in sum.durations.iter_mut().zip(row.series(DURATIONS)).zip(watch) {
            *count += of.saturating_sub(own);
        }
        if row.load(Field::Pid) != 0 {
            sum.cpu += layout::CPU.map(|field| row.load(field)).iter().sum::<u64>();
            sum.connections += row.load(Field::Connections);
            let serves = |index: &usize| matches!(self.worker(slot, *index).state(), State::Write | State::Dns);
            sum.served += (0..row.workers(self.workers_per_process())).filter(serves).count() as u64;
            sum.served += row.load(Field::Unlisted);
        }
        sum
    }

    /// Notes where the counters stand now. For the parent, once a second: it is the only one who writes here.
    pub fn note_moment(&self) {
        let [at, words @ ..] = self.moment().words();
        let noted = self.header().load(Header::Noted);
        let [time, places @ ..] = &self.moments()[index(noted)];
        time.store(0, Relaxed);
        fence(Release);
        for (place, word) in places.iter().zip(words) {
            place.store(word, Relaxed);
        }
        time.store(at, Release);
        self.header().store(Header::Noted, noted.wrapping_add(1));
    }

    /// The moments that were noted, oldest first.
    pub fn history(&self) -> Vec<Moment> {
        let noted = self.header().load(Header::Noted);
        let all = noted.saturating_sub(MOMENTS as u64)..noted;
        all.filter_map(|number| read(&self.moments()[index(number)])).map(Moment::of).collect()
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number % MOMENTS as u64).unwrap_or(0)
}

/// A moment, unless it is being replaced.
fn read(row: &[AtomicU64; WORDS]) -> Option<[u64; WORDS]> {
    let at = row[0].load(Acquire);
    let words = std::array::from_fn(|index| row[index].load(Relaxed));
    fence(Acquire);
    (at != 0 && row[0].load(Relaxed) == at).then_some(words)
}
