//! Archives of regular files in the format of `tar` (POSIX.1-2017, pax, "ustar Interchange Format"), in memory, so that `tar`
//! shows what is in a bundle.

/// The largest archive, in bytes: a configuration may come to as much text.
pub(super) const SIZE_MAX: usize = conf::read::TEXT_MAX;
/// The size of a head, and of what files are rounded up to.
const BLOCK: usize = 512;
/// The parts of a head: where they begin, and how long they are.
const NAME: (usize, usize) = (0, 100);
const SIZE: (usize, usize) = (124, 12);
const SUM: (usize, usize) = (148, 8);
const KIND: usize = 156;
const MAGIC: (usize, &[u8]) = (257, b"ustar\x0000");
const PREFIX: (usize, usize) = (345, 155);

/// Writes an archive.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    /// Adds a file. `Err`: its name or the archive is too long.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> Result<(), String> {
        let head = head(name, content.len()).ok_or_else(|| format!("{name}: the name is too long for a bundle"))?;
        self.0.extend_from_slice(&head);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self.check()
    }

    /// The whole archive.
    pub(super) fn end(mut self) -> Result<Vec<u8>, String> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.check()?;
        Ok(self.0)
    }

    fn check(&self) -> Result<(), String> {
        match self.0.len() <= SIZE_MAX {
            true => Ok(()),
            false => Err(format!("the bundle would be larger than {} MiB", SIZE_MAX >> 20)),
        }
    }
}

/// The head of a file. It has no owner and no time, so that the same files make the same bytes. `None`: the name is too
/// long.
fn head(name: &str, size: usize) -> Option<[u8; BLOCK]> {
    let name = http::text::to_bytes(name);
    let (prefix, name) = split(&name)?;
    let mut head = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(NAME.0, name);
    put(PREFIX.0, prefix);
    for (at, number) in [(100, "0000600"), (108, "0000000"), (116, "0000000"), (136, "00000000000")] {
        put(at, number.as_bytes());
    }
    put(SIZE.0, format!("{size:011o}").as_bytes());
    put(KIND, b"0");
    put(MAGIC.0, MAGIC.1);
    let sum = format!("{:06o}\0 ", sum(&head));
    head[SUM.0..SUM.0 + SUM.1].copy_from_slice(sum.as_bytes());
    Some(head)
}

/// A long name in its two parts.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    if name.len() <= NAME.1 {
        return Some((b"", name));
    }
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let at = slashes.filter(|at| *at <= PREFIX.1).find(|at| name.len() - at - 1 <= NAME.1)?;
    Some((&name[..at], &name[at + 1..]))
}

/// The checksum of a head: the sum of its bytes, with blanks in its own place.
fn sum(head: &[u8]) -> u32 {
    let own = SUM.0..SUM.0 + SUM.1;
    head.iter().enumerate().map(|(at, byte)| if own.contains(&at) { 32 } else { u32::from(*byte) }).sum()
}

/// The files of an archive, with their names. `Err`: it is damaged, or has anything but regular files.
pub(super) fn entries(bytes: &[u8]) -> Result<Vec<(String, &[u8])>, String> {
    const CUT: &str = "it is cut off";
    if bytes.len() > SIZE_MAX {
        return Err(format!("it is larger than {} MiB", SIZE_MAX >> 20));
    }
    let (mut entries, mut rest) = (Vec::new(), bytes);
    loop {
        let (head, behind) = rest.split_at_checked(BLOCK).ok_or(CUT)?;
        if head.iter().all(|byte| *byte == 0) {
            return Ok(entries);
        }
        if !head[MAGIC.0..].starts_with(&MAGIC.1[..5]) || octal(head, SUM) != usize::try_from(sum(head)).ok() {
            return Err("it is no bundle, or damaged".into());
        }
        let name = name(head);
        if !matches!(head[KIND], b'0' | 0) {
            return Err(format!("it has something that is no regular file: {name}"));
        }
        let size = octal(head, SIZE).ok_or("it is damaged")?;
        let padded = size.checked_next_multiple_of(BLOCK).ok_or(CUT)?;
        let (content, behind) = behind.split_at_checked(padded).ok_or(CUT)?;
        entries.push((name, &content[..size]));
        rest = behind;
    }
}

fn name(head: &[u8]) -> String {
    let part = |(at, length): (usize, usize)| {
        let bytes = head[at..at + length].split(|byte| *byte == 0).next().unwrap_or_default();
        http::text::from_bytes(bytes).into_owned()
    };
    match part(PREFIX) {
        prefix if prefix.is_empty() => part(NAME),
        prefix => format!("{prefix}/{}", part(NAME)),
    }
}

fn octal(head: &[u8], (at, length): (usize, usize)) -> Option<usize> {
    let text = std::str::from_utf8(&head[at..at + length]).ok()?;
    usize::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let long = format!("root/{}/{}", "a".repeat(90), "b".repeat(90));
        let files: [(&str, &[u8]); 3] = [("conf/x", b"text"), (&long, &[7; 512]), ("conf/empty", b"")];
        let mut out = Writer::default();
        files.iter().for_each(|(name, text)| out.add(name, text).expect("room"));
        let bytes = out.end().expect("room");
        let found = entries(&bytes).expect("an archive");
        assert_eq!(found.iter().map(|(name, text)| (name.as_str(), *text)).collect::<Vec<_>>(), files);
        for end in 0..bytes.len() - 2 * BLOCK {
            assert!(entries(&bytes[..end]).is_err(), "{end}");
        }
        assert!(Writer::default().add(&"c".repeat(101), b"").is_err());
    }

    #[test]
    fn only_regular_files_are_read() {
        let mut head = head("conf/x", 0).expect("a head");
        head[KIND] = b'2';
        let wrong = sum(&head);
        head[SUM.0..SUM.0 + SUM.1].copy_from_slice(format!("{wrong:06o}\0 ").as_bytes());
        let bytes = [&head[..], &[0; 2 * BLOCK]].concat();
        assert!(entries(&bytes).expect_err("a link").contains("no regular file"));
        assert!(entries(b"<VirtualHost>").is_err());
    }
}
