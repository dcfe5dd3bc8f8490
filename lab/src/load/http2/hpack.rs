//! Header compression of HTTP/2 (RFC 7541), for a client that sends the same requests again and again, and needs few
//! fields of their responses. Pure.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::super::response::Malformed;
use super::static_table::{CODE_LENGTHS, STATIC};

/// The default size of a table, in bytes (RFC 9113 section 6.5.2).
pub(super) const TABLE_SIZE: usize = 4096;
/// The overhead of an entry, in bytes (section 4.1).
const ENTRY_OVERHEAD: usize = 32;

/// A field: its name in lower case, and its value.
pub(super) type Field = (Vec<u8>, Vec<u8>);

/// Reads the blocks of a connection, and keeps their table.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The newest first.
    entries: VecDeque<Field>,
    size: usize,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { entries: VecDeque::new(), size: 0, limit: TABLE_SIZE }
    }
}

impl Decoder {
    /// Reads a block, and passes each field to `see`.
    pub(super) fn read(
        &mut self,
        mut block: &[u8],
        mut see: impl FnMut(&Text<'_>, &Text<'_>),
    ) -> Result<(), Malformed> {
        while let Some(first) = block.first().copied() {
            match first {
                0x80.. => {
                    let (name, value) = self.at(integer(&mut block, 7)?)?;
                    see(&Text::plain(name), &Text::plain(value));
                }
                0x20..0x40 => {
                    self.limit = integer(&mut block, 5)?;
                    if self.limit > TABLE_SIZE {
                        return Err(Malformed("its table of fields is larger than allowed"));
                    }
                    self.evict(0);
                }
                _ => {
                    let is_kept = first >= 0x40;
                    let name = match integer(&mut block, if is_kept { 6 } else { 4 })? {
                        0 => Text::read(&mut block)?,
                        index => Text::plain(self.at(index)?.0),
                    };
                    let value = Text::read(&mut block)?;
                    see(&name, &value);
                    if is_kept {
                        let field = (name.decoded()?.into_owned(), value.decoded()?.into_owned());
                        self.keep(field);
                    }
                }
            }
        }
        Ok(())
    }

    fn at(&self, index: usize) -> Result<(&[u8], &[u8]), Malformed> {
        let fixed = index.checked_sub(1).and_then(|at| STATIC.get(at));
        let fixed = fixed.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let own = || self.entries.get(index.checked_sub(STATIC.len() + 1)?);
        fixed
            .or_else(|| own().map(|(name, value)| (&name[..], &value[..])))
            .ok_or(Malformed("it refers to a field that is not there"))
    }

    fn keep(&mut self, field: Field) {
        let size = size(&field);
        self.evict(size);
        if size <= self.limit {
            self.size += size;
            self.entries.push_front(field);
        }
    }

    /// Makes room for this many bytes.
    fn evict(&mut self, room: usize) {
        while self.size + room > self.limit
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= size(&oldest);
        }
    }
}

fn size((name, value): &Field) -> usize {
    name.len() + value.len() + ENTRY_OVERHEAD
}

/// A text as encoded in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'b> {
    bytes: &'b [u8],
    /// Whether it uses the Huffman code.
    is_coded: bool,
}

impl<'b> Text<'b> {
    fn plain(bytes: &'b [u8]) -> Self {
        Self { bytes, is_coded: false }
    }

    fn read(block: &mut &'b [u8]) -> Result<Self, Malformed> {
        let is_coded = block.first().is_some_and(|first| *first >= 0x80);
        let length = integer(block, 7)?;
        let (bytes, rest) = block.split_at_checked(length).ok_or(TRUNCATED)?;
        *block = rest;
        Ok(Self { bytes, is_coded })
    }

    /// The decoded text.
    pub(super) fn decoded(&self) -> Result<Cow<'b, [u8]>, Malformed> {
        if self.is_coded { decode(self.bytes).map(Cow::Owned) } else { Ok(Cow::Borrowed(self.bytes)) }
    }

    /// Whether it equals `text`.
    pub(super) fn is(&self, text: &str) -> bool {
        self.decoded().is_ok_and(|decoded| *decoded == *text.as_bytes())
    }
}

const TRUNCATED: Malformed = Malformed("its fields break off");

/// Reads an integer with this many bits in its first byte (section 5.1).
fn integer(block: &mut &[u8], bits: u32) -> Result<usize, Malformed> {
    let mut next = || block.split_off_first().copied().ok_or(TRUNCATED);
    let most = (1 << bits) - 1;
    let mut value = usize::from(next()?) & most;
    if value < most {
        return Ok(value);
    }
    // Four more bytes exceed any accepted length.
    for shift in [0, 7, 14, 21] {
        let byte = next()?;
        value += usize::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Malformed("a number in its fields is too large"))
}

/// The code is canonical: among codes of one length, those of greater bytes are greater, and follow the shorter ones.
struct Codes {
    /// For each length, the first code, how many there are, and the position of the first in `bytes`.
    lengths: [(u32, u32, u32); 31],
    bytes: [u16; CODE_LENGTHS.len()],
}

static CODES: Codes = codes();

const fn codes() -> Codes {
    let mut codes = Codes { lengths: [(0, 0, 0); 31], bytes: [0; CODE_LENGTHS.len()] };
    let (mut length, mut code, mut place) = (1, 0, 0);
    while length < codes.lengths.len() {
        code <<= 1;
        let (first, from) = (code, place);
        let mut byte = 0;
        while byte < CODE_LENGTHS.len() {
            if CODE_LENGTHS[byte] as usize == length {
                codes.bytes[place as usize] = byte as u16;
                place += 1;
                code += 1;
            }
            byte += 1;
        }
        codes.lengths[length] = (first, code - first, from);
        length += 1;
    }
    codes
}

/// Decodes the Huffman code; the rest at the end is the beginning of a code of ones (section 5.2).
fn decode(coded: &[u8]) -> Result<Vec<u8>, Malformed> {
    const WRONG: Malformed = Malformed("its fields are not in the Huffman code");
    let (mut out, mut code, mut length) = (Vec::with_capacity(coded.len() * 2), 0_u32, 0);
    for byte in coded {
        for at in (0..8).rev() {
            code = code << 1 | u32::from(byte >> at & 1);
            length += 1;
            let (first, count, from) = *CODES.lengths.get(length).ok_or(WRONG)?;
            let at = code.wrapping_sub(first);
            if at < count {
                // The very last code stands for no byte.
                out.push(u8::try_from(CODES.bytes[(from + at) as usize]).map_err(|_| WRONG)?);
                (code, length) = (0, 0);
            }
        }
    }
    if length < 8 && code == (1 << length) - 1 { Ok(out) } else { Err(WRONG) }
}

/// The fields of one request, encoded as blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// For the first request of a connection: the fields shared by all requests go into the table.
    pub(super) first: Vec<u8>,
    /// For every later one.
    pub(super) later: Vec<u8>,
    /// Without any table, for servers that have none.
    pub(super) bare: Vec<u8>,
}

/// Signals that a connection leaves the table empty.
pub(super) const EMPTY_TABLE: u8 = 0x20;

/// The blocks of several requests that take turns.
pub(super) fn blocks(requests: &[Vec<Field>]) -> Vec<Blocks> {
    let is_common = |field: &&Field| {
        fixed(field).is_none_or(|(_, is_whole)| !is_whole) && requests.iter().all(|request| request.contains(field))
    };
    let common = |request: &'_ [Field]| request.iter().filter(is_common).cloned().collect::<Vec<Field>>();
    let mut table = requests.first().map(|first| common(first)).unwrap_or_default();
    let is_large = table.iter().map(size).sum::<usize>() > TABLE_SIZE;
    if is_large || requests.iter().any(|request| common(request) != table) {
        table.clear();
    }
    let blocks = |request: &Vec<Field>| {
        let mut blocks = Blocks { first: Vec::new(), later: Vec::new(), bare: Vec::new() };
        for field in request {
            let entry = table.iter().rev().position(|entry| entry == field);
            write(&mut blocks.first, field, entry.is_some());
            match entry {
                Some(at) => put(&mut blocks.later, 0x80, 7, STATIC.len() + 1 + at),
                None => write(&mut blocks.later, field, false),
            }
            write(&mut blocks.bare, field, false);
        }
        blocks
    };
    requests.iter().map(blocks).collect()
}

/// The field's number in the static table, and whether the value is there, too.
fn fixed((name, value): &Field) -> Option<(usize, bool)> {
    let of_name = |entry: &&(usize, &(&str, &str))| entry.1.0.as_bytes() == name;
    let entries = || STATIC.iter().enumerate();
    let whole = entries().filter(|entry| of_name(&entry)).find(|(_, entry)| entry.1.as_bytes() == value);
    let found = whole.map(|(at, _)| (at + 1, true));
    found.or_else(|| entries().find(|entry| of_name(&entry)).map(|(at, _)| (at + 1, false)))
}

/// Writes a field as a literal, to be kept in the table or not.
fn write(block: &mut Vec<u8>, field: &Field, is_kept: bool) {
    let (kind, bits) = if is_kept { (0x40, 6) } else { (0, 4) };
    match fixed(field) {
        Some((index, true)) => return put(block, 0x80, 7, index),
        Some((index, false)) => put(block, kind, bits, index),
        None => {
            put(block, kind, bits, 0);
            put(block, 0, 7, field.0.len());
            block.extend_from_slice(&field.0);
        }
    }
    put(block, 0, 7, field.1.len());
    block.extend_from_slice(&field.1);
}

/// Writes an integer with `kind` above this many bits in its first byte.
fn put(block: &mut Vec<u8>, kind: u8, bits: u32, value: usize) {
    let most = (1 << bits) - 1;
    if value < most {
        return block.push(kind | value as u8);
    }
    block.push(kind | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Malformed> {
        let mut fields = Vec::new();
        let text = |text: &Text<'_>| String::from_utf8_lossy(&text.decoded().unwrap_or_default()).into_owned();
        decoder.read(block, |name, value| fields.push(format!("{}: {}", text(name), text(value))))?;
        Ok(fields)
    }

    /// RFC 7541 appendix C.6: responses in the Huffman code, over a table of 256 bytes.
    #[test]
    fn the_answers_of_the_standard_are_read() {
        let mut decoder = Decoder { limit: 256, ..Decoder::default() };
        let first = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e \
                     919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        let fields = read(&mut decoder, &hex(first)).unwrap();
        assert_eq!(
            fields,
            [
                ":status: 302",
                "cache-control: private",
                "date: Mon, 21 Oct 2013 20:13:21 GMT",
                "location: https://www.example.com",
            ]
        );
        assert_eq!(decoder.size, 222);
        let fields = read(&mut decoder, &hex("4883 640e ffc1 c0bf")).unwrap();
        assert_eq!((&fields[0][..], fields.len(), decoder.size), (":status: 307", 4, 222));
        let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
                     d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
                     3d50 07";
        let fields = read(&mut decoder, &hex(third)).unwrap();
        assert_eq!(fields[5], "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
        assert_eq!((decoder.size, decoder.entries.len()), (215, 3));
    }

    #[test]
    fn malformed_fields_are_errors() {
        for block in
            ["80", "be", "ff80", "ffffffffffffff", "40", "4085", "0082ff", "3fe2 1f20 3fe3 ff", "0083 ffff ff01 61"]
        {
            let read = read(&mut Decoder::default(), &hex(block));
            let is_shown = block.starts_with("0083");
            assert!(read.is_err() || is_shown, "{block}: {read:?}");
        }
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        let fields = |path: &str| -> Vec<Field> {
            [
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "localhost:8443"),
                (":path", path),
                ("x-long", &"x".repeat(300)),
            ]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec()
        };
        let said = |request: &[Field]| -> Vec<String> {
            let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            request.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
        };
        let requests = [fields("/a"), fields("/b")];
        let all = blocks(&requests);
        let mut decoder = Decoder::default();
        assert_eq!(read(&mut decoder, &all[1].first).unwrap(), said(&requests[1]));
        assert_eq!(read(&mut decoder, &all[0].later).unwrap(), said(&requests[0]));
        assert_eq!(read(&mut decoder, &all[1].later).unwrap(), said(&requests[1]));
        assert_eq!(all[1].later.len(), 2 + 1 + 4 + 1, "what both have in common is one byte each");
        let emptied = [&[EMPTY_TABLE][..], &all[0].bare].concat();
        assert_eq!(read(&mut decoder, &emptied).unwrap(), said(&requests[0]));
        assert!(decoder.entries.is_empty());
        assert!(read(&mut decoder, &all[0].later).is_err());
    }
}
