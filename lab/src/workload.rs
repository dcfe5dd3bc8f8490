//! What is measured: the table of workloads.

use serde::{Deserialize, Serialize};

use crate::subject::PREFORK_CHILDREN;

/// The smallest document: what remains when a file costs nothing is the server.
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

const SMALL: Document = Document { name: "small.txt", length: SMALL_FILE.len() };
const MEDIUM: Document = Document { name: "16k.txt", length: 16 * 1024 };
const LARGE: Document = Document { name: "1m.txt", length: 1024 * 1024 };

/// Every document, in the order of size.
pub(crate) static DOCUMENTS: [&Document; 3] = [&SMALL, &MEDIUM, &LARGE];

/// With which configuration a subject runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Profile {
    /// The least that serves the documents, no access log.
    Bare,
    /// Debian's default configuration of Apache: sections, modules, access log.
    Debian,
}

/// One subject under one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The subject's identifier.
    pub(crate) subject: &'static str,
    /// Its configuration.
    pub(crate) profile: Profile,
}

/// What is done to a server.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Requests as fast as they are answered, for each number of connections.
    Load {
        /// The file requested.
        document: &'static Document,
        /// Numbers of connections, each measured.
        connections: &'static [u32],
        /// A connection for each request.
        close: bool,
    },
    /// Connections that made one request and then only stay.
    Idle {
        /// How many.
        connections: u32,
    },
    /// Server processes that wait for work.
    Children {
        /// How many.
        count: u32,
    },
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Workload {
    /// The name on the command line.
    pub(crate) id: &'static str,
    /// One line for people.
    pub(crate) title: &'static str,
    /// What is done.
    pub(crate) kind: Kind,
    /// To whom.
    pub(crate) entries: &'static [Entry],
    /// The best of these is the ratio column "× peer".
    pub(crate) peers: &'static [Entry],
}

impl Workload {
    /// The numbers of connections that are measured one after the other.
    pub(crate) fn connections(&self) -> &[u32] {
        match &self.kind {
            Kind::Load { connections, .. } => connections,
            Kind::Idle { connections } => std::slice::from_ref(connections),
            Kind::Children { count } => std::slice::from_ref(count),
        }
    }
}

/// The workload of that name.
pub(crate) fn find(id: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.id == id)
}

/// A subject under the bare configuration.
pub(crate) const fn bare(subject: &'static str) -> Entry {
    Entry { subject, profile: Profile::Bare }
}

/// A subject under Debian's configuration.
pub(crate) const fn debian(subject: &'static str) -> Entry {
    Entry { subject, profile: Profile::Debian }
}

/// Everyone who answers small files; the floor first.
const EVERYONE: &[Entry] = &[
    bare("floor"),
    bare("tsubame-percore"),
    bare("tsubame-prefork"),
    bare("tsubame-worker"),
    bare("tsubame-event"),
    bare("nginx"),
    bare("nginx-ofc"),
    bare("lighttpd"),
    bare("h2o"),
    bare("caddy"),
    bare("apache-prefork"),
    bare("apache-worker"),
    bare("apache-event"),
];

/// Everyone who reads files, which the floor does not.
const FILE_SERVERS: &[Entry] = &[
    bare("tsubame-percore"),
    bare("tsubame-prefork"),
    bare("nginx"),
    bare("nginx-ofc"),
    bare("lighttpd"),
    bare("h2o"),
    bare("caddy"),
    bare("apache-event"),
];

/// The other event-driven servers: what "the best peer" means for files.
pub(crate) const FILE_PEERS: &[Entry] =
    &[bare("nginx"), bare("nginx-ofc"), bare("lighttpd"), bare("h2o"), bare("caddy"), bare("apache-event")];

/// Servers that hold many connections in few processes.
const EVENT_DRIVEN: &[Entry] =
    &[bare("tsubame-percore"), bare("nginx"), bare("lighttpd"), bare("h2o"), bare("caddy"), bare("apache-event")];

/// The same and the floor, which tells what so many connections cost kernel and load generator.
const FLOOR_AND_EVENT_DRIVEN: &[Entry] = &[
    bare("floor"),
    bare("tsubame-percore"),
    bare("nginx"),
    bare("lighttpd"),
    bare("h2o"),
    bare("caddy"),
    bare("apache-event"),
];

/// The workloads, in the order in which they are run and reported.
pub(crate) static WORKLOADS: [Workload; 8] = [
    Workload {
        id: "keepalive",
        title: "31-byte file, 100 keep-alive connections",
        kind: Kind::Load { document: &SMALL, connections: &[100], close: false },
        entries: EVERYONE,
        peers: &[bare("lighttpd"), bare("h2o")],
    },
    Workload {
        id: "close",
        title: "31-byte file, a connection for each request, 100 at a time",
        kind: Kind::Load { document: &SMALL, connections: &[100], close: true },
        entries: EVERYONE,
        peers: &[bare("h2o")],
    },
    Workload {
        id: "file16k",
        title: "16 KB file, 100 keep-alive connections",
        kind: Kind::Load { document: &MEDIUM, connections: &[100], close: false },
        entries: FILE_SERVERS,
        peers: FILE_PEERS,
    },
    Workload {
        id: "file1m",
        title: "1 MB file, 32 keep-alive connections",
        kind: Kind::Load { document: &LARGE, connections: &[32], close: false },
        entries: FILE_SERVERS,
        peers: FILE_PEERS,
    },
    Workload {
        id: "debian",
        title: "31-byte file, 100 keep-alive connections, Debian's configuration of Apache against the bare one",
        kind: Kind::Load { document: &SMALL, connections: &[100], close: false },
        entries: &[bare("tsubame-percore"), debian("tsubame-percore"), bare("apache-event"), debian("apache-event")],
        peers: &[bare("tsubame-percore")],
    },
    Workload {
        id: "idle",
        title: "memory of 10 000 idle keep-alive connections",
        kind: Kind::Idle { connections: 10_000 },
        entries: EVENT_DRIVEN,
        peers: &[],
    },
    Workload {
        id: "prefork-memory",
        title: "memory of 256 idle prefork children",
        kind: Kind::Children { count: PREFORK_CHILDREN },
        entries: &[bare("tsubame-prefork"), bare("apache-prefork")],
        peers: &[bare("apache-prefork")],
    },
    Workload {
        id: "sweep",
        title: "31-byte file, 100 to 10 000 keep-alive connections",
        kind: Kind::Load { document: &SMALL, connections: &[100, 1000, 5000, 10_000], close: false },
        entries: FLOOR_AND_EVENT_DRIVEN,
        peers: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_existing_subjects_once() {
        for workload in &WORKLOADS {
            assert_eq!(find(workload.id).map(|found| found.title), Some(workload.title));
            for (index, entry) in workload.entries.iter().enumerate() {
                assert!(crate::subject::find(entry.subject).is_some(), "{entry:?}");
                assert!(!workload.entries[..index].contains(entry), "{entry:?} twice in {}", workload.id);
            }
            for peer in workload.peers {
                assert!(workload.entries.contains(peer), "{peer:?} is not measured in {}", workload.id);
            }
        }
    }

    #[test]
    fn documents_have_their_length() {
        assert_eq!(SMALL_FILE.len(), 31);
        for document in DOCUMENTS {
            assert_eq!(document.content().len(), document.length);
        }
    }
}
