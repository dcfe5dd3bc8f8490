//! BER as used by LDAP (RFC 4511 section 5.1): tags of one byte, and definite lengths.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Invalid BER, or more than is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Writes elements one after the other.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn bytes(&mut self, tag: u8, content: &[u8]) {
        self.0.push(tag);
        let length = content.len();
        if length < 0x80 {
            self.0.push(length as u8);
        } else {
            let digits = length.to_be_bytes();
            let digits = &digits[length.leading_zeros() as usize / 8..];
            self.0.push(0x80 | digits.len() as u8);
            self.0.extend_from_slice(digits);
        }
        self.0.extend_from_slice(content);
    }

    pub(super) fn number(&mut self, tag: u8, number: i32) {
        let bytes = number.to_be_bytes();
        // A leading byte that only repeats the sign is dropped.
        let is_needless = |at: usize| match bytes[at] {
            0 => bytes[at + 1] < 0x80,
            0xff => bytes[at + 1] >= 0x80,
            _ => false,
        };
        let start = (0..3).find(|at| !is_needless(*at)).unwrap_or(3);
        self.bytes(tag, &bytes[start..]);
    }

    pub(super) fn flag(&mut self, on: bool) {
        self.bytes(BOOLEAN, &[if on { 0xff } else { 0 }]);
    }

    /// Writes an element that contains what `fill` writes.
    pub(super) fn nest<T>(&mut self, tag: u8, fill: impl FnOnce(&mut Writer) -> T) -> T {
        let mut inner = Writer::default();
        let filled = fill(&mut inner);
        self.bytes(tag, &inner.0);
        filled
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next element of any kind.
    pub(super) fn any(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let (start, length) = header(self.0)?.ok_or(Malformed)?;
        let content = self.0.get(start..start + length).ok_or(Malformed)?;
        let tag = self.0[0];
        self.0 = &self.0[start + length..];
        Ok((tag, content))
    }

    /// The next element, which must be of this kind.
    pub(super) fn take(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        let (found, content) = self.any()?;
        if found == tag { Ok(content) } else { Err(Malformed) }
    }

    pub(super) fn number(&mut self, tag: u8) -> Result<i32, Malformed> {
        let content = self.take(tag)?;
        let first = *content.first().filter(|_| content.len() <= 4).ok_or(Malformed)?;
        let sign = if first < 0x80 { 0 } else { -1 };
        Ok(content.iter().fold(sign, |number, byte| number << 8 | i32::from(*byte)))
    }
}

/// The length of the element at the beginning, including its tag and its length. `None`: more bytes are needed.
pub(super) fn whole(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    Ok(header(bytes)?.map(|(start, length)| start + length))
}

/// The position and the length of the content. Lengths of more than four bytes are refused.
fn header(bytes: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let Some(&first) = bytes.get(1) else { return Ok(None) };
    if bytes[0] & 0x1f == 0x1f {
        return Err(Malformed);
    }
    if first < 0x80 {
        return Ok(Some((2, usize::from(first))));
    }
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return Err(Malformed);
    }
    let Some(digits) = bytes.get(2..2 + count) else { return Ok(None) };
    let length = digits.iter().fold(0usize, |length, digit| length << 8 | usize::from(*digit));
    Ok(Some((2 + count, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::default();
        fill(&mut writer);
        writer.finish()
    }

    #[test]
    fn numbers() {
        for (number, bytes) in [
            (0, &[2, 1, 0][..]),
            (127, &[2, 1, 127]),
            (128, &[2, 2, 0, 128]),
            (-1, &[2, 1, 255]),
            (-129, &[2, 2, 0xff, 0x7f]),
            (65536, &[2, 3, 1, 0, 0]),
            (i32::MAX, &[2, 4, 0x7f, 0xff, 0xff, 0xff]),
            (i32::MIN, &[2, 4, 0x80, 0, 0, 0]),
        ] {
            assert_eq!(written(|w| w.number(INTEGER, number)), bytes);
            assert_eq!(Reader::new(bytes).number(INTEGER), Ok(number));
        }
        for bad in [&[2, 0][..], &[2, 5, 0, 0, 0, 0, 1], &[4, 1, 0], &[2, 2, 0], &[2]] {
            assert_eq!(Reader::new(bad).number(INTEGER), Err(Malformed), "{bad:?}");
        }
    }

    #[test]
    fn lengths() {
        for (length, front) in [
            (0, &[4, 0][..]),
            (127, &[4, 127]),
            (128, &[4, 0x81, 128]),
            (256, &[4, 0x82, 1, 0]),
            (70_000, &[4, 0x83, 1, 0x11, 0x70]),
        ] {
            let bytes = written(|w| w.bytes(OCTETS, &vec![7; length]));
            assert_eq!(&bytes[..front.len()], front);
            assert_eq!(whole(&bytes), Ok(Some(front.len() + length)));
            assert_eq!(Reader::new(&bytes).take(OCTETS).map(<[u8]>::len), Ok(length));
            for less in 0..front.len() {
                assert_eq!(whole(&bytes[..less]), Ok(None));
            }
        }
        // An indefinite length, one of five bytes, a tag of several.
        for bad in [&[0x30, 0x80][..], &[0x30, 0x85, 0, 0, 0, 0, 1], &[0x1f, 1, 0]] {
            assert_eq!(whole(bad), Err(Malformed), "{bad:?}");
        }
        assert_eq!(Reader::new(&[4, 0x84, 0xff, 0xff, 0xff, 0xff]).any(), Err(Malformed));
    }

    #[test]
    fn nesting() {
        let bytes = written(|w| {
            w.nest(SEQUENCE, |w| {
                w.flag(true);
                w.bytes(OCTETS, b"x");
            });
        });
        assert_eq!(bytes, [0x30, 6, 1, 1, 0xff, 4, 1, b'x']);
        let mut reader = Reader::new(&bytes);
        let mut inner = Reader::new(reader.take(SEQUENCE).expect("a sequence"));
        assert_eq!((inner.take(BOOLEAN), inner.take(OCTETS)), (Ok(&[0xff][..]), Ok(&b"x"[..])));
        assert!(inner.is_empty() && reader.is_empty() && reader.any().is_err());
    }
}
