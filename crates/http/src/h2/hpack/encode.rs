//! Writes field blocks.
//!
//! Fields that repeat from response to response enter the client's table and cost one or two bytes from then on. To
//! find them again, [`Encoder::slots`] maps a hash of name and value to the number of the entry; slots of entries that
//! have left the table are simply free. A client that chooses values for which many hashes are equal only makes its own
//! responses longer: a field that finds no free slot is written as it is.

mod hash;
mod known;

use self::hash::is_same;
use self::known::{How, Known};
use super::form::{self, TABLE_SIZE};
use super::huffman;
use super::table::{OVERHEAD, STATIC, STATIC_LEN, Table};

/// The longest values that enter the table, in bytes. Longer ones hardly repeat, and take the place of many others.
const VALUE_MAX: usize = 512;

/// The number of [`Encoder::slots`] is 2 to this power: twice as many as there are fields of usual length in a table.
const SLOT_BITS: u32 = 7;
/// How many slots may hold a field, from the one that its hash says.
const PROBES: usize = 4;

/// The static index of `:status 200`, and of the name.
const STATUS: usize = 8;

/// The encoder of a connection: the table of fields that the client remembers.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// The number of the newest entry, modulo 2^32. The first is number 1.
    newest: u32,
    /// Allocated with the first entry.
    slots: Option<Box<Slots>>,
    /// The smallest limit since the last block, if the client awaits to be told of the limit.
    owed: Option<usize>,
}

type Slots = [Slot; 1 << SLOT_BITS];

/// Where a field may be in the table.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The number of the entry.
    number: u32,
    /// Bits of its hash.
    tag: u32,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder::new()
    }
}

impl Encoder {
    /// An encoder for a client that has not sent its settings yet.
    #[must_use]
    pub const fn new() -> Encoder {
        Encoder { table: Table::new(TABLE_SIZE), newest: 0, slots: None, owed: None }
    }

    /// Takes the client's SETTINGS_HEADER_TABLE_SIZE, of which we use at most 4096 bytes. The next block begins with
    /// the size updates that RFC 7541 section 4.2 asks for.
    pub fn limit(&mut self, bytes: u32) {
        let limit = TABLE_SIZE.min(bytes as usize);
        if limit != self.table.limit() {
            self.owed = Some(self.owed.map_or(limit, |smallest| smallest.min(limit)));
            self.table.resize(limit);
        }
    }

    /// Begins a block without a status, such as trailers: appends the size updates that are owed.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.owed.take() {
            if smallest < self.table.limit() {
                number(smallest, form::RESIZE, out);
            }
            number(self.table.limit(), form::RESIZE, out);
        }
    }

    /// Begins a block of a response, see [`Encoder::begin`], with its `:status`, which has three digits.
    pub fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        self.begin(out);
        let index = match status {
            200 => STATUS,
            204 => STATUS + 1,
            206 => STATUS + 2,
            304 => STATUS + 3,
            400 => STATUS + 4,
            404 => STATUS + 5,
            500 => STATUS + 6,
            _ => {
                let digits = [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
                return self.field(STATIC[STATUS - 1].0, &digits, out);
            }
        };
        number(index, form::INDEXED, out);
    }

    /// Appends a field. `name` may have capitals: it is written in lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let mut buffer = [0; hash::NAME_MAX];
        let Some((name, name_hash)) = hash::lower(name, &mut buffer) else {
            return long_name(name, value, out);
        };
        if value.len() > VALUE_MAX {
            return literal(name, Known::find(name, name_hash), false, value, out);
        }
        let hash = hash::of(name_hash, value);
        match self.find(hash, name, value) {
            Some(age) => number(STATIC_LEN + 1 + age, form::INDEXED, out),
            None => self.absent(name, name_hash, value, hash, out),
        }
    }

    /// The age of the field's entry in the table.
    #[inline]
    fn find(&self, hash: u64, name: &[u8], value: &[u8]) -> Option<usize> {
        let slots = self.slots.as_ref()?;
        probes(hash).map(|at| slots[at]).filter(|slot| slot.tag == tag(hash)).find_map(|slot| {
            let age = self.newest.wrapping_sub(slot.number) as usize;
            let (its_name, its_value) = self.table.get(age)?;
            (is_same(name, its_name) && is_same(value, its_value)).then_some(age)
        })
    }

    /// Appends a field that is not in the table, and adds it if it is of the right kind.
    #[inline(never)]
    fn absent(&mut self, name: &[u8], name_hash: u64, value: &[u8], hash: u64, out: &mut Vec<u8>) {
        let known = Known::find(name, name_hash);
        if let Some(known) = known
            && known.is_whole(value)
        {
            return number(known.index, form::INDEXED, out);
        }
        let size = name.len() + value.len() + OVERHEAD;
        let adds = known.is_none_or(|known| known.how == How::Add) && size <= self.table.limit() / 4;
        let newest = self.newest.wrapping_add(1);
        let slot = if adds { self.free_slot(hash) } else { None };
        literal(name, known, slot.is_some(), value, out);
        if let Some(slot) = slot {
            *slot = Slot { number: newest, tag: tag(hash) };
            self.table.insert(name, value);
            self.newest = newest;
        }
    }

    /// A slot for the hash whose entry has left the table.
    fn free_slot(&mut self, hash: u64) -> Option<&mut Slot> {
        let slots = self.slots.get_or_insert_with(|| Box::new([Slot::default(); 1 << SLOT_BITS]));
        let at = probes(hash).find(|&at| self.newest.wrapping_sub(slots[at].number) as usize >= self.table.len())?;
        Some(&mut slots[at])
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}

/// The slots in which a field with this hash may be.
#[inline]
fn probes(hash: u64) -> impl Iterator<Item = usize> {
    // The highest bits of the product that the hash is depend on all bytes.
    let first = (hash >> (64 - SLOT_BITS)) as usize;
    (0..PROBES).map(move |step| (first + step) & ((1 << SLOT_BITS) - 1))
}

#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 24) as u32
}

/// Appends a field that is in no table as a whole.
fn literal(name: &[u8], known: Option<Known>, adds: bool, value: &[u8], out: &mut Vec<u8>) {
    let how = known.map_or(How::Add, |known| known.how);
    let form = match how {
        How::Never => form::NEVER,
        _ if adds => form::ADDED,
        _ => form::PLAIN,
    };
    // What repeats is worth its compression; what does not costs more time than it saves.
    let write = if adds { shortest } else { plain };
    match known {
        Some(known) if known.index != 0 => number(known.index, form, out),
        _ => {
            number(0, form, out);
            write(name, out);
        }
    }
    write(value, out);
}

/// Appends a field whose name is too long for [`hash::lower`], and for a table.
#[cold]
fn long_name(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    number(0, form::PLAIN, out);
    number(name.len(), (0, form::HUFFMAN.1), out);
    out.extend(name.iter().map(u8::to_ascii_lowercase));
    plain(value, out);
}

/// Appends a string as it is (RFC 7541 section 5.2).
fn plain(text: &[u8], out: &mut Vec<u8>) {
    number(text.len(), (0, form::HUFFMAN.1), out);
    out.extend_from_slice(text);
}

/// Appends a string in Huffman code, if that makes it shorter.
fn shortest(text: &[u8], out: &mut Vec<u8>) {
    let len = huffman::encoded_len(text);
    if len >= text.len() {
        return plain(text, out);
    }
    number(len, form::HUFFMAN, out);
    huffman::encode(text, out);
}

/// Appends a number (RFC 7541 section 5.1): in the low bits of a byte whose others are `form`'s, if it fits there.
#[inline]
fn number(number: usize, (high, bits): (u8, u32), out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if number < most {
        out.push(high | number as u8);
    } else {
        out.push(high | most as u8);
        continued(number - most, out);
    }
}

#[cold]
fn continued(mut rest: usize, out: &mut Vec<u8>) {
    while rest >= 0x80 {
        out.push(0x80 | rest as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}
