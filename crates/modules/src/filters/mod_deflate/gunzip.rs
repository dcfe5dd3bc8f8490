//! Expands the gzip of a request's body (RFC 1952). Anybody may send one, so it is checked to the end, and Apache's
//! limits apply.

use std::fmt;
use std::io;

use conf::Level;
use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::coding::{Coder, RatioLimit};

/// Expands gzip: one member, with nothing after it.
pub(super) struct Gunzip {
    at: At,
    stream: Decompress,
    crc: Crc,
    /// Bytes of a part that must be buffered as a whole.
    held: Vec<u8>,
    /// The most output, in bytes; 0 is no limit.
    limit: u64,
    ratio: RatioLimit,
}

/// The part of the format that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Front,
    ExtraLength(u8),
    Extra(u8, usize),
    /// Text up to a zero byte.
    Text(u8),
    HeaderCrc,
    Content,
    Trailer,
    End,
}

/// The length of the fixed header, and of the part after the content.
const FRONT: usize = 10;
const TRAILER: usize = 8;
/// The flags of the header, in the order of the parts they announce.
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const HEADER_CRC: u8 = 1 << 1;
const RESERVED: u8 = 0xe0;

/// Why a compressed body cannot be decoded, and how serious that is.
#[derive(Debug)]
struct Fault {
    level: Level,
    text: String,
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The level of a [`Gunzip`] error.
pub(super) fn level(error: &io::Error) -> Level {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>()).map_or(Level::Error, |fault| fault.level)
}

fn broken(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Fault { level: Level::Error, text: text.into() })
}

impl Gunzip {
    pub(super) fn new(limit: u64, ratio: RatioLimit) -> Gunzip {
        let (stream, crc) = (Decompress::new(false), Crc::new());
        Gunzip { at: At::Front, stream, crc, held: Vec::new(), limit, ratio }
    }

    /// Takes bytes until `count` are held; returns whether they are.
    fn hold(&mut self, count: usize, input: &[u8], taken: &mut usize) -> bool {
        let more = (count - self.held.len()).min(input.len() - *taken);
        self.held.extend_from_slice(&input[*taken..*taken + more]);
        *taken += more;
        self.held.len() == count
    }

    /// The next part of the header, for the remaining flags.
    fn announced(flags: u8) -> At {
        match flags {
            _ if flags & EXTRA != 0 => At::ExtraLength(flags & !EXTRA),
            _ if flags & NAME != 0 => At::Text(flags & !NAME),
            _ if flags & COMMENT != 0 => At::Text(flags & !COMMENT),
            _ if flags & HEADER_CRC != 0 => At::HeaderCrc,
            _ => At::Content,
        }
    }

    fn go_on(&mut self, at: At) {
        self.held.clear();
        self.at = at;
    }

    /// Takes as much of the header as is available. Returns its length.
    fn header(&mut self, input: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        while taken < input.len() {
            let at = self.at;
            match at {
                At::Front if self.hold(FRONT, input, &mut taken) => {
                    let flags = self.held[3];
                    if self.held[..2] != [0x1f, 0x8b] {
                        return Err(broken("AH01387: Zlib: Invalid header"));
                    }
                    if flags & RESERVED != 0 {
                        return Err(broken(format!("AH01388: Zlib: Invalid flags {flags:02x}")));
                    }
                    self.go_on(Gunzip::announced(flags));
                }
                At::ExtraLength(flags) if self.hold(2, input, &mut taken) => {
                    let length = u16::from_le_bytes([self.held[0], self.held[1]]);
                    self.go_on(At::Extra(flags, usize::from(length)));
                }
                At::Extra(flags, left) => {
                    let skipped = left.min(input.len() - taken);
                    taken += skipped;
                    self.at = if skipped == left { Gunzip::announced(flags) } else { At::Extra(flags, left - skipped) };
                }
                At::Text(flags) => match memchr::memchr(0, &input[taken..]) {
                    Some(end) => {
                        taken += end + 1;
                        self.at = Gunzip::announced(flags);
                    }
                    None => taken = input.len(),
                },
                At::HeaderCrc if self.hold(2, input, &mut taken) => self.go_on(At::Content),
                At::Front | At::ExtraLength(_) | At::HeaderCrc => {}
                At::Content | At::Trailer | At::End => break,
            }
        }
        Ok(taken)
    }

    fn content(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let (had, before) = (out.len(), self.stream.total_in());
        let status = self
            .stream
            .decompress_vec(input, out, FlushDecompress::Sync)
            .map_err(|error| broken(format!("AH01392: Zlib error -3 inflating data ({error})")))?;
        self.crc.update(&out[had..]);
        let made = self.stream.total_out();
        if self.limit != 0 && made > self.limit {
            let limit = self.limit;
            let text =
                format!("AH02648: Inflated content length of {made} is larger than the configured limit of {limit}");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, Fault { level: Level::Warn, text }));
        }
        if !self.ratio.check(self.stream.total_in(), made) {
            let RatioLimit { ratio, burst, .. } = self.ratio;
            let text = format!(
                "AH02649: Inflated content ratio is larger than the configured limit {ratio} by {burst} time(s)"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, Fault { level: Level::Warn, text }));
        }
        if status == Status::StreamEnd {
            self.go_on(At::Trailer);
        }
        Ok((self.stream.total_in() - before) as usize)
    }

    fn check_trailer(&mut self) -> io::Result<()> {
        let number = |at: usize| self.held[at..at + 4].iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
        if number(0) != self.crc.sum() {
            return Err(broken("AH01394: Zlib: CRC error inflating data"));
        }
        let (made, told) = (self.stream.total_out(), number(4));
        if told != made as u32 {
            let text = format!("AH01395: Zlib: Length {made} of inflated data does not match expected value {told}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, Fault { level: Level::Warn, text }));
        }
        self.go_on(At::End);
        Ok(())
    }
}

impl Coder for Gunzip {
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        match self.at {
            At::Content => self.content(input, out),
            At::Trailer => {
                let mut taken = 0;
                if self.hold(TRAILER, input, &mut taken) {
                    self.check_trailer()?;
                }
                Ok(taken)
            }
            At::End => Err(broken("AH02485: Encountered extra data after compressed data")),
            _ => self.header(input),
        }
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        match self.at {
            At::End => Ok(()),
            At::Front => Err(broken("AH02619: Encountered premature end-of-stream while reading inflate header")),
            _ => Err(broken("AH02481: Encountered premature end-of-stream while inflating")),
        }
    }

    fn totals(&self) -> (u64, u64) {
        (self.stream.total_in(), self.stream.total_out())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).expect("compressed");
        encoder.finish().expect("compressed")
    }

    /// The result for a body that comes in pieces of a size, with buffers of 100 bytes.
    fn expanded(body: &[u8], size: usize, limit: u64, ratio: u64) -> Result<Vec<u8>, String> {
        let mut coder = Gunzip::new(limit, RatioLimit { ratio, burst: 3, hits: 0 });
        let mut all = Vec::new();
        let mut expand = || -> io::Result<()> {
            for mut piece in body.chunks(size) {
                while !piece.is_empty() {
                    let mut out = Vec::with_capacity(100);
                    let taken = coder.feed(piece, &mut out)?;
                    assert!(taken > 0 || !out.is_empty(), "it goes on");
                    piece = &piece[taken..];
                    all.extend(out);
                }
            }
            coder.finish(&mut all)
        };
        expand().map_err(|error| format!("{:?}: {error}", level(&error)))?;
        Ok(all)
    }

    #[test]
    fn bodies_are_expanded_however_they_come() {
        let text: Vec<u8> = (0..2000u32).flat_map(|number| number.to_string().into_bytes()).collect();
        let made = gzip(&text);
        let named = [&made[..3], &[4 | 8 | 16 | 2], &made[4..10], b"\x03\0abcname\0comment\0xx", &made[10..]].concat();
        for size in [1, 7, 1000, 100_000] {
            assert!(expanded(&made, size, 0, 200) == Ok(text.clone()), "{size}");
            assert!(expanded(&named, size, text.len() as u64, 200) == Ok(text.clone()), "{size}");
        }
        assert_eq!(expanded(&gzip(b""), 1, 0, 200), Ok(Vec::new()));
    }

    #[test]
    fn errors_have_apaches_words() {
        let hello = gzip(b"hello\n");
        let changed = |at: usize, byte: u8| {
            let mut bytes = hello.clone();
            bytes[at] = byte;
            bytes
        };
        let end = hello.len();
        let cases: &[(&[u8], &str)] = &[
            (&hello[..9], "Error: AH02619: Encountered premature end-of-stream while reading inflate header"),
            (&hello[..12], "Error: AH02481: Encountered premature end-of-stream while inflating"),
            (&hello[..end - 1], "Error: AH02481: Encountered premature end-of-stream while inflating"),
            (&changed(0, 0x1e), "Error: AH01387: Zlib: Invalid header"),
            (&changed(3, 0xe0), "Error: AH01388: Zlib: Invalid flags e0"),
            (&changed(10, 0xff), "Error: AH01392: Zlib error -3 inflating data"),
            (&changed(end - 8, 0), "Error: AH01394: Zlib: CRC error inflating data"),
            (&changed(end - 4, 7), "Warn: AH01395: Zlib: Length 6 of inflated data does not match expected value 7"),
            (&[&hello[..], b"x"].concat(), "Error: AH02485: Encountered extra data after compressed data"),
        ];
        for (body, want) in cases {
            let got = expanded(body, 5, 0, 200).expect_err(want);
            assert!(got.starts_with(want), "{got}");
        }
        assert_eq!(
            expanded(&gzip(&[0; 5000]), 1000, 1000, 200),
            Err("Warn: AH02648: Inflated content length of 1100 is larger than the configured limit of 1000".into()),
        );
        let ratio = "Warn: AH02649: Inflated content ratio is larger than the configured limit 20 by 3 time(s)";
        assert_eq!(expanded(&gzip(&[0; 5000]), 1000, 0, 20), Err(ratio.into()));
    }
}
