//! What a workload consists of: documents, protocol, load, and the servers that take part.

use std::time::Duration;

use crate::experiments::profile::Entry;
use crate::load::tls::{Tls, Versions};
use crate::machine::identity;
use crate::machine::script::Script;
use crate::machine::stats::percentile;

/// The smallest document: if the file costs nothing, what remains is the server.
pub(crate) const SMALL_FILE: &[u8] = b"The swallow is back: it works.\n";

/// A file that every server serves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// Its name below the document root.
    pub(crate) name: &'static str,
    /// Its length in bytes.
    pub(crate) length: usize,
}

impl Document {
    /// Its content: the small file, or a repeated pattern.
    pub(crate) fn content(&self) -> Vec<u8> {
        SMALL_FILE.iter().copied().cycle().take(self.length).collect()
    }
}

/// [`SMALL_FILE`].
pub(crate) const SMALL: Document = Document { name: "small.txt", length: SMALL_FILE.len() };
/// A document of usual length.
pub(crate) const MEDIUM: Document = Document { name: "16k.txt", length: 16 * 1024 };
/// The document for slow clients.
pub(crate) const LARGE: Document = Document { name: "1m.txt", length: 1024 * 1024 };

/// Every document, by size.
pub(crate) static DOCUMENTS: [&Document; 3] = [&SMALL, &MEDIUM, &LARGE];

/// The load on a server.
#[derive(Debug)]
pub(crate) enum LoadShape {
    /// Requests at full speed, for each number of connections.
    Load {
        /// The file requested.
        document: &'static Document,
        /// Numbers of connections, each measured.
        connections: &'static [u32],
        /// A connection for each request.
        close: bool,
        /// The protocol.
        protocol: Protocol,
    },
    /// Connections that made one request and then only stay open.
    Idle {
        /// How many.
        connections: u32,
        /// The protocol.
        protocol: Protocol,
    },
    /// Server processes that wait for work.
    Children {
        /// How many.
        count: u32,
        /// The number of connections that keep all of them busy.
        clients: u32,
    },
    /// Requests for the small file at a fixed rate, regardless of earlier responses.
    Rate {
        /// How many connections share the rate.
        connections: u32,
        /// Requests per second in all.
        per_second: u32,
        /// Requests after which a connection is closed and another one opened; 0 keeps it.
        per_connection: u32,
    },
    /// Fresh requests for the small file, one after the other, while thousands of connections stay.
    MixedConnections(MixedConnections),
    /// Requests for a script at full speed, a connection for each, with all cores for server and scripts.
    Script {
        /// The script to run.
        script: &'static Script,
        /// Numbers of clients, each measured.
        connections: &'static [u32],
    },
    /// Requests for a script at a fixed rate, more than its one process can serve: they have to queue.
    Queue(Queue),
    /// Requests for scripts that need much memory, and at the same time for the small file at a fixed rate.
    MemoryPressure(MemoryPressure),
    /// Requests over connections that stay for a few only, to a server that has just started and passes them on.
    Reuse(Reuse),
    /// Requests at a fixed rate to a server whose origins fail in turn.
    Faults(Faults),
    /// Requests at full speed to a server with many hosts, lines or certificates.
    Many {
        /// How many, each measured.
        sizes: &'static [u32],
        /// What they are.
        noun: &'static str,
        /// Which of them are requested.
        requested: Requested,
        /// The protocol. Over TLS each request has a connection.
        protocol: Protocol,
    },
}

impl LoadShape {
    /// Whether server and scripts have all cores, instead of one of their own.
    pub(crate) fn has_all_cores(&self) -> bool {
        matches!(self, Self::Script { .. } | Self::Queue(_))
    }
}

/// What is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requested {
    /// The first one, again and again.
    First,
    /// All of them, in a mixed order.
    All,
}

/// The protocol. Encryption is always TLS 1.3, AES with 128 bits and X25519, for every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// In the clear.
    Clear,
    /// Over TLS, with a full handshake for each connection.
    Tls,
    /// Over TLS; connections resume earlier sessions.
    Resumed,
    /// By HTTP/2 over TLS.
    Http2 {
        /// Streams of a connection at a time.
        streams: u32,
    },
}

impl Protocol {
    /// The options of encrypted connections.
    pub(crate) fn tls(self) -> Option<Tls> {
        self.tls_to(identity::NAME)
    }

    /// The same for a server of that name.
    pub(crate) fn tls_to(self, name: &str) -> Option<Tls> {
        (self != Self::Clear).then(|| Tls {
            resumes: self == Self::Resumed,
            versions: Versions::Only13,
            suites: Some(SUITE.to_owned()),
            groups: Some(GROUP.to_owned()),
            ..Tls::to(name)
        })
    }

    /// The same as options of the generator.
    pub(crate) fn options(self, name: &str) -> Vec<String> {
        let words = match self {
            Self::Clear => return Vec::new(),
            Self::Tls => "--no-resume".to_owned(),
            Self::Resumed => String::new(),
            Self::Http2 { streams } => format!("--no-resume --http2 --streams {streams}"),
        };
        let always = format!("--tls 1.3 --ciphers {SUITE} --groups {GROUP} --sni {name}");
        always.split(' ').chain(words.split_whitespace()).map(str::to_owned).collect()
    }
}

/// The browsers' first choice.
const SUITE: &str = "TLS_AES_128_GCM_SHA256";
/// Supported by every server.
const GROUP: &str = "X25519";

/// More requests than one process can serve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    /// The script to run.
    pub(crate) script: &'static Script,
    /// How many requests there are.
    pub(crate) requests: u32,
    /// The number of requests per second.
    pub(crate) per_second: u32,
    /// The time that the process takes for one.
    pub(crate) service: Duration,
}

impl Queue {
    /// When the request of that number comes, counted from the first.
    pub(crate) fn due(&self, number: u32) -> Duration {
        Duration::from_secs(number.into()) / self.per_second
    }

    /// The most that a share of the requests takes, in microseconds, if they only wait for earlier ones.
    pub(crate) fn by_queueing_us(&self, share: f64) -> u64 {
        let takes = |number| (self.service * (number + 1)).saturating_sub(self.due(number)).max(self.service);
        let latencies_us: Vec<u64> = (0..self.requests).map(|number| takes(number).as_micros() as u64).collect();
        percentile(&latencies_us, share)
    }
}

/// Scripts in too little memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryPressure {
    /// The scripts to run, in turn.
    pub(crate) scripts: &'static [&'static Script],
    /// The part of the path after their names.
    pub(crate) path_info: &'static str,
    /// The number of clients.
    pub(crate) clients: u32,
    /// The memory of server and scripts together, in bytes.
    pub(crate) memory: u64,
    /// Requests for the small file.
    pub(crate) files_per_second: u32,
}

/// Requests that children pass on, and the connections that this takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reuse {
    /// How many children the server has.
    pub(crate) children: u32,
    /// How many clients there are at a time.
    pub(crate) clients: u32,
    /// Requests after which a client closes its connection and opens another one, which any child may accept.
    pub(crate) per_connection: u32,
    /// The number of requests in all.
    pub(crate) requests: u32,
}

/// Requests that may be repeated, while one origin after the other fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// How many connections share the rate.
    pub(crate) connections: u32,
    /// Requests per second in all.
    pub(crate) per_second: u32,
    /// What happens to the origins.
    pub(crate) fault: Fault,
}

/// What happens to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is killed, with the requests that it has, and started again.
    Killed,
    /// It stands still for a while.
    Halted,
}

/// The connections of each kind in a crowd.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MixedConnections {
    /// Kept alive after one request.
    pub(crate) idle: u32,
    /// Reading a file of 1 MB slowly.
    pub(crate) slow: u32,
    /// Answered with `Connection: close` and not closed by the client.
    pub(crate) lingering: u32,
    /// Later requests, each on a connection of its own.
    pub(crate) fresh: u32,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Workload {
    /// The name on the command line.
    pub(crate) id: &'static str,
    /// One line for people.
    pub(crate) title: &'static str,
    /// The load.
    pub(crate) shape: LoadShape,
    /// The subjects.
    pub(crate) entries: &'static [Entry],
    /// The ratio column "× peer" compares with the best of these.
    pub(crate) peers: &'static [Entry],
}

impl Workload {
    /// What the numbers count.
    pub(crate) fn noun(&self) -> &'static str {
        match self.shape {
            LoadShape::Many { noun, .. } => noun,
            _ => "connections",
        }
    }

    /// The numbers of connections, or of what else there is many of, measured one after the other.
    pub(crate) fn connections(&self) -> &[u32] {
        match &self.shape {
            LoadShape::Load { connections, .. } | LoadShape::Script { connections, .. } => connections,
            LoadShape::Many { sizes, .. } => sizes,
            LoadShape::Idle { connections, .. } => std::slice::from_ref(connections),
            LoadShape::Children { count, .. } => std::slice::from_ref(count),
            LoadShape::Rate { connections, .. } => std::slice::from_ref(connections),
            LoadShape::MixedConnections(crowd) => std::slice::from_ref(&crowd.idle),
            LoadShape::MemoryPressure(memory_pressure) => std::slice::from_ref(&memory_pressure.clients),
            LoadShape::Queue(queue) => std::slice::from_ref(&queue.requests),
            LoadShape::Reuse(reuse) => std::slice::from_ref(&reuse.clients),
            LoadShape::Faults(faults) => std::slice::from_ref(&faults.connections),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_when_requests_come_too_fast() {
        let script = &crate::machine::script::NAP;
        let queue = Queue { script, requests: 100, per_second: 60, service: Duration::from_millis(50) };
        // The last of 100 is served after five seconds, and came after 99 sixtieths of a second.
        assert_eq!(queue.by_queueing_us(1.0), 5_000_000 - 1_650_000);
        assert_eq!(Queue { per_second: 10, ..queue }.by_queueing_us(1.0), 50_000);
    }

    #[test]
    fn documents_have_their_length() {
        assert_eq!(SMALL_FILE.len(), 31);
        for document in DOCUMENTS {
            assert_eq!(document.content().len(), document.length);
        }
    }
}
