//! The static table, and the dynamic table that both ends of a connection keep equal (RFC 7541 sections 2.3 and 4).

use std::collections::VecDeque;

/// What an entry counts beside its name and value, in bytes (RFC 7541 section 4.1).
pub(super) const OVERHEAD: usize = 32;

/// The number of static fields; higher indices are those of the dynamic table, newest first.
pub(super) const STATIC_LEN: usize = STATIC.len();

/// The first memory of a table, in bytes.
const FIRST_ROOM: usize = 512;

/// Recent fields. The oldest ones go when new ones need their place.
///
/// Names and values lie one after another in `bytes`, in the order of their insertion, so that each is one slice. The
/// bytes of entries that are gone stay in front until they are as many as those in use; then the others move there.
///
/// Beside each entry there is a note: what its reader has found out about it.
#[derive(Debug)]
pub(super) struct Table<N = ()> {
    bytes: Vec<u8>,
    /// The position of the first of `bytes`. Positions count all bytes ever inserted, modulo 2^32.
    base: u32,
    /// The oldest entry first.
    entries: VecDeque<Entry<N>>,
    /// The sum of the sizes of the entries, in bytes.
    size: usize,
    limit: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry<N> {
    /// The position of its name; the value follows.
    start: u32,
    name: u32,
    value: u32,
    note: N,
}

impl<N> Table<N> {
    /// An empty table of at most `limit` bytes, itself less than 2^30.
    pub(super) const fn new(limit: usize) -> Table<N> {
        Table { bytes: Vec::new(), base: 0, entries: VecDeque::new(), size: 0, limit }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Name and value of an entry; the newest has age 0.
    #[inline]
    pub(super) fn get(&self, age: usize) -> Option<(&[u8], &[u8])> {
        let at = self.entries.len().checked_sub(age)?.checked_sub(1)?;
        self.entries.get(at)?.of(&self.bytes, self.base)
    }

    /// As [`Table::get`], with the note about the entry.
    #[inline]
    pub(super) fn get_noted(&mut self, age: usize) -> Option<(&[u8], &[u8], &mut N)> {
        let at = self.entries.len().checked_sub(age)?.checked_sub(1)?;
        let entry = self.entries.get_mut(at)?;
        let (name, value) = entry.of(&self.bytes, self.base)?;
        Some((name, value, &mut entry.note))
    }

    /// As [`Table::get`], of an entry that was added at this [`Table::position`] and has not gone since.
    #[inline(always)]
    pub(super) fn get_at(&self, position: u32, name: usize, value: usize) -> Option<(&[u8], &[u8])> {
        let rest = self.bytes.get(position.wrapping_sub(self.base) as usize..)?;
        rest.get(..name + value)?.split_at_checked(name)
    }

    /// The position of the next entry.
    pub(super) fn position(&self) -> u32 {
        self.base.wrapping_add(self.bytes.len() as u32)
    }

    /// Sets the limit; the oldest entries go until the others fit in it.
    pub(super) fn resize(&mut self, limit: usize) {
        self.limit = limit;
        self.evict(limit);
    }

    /// Adds an entry and a note about it; false if it is larger than the table, which is then empty (RFC 7541 section 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], note: N) -> bool {
        let len = name.len() + value.len();
        let Some(rest) = self.limit.checked_sub(len + OVERHEAD) else {
            self.evict(0);
            return false;
        };
        self.evict(rest);
        self.make_room(len);
        let start = self.position();
        self.entries.push_back(Entry { start, name: name.len() as u32, value: value.len() as u32, note });
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.size += len + OVERHEAD;
        debug_assert!(self.size <= self.limit, "the fuzz target relies on this");
        true
    }

    fn evict(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.name as usize + entry.value as usize + OVERHEAD;
        }
    }

    /// Makes room for `len` bytes, which together with those in use are no more than the limit. The memory then stays
    /// below twice the limit, and every byte moves once on average.
    fn make_room(&mut self, len: usize) {
        let front =
            self.entries.front().map_or(self.bytes.len(), |oldest| oldest.start.wrapping_sub(self.base) as usize);
        let full = |bytes: &Vec<u8>| bytes.len() + len > bytes.capacity();
        if full(&self.bytes) && front * 2 >= self.bytes.len() {
            self.bytes.drain(..front);
            self.base = self.base.wrapping_add(front as u32);
        }
        if full(&self.bytes) {
            let needed = self.bytes.len() + len;
            let room = (self.bytes.capacity() * 2).max(FIRST_ROOM).min(self.limit * 2).max(needed);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..self.len()).filter_map(|age| self.get(age)).map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

impl<N> Entry<N> {
    /// Its name and value, in the bytes of a table with this base.
    #[inline]
    fn of<'b>(&self, bytes: &'b [u8], base: u32) -> Option<(&'b [u8], &'b [u8])> {
        let rest = bytes.get(self.start.wrapping_sub(base) as usize..)?;
        rest.get(..self.name as usize + self.value as usize)?.split_at_checked(self.name as usize)
    }
}

/// The static table (RFC 7541 appendix A). Its first index is 1.
pub(super) static STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_oldest_first_and_memory_stays_bounded() {
        let mut table = Table::new(200);
        for number in 0..5000u32 {
            let value = number.to_string().repeat(1 + number as usize % 6);
            assert!(table.insert(b"name", value.as_bytes(), ()));
            assert_eq!(table.get(0), Some((&b"name"[..], value.as_bytes())));
            let sum: usize = table.entries().iter().map(|(name, value)| name.len() + value.len() + OVERHEAD).sum();
            assert!(sum == table.size && sum <= 200 && table.get(table.len()).is_none());
            assert!(table.bytes.capacity() <= FIRST_ROOM, "{}", table.bytes.capacity());
        }
        table.resize(0);
        assert!((table.len(), table.size) == (0, 0) && !table.insert(b"", b"", ()));
        table.resize(32);
        assert!(table.insert(b"", b"", ()) && table.get(0) == Some((b"", b"")) && table.get(1).is_none());
        assert!(!table.insert(b"", b"a", ()) && table.len() == 0);
    }

    #[test]
    fn a_full_table_takes_less_than_twice_its_size() {
        let mut table = Table::new(3000);
        for number in 0..2000usize {
            assert!(table.insert(b"n", &vec![b'v'; number * 37 % 2968], ()));
            assert!(table.bytes.capacity() <= 2 * 3000);
        }
    }

    #[test]
    fn positions_may_wrap() {
        let mut table = Table::new(200);
        table.base = u32::MAX - 50;
        for number in 0..100u32 {
            let value = number.to_string();
            table.insert(b"number", value.as_bytes(), ());
            assert_eq!(table.get(0), Some((&b"number"[..], value.as_bytes())));
            if number > 0 {
                assert_eq!(table.get(1), Some((&b"number"[..], (number - 1).to_string().as_bytes())));
            }
        }
    }
}
