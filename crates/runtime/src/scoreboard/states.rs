//! The states of workers, children and connections, as the scoreboard counts them.

/// The state of a worker, as the letters of Apache's status page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// `.`: no process has this slot.
    Dead = b'.',
    /// `S`: the child is starting.
    Starting = b'S',
    /// `_`: waits for a connection.
    Ready = b'_',
    /// `R`: reads a request.
    Read = b'R',
    /// `W`: processes a request and sends the response.
    Write = b'W',
    /// `K`: waits for the next request of a kept-alive connection.
    KeepAlive = b'K',
    /// `D`: looks up a name.
    Dns = b'D',
    /// `C`: closes a connection.
    Closing = b'C',
    /// `L`: writes logs.
    Log = b'L',
    /// `G`: finishes its connection before it ends.
    Graceful = b'G',
    /// `I`: an idle worker being ended.
    IdleCleanup = b'I',
}

impl State {
    /// All of them.
    pub const ALL: [State; 11] = [
        State::Dead,
        State::Starting,
        State::Ready,
        State::Read,
        State::Write,
        State::KeepAlive,
        State::Dns,
        State::Closing,
        State::Log,
        State::Graceful,
        State::IdleCleanup,
    ];

    /// The letter of the status page.
    pub fn letter(self) -> char {
        char::from(self as u8)
    }

    /// Whether the worker is serving a request.
    pub fn is_busy(self) -> bool {
        !matches!(self, State::Dead | State::Starting | State::Ready | State::IdleCleanup)
    }

    pub(super) fn of(word: u64) -> State {
        State::ALL.into_iter().find(|state| *state as u64 == word).unwrap_or(State::Dead)
    }
}

/// The phase of a child's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// The slot is free.
    Empty = 0,
    /// Forked, does not accept yet. Counts as idle.
    Starting = 1,
    /// Accepts connections.
    Running = 2,
    /// Accepts no more, and ends when its connections have.
    Quiescing = 3,
}

impl ChildState {
    /// Its name, wherever a child is mentioned.
    pub fn name(self) -> &'static str {
        match self {
            ChildState::Empty => "gone",
            ChildState::Starting => "starting",
            ChildState::Running => "running",
            ChildState::Quiescing => "finishing",
        }
    }

    pub(super) fn of(word: u64) -> ChildState {
        [ChildState::Starting, ChildState::Running, ChildState::Quiescing]
            .into_iter()
            .find(|l| *l as u64 == word)
            .unwrap_or(ChildState::Empty)
    }
}

/// Which work the server wants from load balancers, in the words of HAProxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duty {
    /// Any.
    #[default]
    Ready,
    /// That of clients which it already has: it is about to stop, or an administrator wants that.
    Drain,
    /// None.
    Maintenance,
    /// What the program wants that has taken the place of this one.
    Replaced,
}

impl Duty {
    /// Those that a program which takes over goes on with, by their names.
    const HANDED_OVER: [(&str, Duty); 3] =
        [("ready", Duty::Ready), ("drain", Duty::Drain), ("maintenance", Duty::Maintenance)];

    /// The name that the program which takes over knows; none if it has none.
    pub fn name(self) -> Option<&'static str> {
        Duty::HANDED_OVER.into_iter().find(|(_, duty)| *duty == self).map(|(name, _)| name)
    }

    /// The duty with this name.
    pub fn named(name: &str) -> Option<Duty> {
        Duty::HANDED_OVER.into_iter().find(|(known, _)| *known == name).map(|(_, duty)| duty)
    }

    pub(super) fn of(word: u64) -> Duty {
        let all = [Duty::Ready, Duty::Drain, Duty::Maintenance, Duty::Replaced];
        all.into_iter().find(|duty| *duty as u64 == word).unwrap_or_default()
    }
}

/// A count of a child's connections: in a stage without a worker, by protocol, or in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// All open connections.
    Connections,
    /// Connections whose response goes out as the client reads it.
    Writing,
    /// Connections that wait for their next request.
    KeepAlive,
    /// Connections that are closing.
    Closing,
    /// Connections that have received a part of a head, if they hold no worker.
    Reading,
    /// Connections whose request waits for its turn without a worker, though it has a row.
    Released,
    /// Connections whose request found no row.
    Unlisted,
    /// Connections that speak HTTP/2.
    Http2,
    /// Streams of HTTP/2 whose requests are being served.
    Streams,
}

/// The outcome of a TLS handshake: each combination is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// TLS 1.3; otherwise 1.2.
    pub is_tls13: bool,
    /// The connection speaks HTTP/2; otherwise HTTP/1.
    pub is_http2: bool,
    /// Resumed an earlier session.
    pub is_resumed: bool,
}

impl Handshake {
    /// How many outcomes there are.
    pub const COUNT: usize = 8;

    /// All of them, in the order in which they are counted.
    pub fn all() -> [Handshake; Handshake::COUNT] {
        std::array::from_fn(|index| Handshake {
            is_tls13: index & 1 != 0,
            is_http2: index & 2 != 0,
            is_resumed: index & 4 != 0,
        })
    }

    /// Its properties: their names and values.
    pub fn labels(self) -> [(&'static str, &'static str); 3] {
        [
            ("version", if self.is_tls13 { "1.3" } else { "1.2" }),
            ("protocol", if self.is_http2 { "h2" } else { "http/1.1" }),
            ("session", if self.is_resumed { "resumed" } else { "new" }),
        ]
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.is_tls13) | usize::from(self.is_http2) << 1 | usize::from(self.is_resumed) << 2
    }
}
