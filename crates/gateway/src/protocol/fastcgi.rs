//! FastCGI 1.0, as this server speaks it: one request at a time on a connection.
//!
//! FastCGI Specification (Open Market, 1996), sections 3 to 6.

use super::header::{FrameHeader, FrameType, HEADER};
use super::message::{End, InvalidFrame, Messages};

/// The role of an application for a request (section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Makes the response.
    Responder = 1,
    /// Decides whether the request is allowed.
    Authorizer = 2,
    /// Turns a file, which follows the request's body, into the response.
    Filter = 3,
}

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const DATA: u8 = 8;
/// `FCGI_KEEP_CONN`
const KEEP_CONNECTION: u8 = 1;
/// The number of the only request.
const ID: u16 = 1;
/// The longest content of a record, in bytes, that lets the next one begin at a multiple of eight.
const CONTENT_MAX: usize = 0xfff8;

/// A record, without padding. `content` is not longer than [`CONTENT_MAX`].
fn record(kind: u8, content: &[u8], to: &mut Vec<u8>) {
    let [id, length] = [ID, u16::try_from(content.len()).unwrap_or(u16::MAX)].map(u16::to_be_bytes);
    to.extend_from_slice(&[1, kind, id[0], id[1], length[0], length[1], 0, 0]);
    to.extend_from_slice(content);
}

/// A stream, without its end.
fn stream(kind: u8, content: &[u8], to: &mut Vec<u8>) {
    content.chunks(CONTENT_MAX).for_each(|piece| record(kind, piece, to));
}

/// The length of a name or of a value (section 3.4).
fn length(length: usize, to: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => to.push(short),
        _ => {
            let long = u32::try_from(length).unwrap_or(u32::MAX) | 1 << 31;
            to.extend_from_slice(&long.to_be_bytes());
        }
    }
}

/// The beginning of a request: its role, whether the connection stays open after it, and its parameters.
pub fn open<T: AsRef<[u8]>>(role: Role, keep: bool, parameters: impl IntoIterator<Item = (T, T)>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2048);
    let flags = if keep { KEEP_CONNECTION } else { 0 };
    record(BEGIN_REQUEST, &[0, role as u8, flags, 0, 0, 0, 0, 0], &mut bytes);
    record(PARAMS, &[], &mut bytes);
    let start = bytes.len();
    for (name, value) in parameters {
        let (name, value) = (name.as_ref(), value.as_ref());
        length(name.len(), &mut bytes);
        length(value.len(), &mut bytes);
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
    }
    match u16::try_from(bytes.len() - start) {
        // Two records without content would be an end, and something behind that.
        Ok(0) => return bytes,
        Ok(length) if usize::from(length) <= CONTENT_MAX => {
            bytes[start - HEADER + 4..start - HEADER + 6].copy_from_slice(&length.to_be_bytes());
        }
        _ => {
            let content = bytes.split_off(start);
            bytes.truncate(start - HEADER);
            stream(PARAMS, &content, &mut bytes);
        }
    }
    record(PARAMS, &[], &mut bytes);
    bytes
}

/// A piece of the request's body.
pub(super) fn input(piece: &[u8], to: &mut Vec<u8>) {
    stream(STDIN, piece, to);
}

/// The end of the body.
pub(super) fn end_of_input(to: &mut Vec<u8>) {
    record(STDIN, &[], to);
}

/// A piece of the file of a filter.
pub(crate) fn data(piece: &[u8], to: &mut Vec<u8>) {
    stream(DATA, piece, to);
}

/// The end of the file.
pub(crate) fn end_of_data(to: &mut Vec<u8>) {
    record(DATA, &[], to);
}

pub(super) fn parse_header(header: &[u8; HEADER]) -> Result<FrameHeader, InvalidFrame> {
    let [version, kind, id_high, id_low, length_high, length_low, padding, _] = *header;
    if version != 1 {
        return Err(InvalidFrame(format!("it speaks version {version} of FastCGI, or something else")));
    }
    let kind = match (kind, u16::from_be_bytes([id_high, id_low])) {
        (STDOUT, ID) => FrameType::Output,
        (STDERR, ID) => FrameType::Errors,
        (END_REQUEST, ID) => FrameType::Message(END_REQUEST.into()),
        // Records of other requests, which were given up, or management records.
        _ => FrameType::Skipped,
    };
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    Ok(FrameHeader { kind, length, padding: padding.into() })
}

/// The body of `END_REQUEST` (section 5.5).
pub(super) fn parse_message(content: &[u8], decoded: &mut Messages) -> Result<(), InvalidFrame> {
    let Some(([s0, s1, s2, s3, protocol, ..], _)) = content.split_first_chunk::<8>() else {
        return Err(InvalidFrame("the end of its response is too short".into()));
    };
    let refused = match protocol {
        0 => None,
        1 => Some((503, "it takes no second request on a connection (CANT_MPX_CONN)".into())),
        2 => Some((503, "it is overloaded (OVERLOADED)".into())),
        3 => Some((500, "it does not know the role (UNKNOWN_ROLE)".into())),
        other => Some((500, format!("it ends a request with status {other}, which FastCGI does not know"))),
    };
    let status = i32::from_be_bytes([*s0, *s1, *s2, *s3]);
    decoded.end = Some(End { status, refused, ..End::default() });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_lengths_of_one_or_four_bytes() {
        let (name, value) = (vec![b'N'; 128], vec![b'v'; 127]);
        let bytes = open(Role::Responder, true, [(&name[..], &value[..])]);
        assert_eq!(bytes[..16], [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], [1, 4, 0, 1, 1, 4, 0, 0]);
        assert_eq!(bytes[24..29], [0x80, 0, 0, 128, 127]);
        assert_eq!(bytes[bytes.len() - 8..], [1, 4, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn parameters_may_be_longer_than_a_record() {
        let value = vec![b'v'; 200_000];
        let bytes = open(Role::Responder, false, [(&b"LONG"[..], &value[..])]);
        let (mut at, mut content) = (16, 0);
        loop {
            let length = usize::from(u16::from_be_bytes([bytes[at + 4], bytes[at + 5]]));
            assert_eq!(bytes[at + 1], PARAMS);
            at += HEADER + length;
            content += length;
            if length == 0 {
                break;
            }
        }
        assert_eq!((at, content), (bytes.len(), 5 + 4 + 200_000));
    }

    #[test]
    fn a_body_is_cut_into_records() {
        let mut bytes = Vec::new();
        input(&vec![b'x'; CONTENT_MAX + 1], &mut bytes);
        end_of_input(&mut bytes);
        assert_eq!(bytes.len(), CONTENT_MAX + 1 + 3 * HEADER);
        assert_eq!(bytes[bytes.len() - 8..], [1, 5, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn statuses_of_the_protocol() {
        for (protocol, status) in [(0, None), (1, Some(503)), (2, Some(503)), (3, Some(500)), (9, Some(500))] {
            let mut decoded = Messages::default();
            parse_message(&[0, 0, 0, 0, protocol, 0, 0, 0], &mut decoded).expect("whole");
            let refused = decoded.end.and_then(|end| end.refused).map(|(status, _)| status);
            assert_eq!(refused, status, "{protocol}");
        }
        assert!(parse_message(&[0; 7], &mut Messages::default()).is_err());
    }
}
