//! Files of certificates and keys in text (PEM, RFC 7468 and RFC 1421) or binary (DER).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The largest file that is read, in bytes; a larger one holds no certificates.
pub(super) const SIZE_MAX: u64 = 4 << 20;

/// A section of a PEM file.
pub(super) struct Section {
    /// The label after `BEGIN`.
    pub(super) label: String,
    /// The headers before the content, such as `Proc-Type: 4,ENCRYPTED`.
    pub(super) headers: Vec<(String, String)>,
    /// The decoded content.
    pub(super) der: Vec<u8>,
}

impl Section {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The sections of a text; text between them is ignored. Empty: it is not PEM. `Err`: a section is damaged.
pub(super) fn sections(file: &[u8]) -> Result<Vec<Section>, String> {
    let text = String::from_utf8_lossy(file);
    let mut sections = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {label}-----");
        let (mut headers, mut content) = (Vec::new(), String::new());
        loop {
            match lines.next() {
                None => return Err(format!("the line {end} is missing")),
                Some(line) if line == end => break,
                Some(line) => match line.split_once(':') {
                    Some((name, value)) => headers.push((name.trim().into(), value.trim().into())),
                    None => content.push_str(line.trim()),
                },
            }
        }
        let der = STANDARD.decode(&content).map_err(|_| format!("its {label} is damaged"))?;
        sections.push(Section { label: label.into(), headers, der });
    }
    Ok(sections)
}

/// The first element of DER (X.690): its tag, its content, and the rest.
pub(super) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let (digits, behind) = rest.split_at_checked(length - 0x80).filter(|(digits, _)| digits.len() <= 4)?;
        length = digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        rest = behind;
    }
    let (inside, behind) = rest.split_at_checked(length)?;
    Some((*tag, inside, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_between_other_lines() {
        let file = "Bag Attributes\n-----BEGIN A-----\nAQ\nI=\n-----END A-----\nnoise\r\n-----BEGIN B C-----\r\nProc-Type: 4,ENCRYPTED\r\n\
                    DEK-Info: X,00\r\n\r\nAw==\r\n-----END B C-----\r\n";
        let found = sections(file.as_bytes()).expect("sections");
        assert_eq!(
            found.iter().map(|one| (one.label.as_str(), &one.der[..])).collect::<Vec<_>>(),
            [("A", &[1, 2][..]), ("B C", &[3][..])]
        );
        assert_eq!((found[1].header("DEK-Info"), found[0].header("DEK-Info")), (Some("X,00"), None));
        assert!(sections(b"nothing").expect("no section").is_empty());
        assert!(sections(b"-----BEGIN A-----\nAQI=\n").is_err(), "no end");
        assert!(sections(b"-----BEGIN A-----\n!!!\n-----END A-----\n").is_err(), "no base64");
    }

    #[test]
    fn truncated_elements_do_not_count() {
        assert_eq!(element(&[0x30, 3, 1, 2]), None);
        assert_eq!(element(&[0x30, 0x82, 1]), None);
        assert_eq!(element(&[0x30, 2, 1, 2, 9]), Some((0x30, &[1, 2][..], &[9][..])));
    }
}
