//! The data of a status page.

use super::board::{Board, get};
use super::durations::BUCKETS;
use super::layout::{CLASSES, DURATIONS, Field, HANDSHAKES, Header, Shown, WATCH, WorkerField, WorkerRow};
use super::states::{ChildState, Handshake, State};

/// The scoreboard at a moment. Times of day are in microseconds since 1970, durations in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When the server started.
    pub started: u64,
    /// When it was last restarted.
    pub restarted: u64,
    /// How often it was restarted.
    pub generation: u32,
    /// How many worker rows are worth showing even where no process has them (`MaxRequestWorkers`).
    pub shown: usize,
    /// How many requests may be served at once; `None`: any number, since none needs a worker.
    pub limit: Option<usize>,
    /// CPU time in user mode of children that ended, their scripts included.
    pub ended_user: u64,
    /// CPU time in the kernel of children that ended, their scripts included.
    pub ended_system: u64,
    /// The process slots up to the last one ever used, free ones among them.
    pub processes: Vec<Process>,
}

impl Snapshot {
    /// Whether any child accepts connections.
    pub fn serving(&self) -> bool {
        self.processes.iter().any(|process| process.life == ChildState::Running)
    }
}

/// A process slot.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number, from 0.
    pub slot: usize,
    /// The phase of its child's life.
    pub life: ChildState,
    /// The child; 0 if there is none.
    pub pid: u32,
    /// The generation it belongs to.
    pub generation: u32,
    /// When it was forked.
    pub started: u64,
    /// Open connections.
    pub connections: u64,
    /// Connections whose response is still going out.
    pub writing: u64,
    /// Connections waiting for their next request.
    pub keep_alive: u64,
    /// Connections that are closing.
    pub closing: u64,
    /// Connections that have received a part of a head, if they hold no worker.
    pub reading: u64,
    /// Connections whose request waits for its turn, if it holds no worker.
    pub released: u64,
    /// Connections whose request found no row, if there is no limit: they are served like the others. `None`: there is a
    /// limit, and the rows are its workers.
    pub unlisted: Option<u64>,
    /// Connections that speak HTTP/2.
    pub http2: u64,
    /// Streams of HTTP/2 whose requests are being served.
    pub streams: u64,
    /// TLS handshakes by their outcomes, in the order of [`Handshake::all`]; the last: those that failed.
    pub handshakes: [u64; Handshake::COUNT + 1],
    /// Connections the child has accepted.
    pub accepted: u64,
    /// Requests of this slot since the counters were last reset.
    pub accesses: u64,
    /// Bytes sent and received likewise.
    pub bytes: u64,
    /// Of these, those received.
    pub received: u64,
    /// Sum of the requests' durations, likewise.
    pub duration: u64,
    /// Of these requests, those answered with a status of 1xx, 2xx … 5xx.
    pub classes: [u64; 5],
    /// Requests that took longer than the previous one of the [`BOUNDS`](super::BOUNDS) but no longer than this; the last:
    /// longer than all.
    pub durations: [u64; BUCKETS],
    /// Of these, those by clients that watch the server.
    pub watch: Watch,
    /// Requests that got an earlier one's response, likewise.
    pub repeated: u64,
    /// Requests that began right before their handler, where an earlier one was, likewise.
    pub prepared: u64,
    /// Requests of this child.
    pub own_accesses: u64,
    /// Bytes of this child.
    pub own_bytes: u64,
    /// CPU time of the child: user, system, and the same for its scripts that ended; about a second old.
    pub cpu: [u64; 4],
    /// Its workers.
    pub workers: Vec<Worker>,
}

/// Requests of the live page, which only show what others do. All of them are answered with 200.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// As in [`Process`].
    pub durations: [u64; BUCKETS],
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// A worker row.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Its state. In a child that finishes its last connections every busy worker is [`State::Graceful`].
    pub state: State,
    /// When its last request began; 0: never.
    pub began: u64,
    /// When it last did anything.
    pub used: u64,
    /// How long its last request took.
    pub took: u64,
    /// Sum over all requests of this row.
    pub duration: u64,
    /// Requests of this connection, of this child, of this slot.
    pub accesses: [u64; 3],
    /// Bytes of this connection, of this child, of this slot.
    pub bytes: [u64; 3],
    /// The client's address.
    pub client: String,
    /// The virtual host with its port.
    pub vhost: String,
    /// The request line.
    pub request: String,
    /// `http/1.1`.
    pub protocol: String,
}

/// Which workers' texts a snapshot has: for thousands of workers they cost more than all the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Described {
    /// None.
    Nobody,
    /// The clients of busy workers.
    Busy,
    /// All: idle workers show their last client.
    All,
}

impl Snapshot {
    fn of(board: &Board, described: Described) -> Snapshot {
        let header = board.header();
        header.read(|| Snapshot {
            started: header.load(Header::Started),
            restarted: header.load(Header::Restarted),
            generation: header.load(Header::Generation) as u32,
            shown: header.load(Header::Shown) as usize,
            limit: board.limit(),
            ended_user: header.load(Header::CpuUser),
            ended_system: header.load(Header::CpuSystem),
            processes: (0..board.used()).map(|slot| process(board, slot, described)).collect(),
        })
    }
}

/// Every process and worker as they are now. There are none before the server has started, which only happens to a
/// request that is explained, not served.
pub fn snapshot(described: Described) -> Snapshot {
    get().map(|board| board.snapshot_with(described)).unwrap_or_default()
}

impl Board {
    /// Every process and worker as they are now.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_with(Described::All)
    }

    /// Every process and worker as they are now, with the texts of some workers only.
    pub fn snapshot_with(&self, described: Described) -> Snapshot {
        Snapshot::of(self, described)
    }
}

fn process(board: &Board, slot: usize, described: Described) -> Process {
    let row = board.process(slot);
    let life = board.life(slot);
    let workers = row.workers(board.workers_per_process());
    Process {
        slot,
        life,
        pid: row.load(Field::Pid) as u32,
        generation: row.load(Field::Generation) as u32,
        started: row.load(Field::Started),
        connections: row.load(Field::Connections),
        writing: row.load(Field::Writing),
        keep_alive: row.load(Field::KeepAlive),
        closing: row.load(Field::Closing),
        reading: row.load(Field::Reading),
        released: row.load(Field::Released),
        unlisted: board.limit().is_none().then(|| row.load(Field::Unlisted)),
        http2: row.load(Field::Http2),
        streams: row.load(Field::Streams),
        handshakes: row.series(HANDSHAKES),
        accepted: row.load(Field::Accepted),
        accesses: row.load(Field::PastAccesses) + row.load(Field::OwnAccesses),
        bytes: row.load(Field::PastBytes) + row.load(Field::OwnBytes),
        received: row.load(Field::Received),
        duration: row.load(Field::Duration),
        classes: row.series(CLASSES),
        durations: row.series(DURATIONS),
        watch: Watch {
            durations: row.series(WATCH),
            sent: row.load(Field::WatchSent),
            received: row.load(Field::WatchReceived),
        },
        repeated: row.load(Field::Repeated),
        prepared: row.load(Field::Prepared),
        own_accesses: row.load(Field::OwnAccesses),
        own_bytes: row.load(Field::OwnBytes),
        cpu: [Field::CpuUser, Field::CpuSystem, Field::CpuChildrenUser, Field::CpuChildrenSystem]
            .map(|field| row.load(field)),
        workers: (0..workers).map(|index| worker(&board.worker(slot, index), life, described)).collect(),
    }
}

fn worker(row: &WorkerRow<'_>, life: ChildState, described: Described) -> Worker {
    let state = match row.state() {
        _ if life == ChildState::Empty => State::Dead,
        busy if busy.is_busy() && life == ChildState::Quiescing => State::Graceful,
        state => state,
    };
    let Shown { client, protocol, vhost, request } = match described {
        Described::All => row.shown(),
        Described::Busy if state.is_busy() => row.shown(),
        Described::Busy | Described::Nobody => Shown::default(),
    };
    let three = |fields: [WorkerField; 3]| fields.map(|field| row.load(field));
    Worker {
        state,
        began: row.load(WorkerField::Began),
        used: row.load(WorkerField::Used),
        took: row.load(WorkerField::Took),
        duration: row.load(WorkerField::Duration),
        accesses: three([WorkerField::ConnectionAccesses, WorkerField::OwnAccesses, WorkerField::Accesses]),
        bytes: three([WorkerField::ConnectionBytes, WorkerField::OwnBytes, WorkerField::Bytes]),
        client,
        vhost,
        request,
        protocol,
    }
}
