//! Record protection of TLS 1.2 and 1.3 in one direction: authenticated encryption of one record at a time, in place.
//!
//! Sources: RFC 8446 section 5; RFC 5246 section 6.2.3.3 with RFC 5288 (AES-GCM) and RFC 7905 (ChaCha20-Poly1305).

use std::io;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::{AlertDescription, ConnectionTrafficSecrets, ContentType, ProtocolVersion};

/// The size of a record's header, in bytes: type, version, length.
pub(super) const HEADER: usize = 5;
/// The most content of a record, in bytes.
pub(super) const MOST_CONTENT: usize = 1 << 14;
/// The size of the tag of every cipher here, in bytes.
const TAG: usize = 16;
/// The part of the nonce that a record of AES-GCM in TLS 1.2 carries, in bytes.
const EXPLICIT: usize = 8;

/// The keys of one direction.
pub(super) struct Protection {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// The number of records that these keys have protected.
    pub(super) sequence: u64,
    form: Form,
}

/// How a record is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The type is encrypted with the content. The header is authenticated.
    Tls13,
    /// The content is preceded by `explicit` bytes of the nonce.
    Tls12 { explicit: usize },
}

/// The reason why a record, or a message in it, ends the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) AlertDescription, pub(super) &'static str);

impl Protection {
    /// Takes the keys of one direction, and the number of records that they have protected already.
    pub(super) fn new(
        version: ProtocolVersion,
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
    ) -> io::Result<Protection> {
        let unsupported = || io::Error::other("a cipher suite that is not known");
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(unsupported()),
        };
        let form = match version {
            ProtocolVersion::TLSv1_3 => Form::Tls13,
            ProtocolVersion::TLSv1_2 if *algorithm == CHACHA20_POLY1305 => Form::Tls12 { explicit: 0 },
            ProtocolVersion::TLSv1_2 => Form::Tls12 { explicit: EXPLICIT },
            _ => return Err(unsupported()),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| unsupported())?;
        let iv = iv.as_ref().try_into().map_err(|_| unsupported())?;
        Ok(Protection { key: LessSafeKey::new(key), iv, sequence, form })
    }

    /// Appends a protected record to `out`; `fill` appends its content, of at most [`MOST_CONTENT`] bytes. Nothing is
    /// appended if that is empty or fails. Returns the length of the content.
    pub(super) fn seal(
        &mut self,
        kind: ContentType,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let start = out.len();
        let nonce = self.nonce();
        out.extend_from_slice(&[0; HEADER]);
        out.extend_from_slice(&nonce[NONCE_LEN - self.explicit()..]);
        let content = out.len();
        let filled = fill(out);
        let Ok(length @ 1..=MOST_CONTENT) = filled else {
            out.truncate(start);
            return filled.and_then(|length| match length {
                0 => Ok(0),
                _ => Err(io::Error::other("a record with too much content")),
            });
        };
        if self.form == Form::Tls13 {
            out.push(kind.into());
        }
        let (rest, content) = out.split_at_mut(content);
        let protected = self.explicit() + content.len() + TAG;
        rest[start..start + HEADER].copy_from_slice(&header(self.outer(kind), protected));
        let sealed = self.key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            self.additional(kind, length, protected).as_ref(),
            content,
        );
        match sealed {
            Ok(tag) => {
                out.extend_from_slice(tag.as_ref());
                self.sequence += 1;
                Ok(length)
            }
            Err(_) => {
                out.truncate(start);
                Err(io::Error::other("the cipher failed"))
            }
        }
    }

    /// The length of the record that `wire` starts with. `None`: it is not complete.
    pub(super) fn length(&self, wire: &[u8]) -> Result<Option<usize>, Fault> {
        let &[kind, _, _, high, low, ..] = wire else { return Ok(None) };
        let kind = ContentType::from(kind);
        if self.form == Form::Tls13 && kind != ContentType::ApplicationData {
            return Err(Fault(AlertDescription::UnexpectedMessage, "a record that is not protected"));
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        let most = match self.form {
            Form::Tls13 => MOST_CONTENT + 256,
            Form::Tls12 { .. } => MOST_CONTENT + 2048,
        };
        if length > most {
            return Err(Fault(AlertDescription::RecordOverflow, "a record that is too long"));
        }
        Ok(Some(HEADER + length).filter(|whole| wire.len() >= *whole))
    }

    /// Opens a whole record in place. Returns the type and the content.
    pub(super) fn open<'r>(&mut self, record: &'r mut [u8]) -> Result<(ContentType, &'r mut [u8]), Fault> {
        const SHORT: Fault = Fault(AlertDescription::DecodeError, "a record that is too short");
        const FORGED: Fault = Fault(AlertDescription::BadRecordMac, "a record that was not sealed with our keys");

        let (head, body) = record.split_at_mut_checked(HEADER).ok_or(SHORT)?;
        let outer = ContentType::from(head[0]);
        let mut nonce = self.nonce();
        let explicit = self.explicit();
        let (carried, content) = body.split_at_mut_checked(explicit).ok_or(SHORT)?;
        nonce[NONCE_LEN - explicit..].copy_from_slice(carried);
        let length = content.len().checked_sub(TAG).ok_or(SHORT)?;
        let additional = match self.form {
            Form::Tls13 => Additional::Header([head[0], head[1], head[2], head[3], head[4]]),
            // The bytes of the header itself: its version is authenticated, too (RFC 5246 section 6.2.3.3).
            Form::Tls12 { .. } => {
                let [.., high, low] = length.to_be_bytes();
                self.numbered([head[0], head[1], head[2], high, low])
            }
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self.key.open_in_place(nonce, additional.as_ref(), content).map_err(|_| FORGED)?;
        self.sequence = self.sequence.checked_add(1).ok_or(FORGED)?;
        let most = match self.form {
            Form::Tls13 => MOST_CONTENT + 1,
            Form::Tls12 { .. } => MOST_CONTENT,
        };
        if opened.len() > most {
            return Err(Fault(AlertDescription::RecordOverflow, "a record with too much content"));
        }
        let (kind, length) = match self.form {
            Form::Tls12 { .. } => (outer, opened.len()),
            // The last byte that is not zero is the type; padding follows it.
            Form::Tls13 => {
                let last = opened.iter().rposition(|byte| *byte != 0);
                let last = last.ok_or(Fault(AlertDescription::UnexpectedMessage, "a record without a type"))?;
                (ContentType::from(opened[last]), last)
            }
        };
        Ok((kind, &mut opened[..length]))
    }

    /// The nonce of the next record.
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        let sequence = self.sequence.to_be_bytes();
        nonce[NONCE_LEN - sequence.len()..].iter_mut().zip(sequence).for_each(|(byte, of)| *byte ^= of);
        nonce
    }

    fn explicit(&self) -> usize {
        match self.form {
            Form::Tls13 => 0,
            Form::Tls12 { explicit } => explicit,
        }
    }

    /// The type in a record's header.
    fn outer(&self, kind: ContentType) -> ContentType {
        match self.form {
            Form::Tls13 => ContentType::ApplicationData,
            Form::Tls12 { .. } => kind,
        }
    }

    /// The data that is authenticated with a record of `length` bytes of content, `protected` bytes after its header.
    fn additional(&self, kind: ContentType, length: usize, protected: usize) -> Additional {
        match self.form {
            Form::Tls13 => Additional::Header(header(self.outer(kind), protected)),
            Form::Tls12 { .. } => self.numbered(header(kind, length)),
        }
    }

    /// A header, preceded by the number of its record.
    fn numbered(&self, header: [u8; HEADER]) -> Additional {
        let mut data = [0; 8 + HEADER];
        data[..8].copy_from_slice(&self.sequence.to_be_bytes());
        data[8..].copy_from_slice(&header);
        Additional::Numbered(data)
    }
}

/// Additional data of a record: in TLS 1.3 its header, in TLS 1.2 its number and a header with the length of the
/// content.
enum Additional {
    Header([u8; HEADER]),
    Numbered([u8; 8 + HEADER]),
}

impl Additional {
    fn as_ref(&self) -> Aad<&[u8]> {
        Aad::from(match self {
            Additional::Header(data) => data.as_slice(),
            Additional::Numbered(data) => data.as_slice(),
        })
    }
}

fn header(kind: ContentType, length: usize) -> [u8; HEADER] {
    // Callers have bounded the length.
    let [.., high, low] = length.to_be_bytes();
    [kind.into(), 3, 3, high, low]
}
