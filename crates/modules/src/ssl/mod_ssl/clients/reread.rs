//! The memory for revocation lists, and those that a running server has read again for it.

use std::io;
use std::sync::Arc;

use server::VirtualHost;

use super::lists::{read, to_part};
use super::requirements::Clients;
use crate::ssl::mod_ssl::published::{Part, Published};
use crate::ssl::mod_ssl::values::CheckDepth;

/// The memory for lists that replace the initial ones; `None`: no virtual host has any.
pub(in super::super) fn memory<'c>(
    count: usize,
    clients: impl Iterator<Item = &'c Clients>,
) -> io::Result<Option<Arc<Published>>> {
    let mut parts = vec![Part::default(); count];
    let mut has_any = false;
    for clients in clients.filter(|clients| clients.judge.check.depth != CheckDepth::None) {
        parts[clients.host()] = to_part(&clients.judge.lists().all);
        has_any = true;
    }
    has_any.then(|| Published::new(&parts).map(Arc::new)).transpose()
}

/// Reads the lists of the virtual hosts again, each given with its requirements. `None`: there are none.
pub(in super::super) fn read_again<'c>(
    count: usize,
    hosts: impl Iterator<Item = (&'c VirtualHost, &'c Clients)>,
) -> Result<Option<Reread>, String> {
    let mut reread: Option<Reread> = None;
    for (host, clients) in hosts {
        let Some(published) = clients.followed().filter(|_| clients.judge.check.depth != CheckDepth::None) else {
            continue;
        };
        let lists = read(host, &mut Vec::new())?;
        let reread = reread.get_or_insert_with(|| Reread {
            published: published.clone(),
            parts: vec![Part::default(); count],
            count: 0,
        });
        reread.count += lists.len();
        reread.parts[host.index] = to_part(&lists);
    }
    Ok(reread)
}

/// Lists that were read again, and are not in effect yet.
pub(in super::super) struct Reread {
    published: Arc<Published>,
    parts: Vec<Part>,
    pub(in super::super) count: usize,
}

impl Reread {
    pub(in super::super) fn publish(&self) -> Result<(), String> {
        self.published.publish(&self.parts).map(|_| ())
    }
}
