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
    /// With names as they were given, which are found faster than lower case.
    table: Table,
    /// The number of the newest entry. The first is number 1.
    newest: u64,
    /// Allocated with the first entry.
    slots: Option<Box<Slots>>,
    /// The smallest limit since the last block, if the client awaits to be told of the limit.
    owed: Option<usize>,
}

type Slots = [Slot; 1 << SLOT_BITS];

/// Where a field may be in the table.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The number of the entry; 0 for none.
    number: u64,
    /// Its [`Table::position`].
    position: u32,
    /// Its [`lengths`].
    lengths: u32,
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

    /// Forgets a block that is not sent, and with it all fields: the client has not seen what it has added to the table.
    pub fn forget(&mut self) {
        let limit = self.table.limit();
        self.table.resize(0);
        self.table.resize(limit);
        self.owed = Some(0);
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
        if name.len() > hash::NAME_MAX || value.len() > VALUE_MAX {
            return too_long(name, value, out);
        }
        let hash = hash::of_field(name, value);
        // Usually it is in the first place. The others are looked at elsewhere, so that this remains short.
        match self.find(first_slot(hash), name, value) {
            Some(age) => number(STATIC_LEN + 1 + age, form::INDEXED, out),
            None => self.elsewhere(name, value, hash, out),
        }
    }

    /// The age of the field's entry in the table, if the slot says so.
    #[inline(always)]
    fn find(&self, slot: usize, name: &[u8], value: &[u8]) -> Option<usize> {
        let slot = &self.slots.as_ref()?[slot];
        let age = (self.newest - slot.number) as usize;
        if slot.lengths != lengths(name, value) || age >= self.table.len() {
            return None;
        }
        let (its_name, its_value) = self.table.get_at(slot.position, name.len(), value.len())?;
        (is_same(name, its_name) && is_same(value, its_value)).then_some(age)
    }

    /// Appends a field that the first slot does not lead to. If it is not in the table, and of the right kind, adds it.
    #[inline(never)]
    fn elsewhere(&mut self, name: &[u8], value: &[u8], hash: u64, out: &mut Vec<u8>) {
        let mut buffer = [0; hash::NAME_MAX];
        let lower = hash::lower(name, &mut buffer);
        let known = Known::find(lower);
        let size = name.len() + value.len() + OVERHEAD;
        let adds = known.is_none_or(|known| known.how == How::Add) && size <= self.table.limit() / 4;
        if adds && let Some(age) = slots(hash).skip(1).find_map(|slot| self.find(slot, name, value)) {
            return number(STATIC_LEN + 1 + age, form::INDEXED, out);
        }
        if let Some(known) = known
            && known.is_whole(value)
        {
            return number(known.index, form::INDEXED, out);
        }
        let position = self.table.position();
        let number = self.newest + 1;
        let slot = if adds { self.free_slot(hash) } else { None };
        literal(lower, known, slot.is_some(), value, out);
        if let Some(slot) = slot {
            *slot = Slot { number, position, lengths: lengths(name, value) };
            self.newest = number;
            self.table.insert(name, value, ());
        }
    }

    /// A slot for the hash whose entry has left the table.
    fn free_slot(&mut self, hash: u64) -> Option<&mut Slot> {
        let all = self.slots.get_or_insert_with(|| Box::new([Slot::default(); 1 << SLOT_BITS]));
        let free = slots(hash).find(|&slot| (self.newest - all[slot].number) as usize >= self.table.len())?;
        Some(&mut all[free])
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}

/// The slots in which a field with this hash may be.
#[inline]
fn slots(hash: u64) -> impl Iterator<Item = usize> {
    (0..PROBES).map(move |step| (first_slot(hash) + step) % (1 << SLOT_BITS))
}

#[inline]
fn first_slot(hash: u64) -> usize {
    (hash >> (64 - SLOT_BITS)) as usize
}

/// The lengths of name and value, neither of which is more than [`VALUE_MAX`].
#[inline(always)]
fn lengths(name: &[u8], value: &[u8]) -> u32 {
    (name.len() << 16 | value.len()) as u32
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

/// Appends a field that is too long for the table.
#[cold]
fn too_long(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let lower = name.to_ascii_lowercase();
    literal(&lower, Known::find(&lower), false, value, out);
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
