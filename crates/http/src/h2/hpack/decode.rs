//! Reads field blocks.

use super::form::{self, Broken, TABLE_SIZE};
use super::huffman;
use super::table::{STATIC, STATIC_LEN, Table};

/// The most continuation bytes of a number: it is then less than 2^29.
const CONTINUATIONS: u32 = 4;

/// The largest buffers of strings to keep from one block to the next, in bytes.
const KEPT: usize = 4096;

/// The decoder of a connection: the table of fields that the client refers to. Beside each of them it keeps a note of its user, so
/// that nothing has to be found out twice about a field that comes again. A note about a field outside the table is lost.
#[derive(Debug)]
pub struct Decoder<N = ()> {
    table: Table<N>,
    most: usize,
    changes: u64,
    /// The name and the value that are in Huffman code; their first bytes.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl<N: Copy + Default> Decoder<N> {
    /// A decoder with an empty table. `most`: the size of the dynamic table that we have announced
    /// (SETTINGS_HEADER_TABLE_SIZE), in bytes, up to 2^28.
    ///
    /// If it is less than 4096, the client must know it before its first request: until our settings have arrived, it
    /// uses 4096 bytes. It asks for more than that with a size update.
    #[must_use]
    pub fn new(most: usize) -> Decoder<N> {
        let most = most.min(1 << 28);
        Decoder { table: Table::new(most.min(TABLE_SIZE)), most, changes: 0, name: Vec::new(), value: Vec::new() }
    }

    /// Decodes a whole field block. `field` gets each field's name and value, in order, and the note about it, which it may change:
    /// the default, unless it has seen this field of the table before.
    ///
    /// It gets them even when it needs no more of them, because the rest of the block changes the table too. A byte of
    /// the block can be a field as large as the table: the caller counts what it keeps.
    ///
    /// # Errors
    /// The block is malformed: the connection must end. `field` may have got some of its fields.
    pub fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8], &mut N)) -> Result<(), Broken> {
        let mut input = Input(block);
        let mut resizes = 0;
        while let [first, ..] = *input.0 {
            if first >= form::INDEXED.0 {
                let index = input.number(form::INDEXED.1)?;
                match index.checked_sub(STATIC_LEN + 1) {
                    Some(age) => {
                        let (name, value, note) = self.table.get_noted(age).ok_or(Broken)?;
                        field(name, value, note);
                    }
                    None => {
                        let (name, value) = index.checked_sub(1).map(|at| STATIC[at]).ok_or(Broken)?;
                        field(name, value, &mut N::default());
                    }
                }
            } else if first >= form::ADDED.0 {
                self.added(&mut input, &mut field)?;
            } else if first >= form::RESIZE.0 {
                // Only at the beginning of a block, and at most two: the smallest size meanwhile, and the last one (RFC
                // 7541 section 4.2).
                resizes += 1;
                if resizes > 2 {
                    return Err(Broken);
                }
                self.resize(input.number(form::RESIZE.1)?)?;
                continue;
            } else {
                self.plain(&mut input, &mut field)?;
            }
            resizes = 2;
        }
        for buffer in [&mut self.name, &mut self.value] {
            if buffer.len() > KEPT {
                *buffer = Vec::new();
            }
        }
        Ok(())
    }

    /// How often the dynamic table has changed (an entry was added or it was resized): equal blocks mean equal fields
    /// as long as this number stays the same and decoding them did not change it.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Section 6.3.
    fn resize(&mut self, size: usize) -> Result<(), Broken> {
        if size > self.most {
            return Err(Broken);
        }
        self.table.resize(size);
        self.changes += 1;
        Ok(())
    }

    /// Section 6.2.1.
    fn added(&mut self, input: &mut Input<'_>, field: &mut impl FnMut(&[u8], &[u8], &mut N)) -> Result<(), Broken> {
        let index = input.number(form::ADDED.1)?;
        let name = match index.checked_sub(STATIC_LEN + 1) {
            // Its entry may have to go for the new one.
            Some(age) => {
                let (name, _) = self.table.get(age).ok_or(Broken)?;
                if self.name.len() < name.len() {
                    self.name.resize(name.len(), 0);
                }
                let copy = &mut self.name[..name.len()];
                copy.copy_from_slice(name);
                copy
            }
            None if index == 0 => input.string(&mut self.name)?,
            None => STATIC[index - 1].0,
        };
        let value = input.string(&mut self.value)?;
        let mut note = N::default();
        field(name, value, &mut note);
        self.table.insert(name, value, note);
        self.changes += 1;
        Ok(())
    }

    /// Sections 6.2.2 and 6.2.3: the difference matters to proxies, which would have to keep it.
    fn plain(&mut self, input: &mut Input<'_>, field: &mut impl FnMut(&[u8], &[u8], &mut N)) -> Result<(), Broken> {
        let index = input.number(form::PLAIN.1)?;
        let name = match index.checked_sub(STATIC_LEN + 1) {
            Some(age) => self.table.get(age).ok_or(Broken)?.0,
            None if index == 0 => input.string(&mut self.name)?,
            None => STATIC[index - 1].0,
        };
        let value = input.string(&mut self.value)?;
        field(name, value, &mut N::default());
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table<N> {
        &self.table
    }
}

/// The rest of a block.
struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    /// Reads a number that begins in the low `bits` of the next byte (RFC 7541 section 5.1).
    #[inline]
    fn number(&mut self, bits: u32) -> Result<usize, Broken> {
        let (first, rest) = self.0.split_first().ok_or(Broken)?;
        self.0 = rest;
        let most = (1 << bits) - 1;
        let number = usize::from(first & most);
        if number < usize::from(most) { Ok(number) } else { self.continued(number) }
    }

    #[cold]
    fn continued(&mut self, mut number: usize) -> Result<usize, Broken> {
        for place in 0..CONTINUATIONS {
            let (byte, rest) = self.0.split_first().ok_or(Broken)?;
            self.0 = rest;
            number += usize::from(byte & 0x7f) << (place * 7);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Broken)
    }

    /// Reads a string (RFC 7541 section 5.2); `buffer` is for a decoded one.
    #[inline]
    fn string<'s>(&mut self, buffer: &'s mut Vec<u8>) -> Result<&'s [u8], Broken>
    where
        'b: 's,
    {
        let is_coded = self.0.first().is_some_and(|first| first & form::HUFFMAN.0 != 0);
        let len = self.number(form::HUFFMAN.1)?;
        let (string, rest) = self.0.split_at_checked(len).ok_or(Broken)?;
        self.0 = rest;
        if !is_coded {
            return Ok(string);
        }
        let len = huffman::decode(string, buffer)?;
        Ok(&buffer[..len])
    }
}
