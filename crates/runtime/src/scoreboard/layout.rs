//! The rows: arrays of atomic numbers, and the meaning of each.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use super::durations::BUCKETS;
use super::states::{ChildState, Gauge, Handshake, State};

/// Words of the header.
pub(super) const HEADER: usize = 16;
/// Words of a process row: eleven cache lines.
pub(super) const PROCESS: usize = 88;
/// Words of a worker row: six cache lines.
pub(super) const WORKER: usize = 48;

/// Fields for the whole server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Header {
    /// Start of the server, in µs since 1970.
    Started,
    /// Last restart, likewise.
    Restarted,
    /// The number of restarts.
    Generation,
    /// How many worker rows are shown, used or not.
    Shown,
    /// CPU time of children that ended, in µs: user.
    CpuUser,
    /// System.
    CpuSystem,
    /// Slots from this one on were never used.
    Used,
    /// How many workers there are, if a waiting request holds one.
    Held,
    /// How many workers there are, if a request needs one to be served.
    Limit,
    /// Whether the parent would start another child at once if no worker were idle.
    Growing,
    /// How many moments of the history were noted.
    Noted,
    /// How many restarts have come to an end: a child of the new generation serves in the place of the old ones, or the
    /// configuration is not used.
    Concluded,
    /// How many of them were refused.
    Refused,
    /// Which work the server wants from load balancers.
    Duty,
    /// Odd while the totals of an ended child move from its row to the header.
    Sequence,
}

/// A process row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    Life,
    Pid,
    Generation,
    /// µs since 1970.
    Started,
    /// How many of the slot's worker rows are used.
    Workers,
    Connections,
    Writing,
    KeepAlive,
    Closing,
    Reading,
    Released,
    Unlisted,
    /// Connections this child has accepted.
    Accepted,
    /// The number of connections at which the child calls the parent; 0: never.
    QuotaConnections,
    /// The number of its own requests at which the child calls the parent; 0: never.
    QuotaRequests,
    /// Requests of the children that had the slot before.
    PastAccesses,
    /// Bytes sent and received, likewise.
    PastBytes,
    /// Requests of this child.
    OwnAccesses,
    OwnBytes,
    /// Sum of the requests' durations in µs, over the life of the server.
    Duration,
    /// CPU time in µs, as of roughly the last request.
    CpuUser,
    CpuSystem,
    /// CPU time in µs of scripts that were waited for.
    CpuChildrenUser,
    CpuChildrenSystem,
    /// Bytes received with the requests, a part of all bytes, over the life of the server.
    Received,
    /// Bytes sent to clients that watch the server, a part of all bytes, over its life.
    WatchSent,
    /// Bytes received from them.
    WatchReceived,
    /// Connections that speak HTTP/2.
    Http2,
    /// Their streams whose requests are being served.
    Streams,
    /// Requests that got an earlier one's response, over the life of the server.
    Repeated,
    /// Requests that began right before their handler, likewise.
    Prepared,
}

/// Counters in a row, over the life of the server: their position in a process row, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series<const N: usize>(usize);

impl<const N: usize> Series<N> {
    /// The word of a counter; the last one also counts what is beyond.
    pub(super) fn at(self, index: usize) -> usize {
        self.0 + index.min(N - 1)
    }
}

/// Answers with a status of 1xx to 5xx.
pub(super) const CLASSES: Series<5> = Series(31);
/// Requests that took longer than the previous bound but no longer than this one.
pub(super) const DURATIONS: Series<BUCKETS> = Series(36);
/// Of these, those by clients that watch the server.
pub(super) const WATCH: Series<BUCKETS> = Series(DURATIONS.0 + BUCKETS);
/// TLS handshakes by their outcomes; the last: those that failed.
pub(super) const HANDSHAKES: Series<{ Handshake::COUNT + 1 }> = Series(WATCH.0 + BUCKETS);
const _: () = assert!(Field::Prepared as usize + 1 == CLASSES.0 && HANDSHAKES.0 + Handshake::COUNT < PROCESS);

pub(super) const GAUGES: [Field; 9] = [
    Field::Connections,
    Field::Writing,
    Field::KeepAlive,
    Field::Closing,
    Field::Reading,
    Field::Released,
    Field::Unlisted,
    Field::Http2,
    Field::Streams,
];
pub(super) const CPU: [Field; 4] = [Field::CpuUser, Field::CpuSystem, Field::CpuChildrenUser, Field::CpuChildrenSystem];

impl Gauge {
    pub(super) fn field(self) -> Field {
        match self {
            Gauge::Connections => Field::Connections,
            Gauge::Writing => Field::Writing,
            Gauge::KeepAlive => Field::KeepAlive,
            Gauge::Closing => Field::Closing,
            Gauge::Reading => Field::Reading,
            Gauge::Released => Field::Released,
            Gauge::Unlisted => Field::Unlisted,
            Gauge::Http2 => Field::Http2,
            Gauge::Streams => Field::Streams,
        }
    }
}

/// A worker row, without what it shows of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum WorkerField {
    State,
    /// Odd while another request is being shown.
    Sequence,
    /// When the last request began, in µs since 1970.
    Began,
    /// When the row was last used, likewise.
    Used,
    /// How long the last request took, in µs.
    Took,
    /// Sum over this slot's requests.
    Duration,
    ConnectionAccesses,
    OwnAccesses,
    Accesses,
    ConnectionBytes,
    OwnBytes,
    Bytes,
}

/// Where a worker row has its client's address: two words, of an IPv6 address or of the one that stands for an IPv4 address;
/// zeros: there is none.
const CLIENT: usize = 12;

/// The texts of a worker row: their position, and their length in words. A longer text is cut.
#[derive(Clone, Copy, Debug)]
struct Text(usize, usize);

const PROTOCOL: Text = Text(TEXTS_AT, 2);
const VHOST: Text = Text(PROTOCOL.0 + PROTOCOL.1, 10);
const REQUEST: Text = Text(VHOST.0 + VHOST.1, 22);
/// In the order of [`RowTexts::new`].
const TEXTS: [Text; 3] = [PROTOCOL, VHOST, REQUEST];
/// Where the texts begin; they go to the end of the row.
const TEXTS_AT: usize = CLIENT + 2;
const _: () = assert!(REQUEST.0 + REQUEST.1 == WORKER);

/// How many bytes of a request line are kept.
pub const REQUEST_ROOM: usize = REQUEST.1 * 8;

/// The texts of a row, about the request being served, as the row has them: to show a request that comes again is to copy a
/// few words.
#[derive(Clone, Debug)]
pub struct RowTexts {
    words: [u64; WORKER - TEXTS_AT],
    /// How many words of each text there are, with its end.
    used: [u8; TEXTS.len()],
}

impl RowTexts {
    /// From UTF-8, to be checked by the reader; cut to 16, 80 and 176 bytes.
    pub fn new(protocol: &[u8], vhost: &[u8], request: &[u8]) -> RowTexts {
        let mut texts = RowTexts { words: [0; WORKER - TEXTS_AT], used: [0; TEXTS.len()] };
        for ((Text(at, room), value), used) in TEXTS.into_iter().zip([protocol, vhost, request]).zip(&mut texts.used) {
            let (whole, rest) = value[..value.len().min(room * 8)].as_chunks();
            let words = &mut texts.words[at - TEXTS_AT..][..room];
            for (word, bytes) in words.iter_mut().zip(whole) {
                *word = u64::from_ne_bytes(*bytes);
            }
            // The rest of a word is zeros: the text ends there.
            if let Some(word) = words.get_mut(whole.len()) {
                *word = rest.iter().rev().fold(0, |end, byte| end << 8 | u64::from(*byte)).to_le();
            }
            *used = (whole.len() + 1).min(room) as u8;
        }
        texts
    }
}

/// What a row shows of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// The client's address; empty: there is none.
    pub(super) client: String,
    pub(super) protocol: String,
    pub(super) vhost: String,
    pub(super) request: String,
}

pub(super) struct HeaderRow<'a>(pub(super) &'a [AtomicU64; HEADER]);

impl HeaderRow<'_> {
    pub(super) fn load(&self, field: Header) -> u64 {
        self.0[field as usize].load(Relaxed)
    }
    pub(super) fn store(&self, field: Header, value: u64) {
        self.0[field as usize].store(value, Relaxed);
    }
    pub(super) fn add(&self, field: Header, value: u64) {
        self.0[field as usize].fetch_add(value, Relaxed);
    }
    /// The parent marks the beginning or end of moving numbers between rows and header: a reader that sums them up must
    /// not see them in neither or in both. If the parent dies in between, the server does not continue anyway.
    pub(super) fn enter(&self) {
        self.0[Header::Sequence as usize].fetch_add(1, AcqRel);
        fence(Release);
    }
    pub(super) fn leave(&self) {
        self.0[Header::Sequence as usize].fetch_add(1, Release);
    }
    /// Reads while nothing moves; after some tries, returns whatever was read.
    pub(super) fn read<T>(&self, read: impl Fn() -> T) -> T {
        const TRIES: usize = 16;
        let sequence = &self.0[Header::Sequence as usize];
        for _ in 0..TRIES {
            let before = sequence.load(Acquire);
            if before & 1 == 0 {
                let result = read();
                fence(Acquire);
                if sequence.load(Relaxed) == before {
                    return result;
                }
            }
            std::thread::yield_now();
        }
        read()
    }
}

pub(super) struct ProcessRow<'a>(pub(super) &'a [AtomicU64; PROCESS]);

impl ProcessRow<'_> {
    pub(super) fn load(&self, field: Field) -> u64 {
        self.0[field as usize].load(Relaxed)
    }
    pub(super) fn store(&self, field: Field, value: u64) {
        self.0[field as usize].store(value, Relaxed);
    }
    /// Adds; returns the new value.
    pub(super) fn add(&self, field: Field, value: u64) -> u64 {
        self.0[field as usize].fetch_add(value, Relaxed).wrapping_add(value)
    }
    pub(super) fn sub(&self, field: Field, value: u64) {
        self.0[field as usize].fetch_sub(value, Relaxed);
    }
    /// Counts one in a series.
    pub(super) fn tally<const N: usize>(&self, series: Series<N>, index: usize) {
        self.0[series.at(index)].fetch_add(1, Relaxed);
    }
    pub(super) fn series<const N: usize>(&self, Series(at): Series<N>) -> [u64; N] {
        std::array::from_fn(|index| self.0[at + index].load(Relaxed))
    }
    pub(super) fn set_life(&self, life: ChildState) {
        self.0[Field::Life as usize].store(life as u64, Release);
    }
    pub(super) fn workers(&self, most: usize) -> usize {
        usize::try_from(self.load(Field::Workers)).unwrap_or(0).min(most)
    }
}

pub(super) struct WorkerRow<'a>(pub(super) &'a [AtomicU64; WORKER]);

impl WorkerRow<'_> {
    pub(super) fn load(&self, field: WorkerField) -> u64 {
        self.0[field as usize].load(Relaxed)
    }
    pub(super) fn store(&self, field: WorkerField, value: u64) {
        self.0[field as usize].store(value, Relaxed);
    }
    /// Adds. Only the row's one owner writes, so a load and a store suffice.
    pub(super) fn add(&self, field: WorkerField, value: u64) {
        self.store(field, self.load(field).wrapping_add(value));
    }
    /// The connection that had the row has gone.
    pub(super) fn forget_connection(&self) {
        self.store(WorkerField::ConnectionAccesses, 0);
        self.store(WorkerField::ConnectionBytes, 0);
    }
    pub(super) fn state(&self) -> State {
        State::of(self.load(WorkerField::State))
    }

    /// Shows another request; readers see all of the old one or all of the new one.
    pub(super) fn show(&self, client: IpAddr, texts: &RowTexts) {
        let sequence = &self.0[WorkerField::Sequence as usize];
        let even = sequence.load(Relaxed) & !1;
        sequence.store(even.wrapping_add(1), Relaxed);
        fence(Release);
        let [high, low] = match client {
            // As the IPv6 address that stands for it (RFC 4291 section 2.5.5.2).
            IpAddr::V4(ip) => [0, 0xffff << 32 | u64::from(ip.to_bits())],
            IpAddr::V6(ip) => [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64],
        };
        self.0[CLIENT].store(high, Relaxed);
        self.0[CLIENT + 1].store(low, Relaxed);
        for (Text(at, room), used) in TEXTS.into_iter().zip(texts.used) {
            let used = usize::from(used).min(room);
            for (place, word) in self.0[at..at + used].iter().zip(&texts.words[at - TEXTS_AT..]) {
                place.store(*word, Relaxed);
            }
        }
        sequence.store(even.wrapping_add(2), Release);
    }

    /// Reads what belongs together. Nothing, if the writer seems to be writing for ever: it was stopped or killed there.
    pub(super) fn shown(&self) -> Shown {
        const TRIES: usize = 64;
        let sequence = &self.0[WorkerField::Sequence as usize];
        for _ in 0..TRIES {
            let before = sequence.load(Acquire);
            if before & 1 == 0 {
                let [protocol, vhost, request] = TEXTS.map(|text| self.read_text(text));
                let shown = Shown { client: self.client(), protocol, vhost, request };
                fence(Acquire);
                if sequence.load(Relaxed) == before {
                    return shown;
                }
            }
            std::hint::spin_loop();
        }
        Shown::default()
    }

    fn client(&self) -> String {
        let [high, low] = [CLIENT, CLIENT + 1].map(|at| u128::from(self.0[at].load(Relaxed)));
        match high << 64 | low {
            0 => String::new(),
            bits => Ipv6Addr::from_bits(bits).to_canonical().to_string(),
        }
    }

    fn read_text(&self, Text(at, words): Text) -> String {
        let bytes: Vec<u8> = self.0[at..at + words].iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Completes what a killed writer began: drops what is half written.
    pub(super) fn repair(&self) {
        let sequence = &self.0[WorkerField::Sequence as usize];
        if sequence.load(Relaxed) & 1 == 1 {
            for at in TEXTS.map(|Text(at, _)| at).into_iter().chain([CLIENT, CLIENT + 1]) {
                self.0[at].store(0, Relaxed);
            }
            sequence.fetch_add(1, AcqRel);
        }
    }
}
