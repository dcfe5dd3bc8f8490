//! Cuts the received bytes into frames, as they arrive. Frames of FastCGI and of runtimes begin with eight bytes each.

use super::framing::Protocol;
use super::header::{FrameHeader, FrameType, HEADER};
use super::message::{InvalidFrame, Messages};
use super::{fastcgi, script_runtime};

/// The longest content of a frame that has to be buffered whole, in bytes.
const BUFFERED_MAX: usize = 64 * 1024;

/// Frames as they arrive.
#[derive(Debug)]
pub(crate) struct Frames {
    protocol: Protocol,
    header: [u8; HEADER],
    /// How much of the header has come; all of it during the content.
    filled: usize,
    head: FrameHeader,
    buffered: Vec<u8>,
}

impl Frames {
    pub(crate) fn new(protocol: Protocol) -> Frames {
        Frames { protocol, header: [0; HEADER], filled: 0, head: FrameHeader::default(), buffered: Vec::new() }
    }

    /// Takes received bytes. It reads nothing after the end of the response: bytes there are invalid.
    pub(crate) fn read(
        &mut self,
        mut bytes: &[u8],
        output: &mut Vec<u8>,
        decoded: &mut Messages,
    ) -> Result<(), InvalidFrame> {
        if self.protocol == Protocol::Plain {
            output.extend_from_slice(bytes);
            return Ok(());
        }
        while !bytes.is_empty() {
            if decoded.end.is_some() {
                return Err(InvalidFrame("it sent data after the end of its response".into()));
            }
            if self.filled < HEADER {
                let taken = bytes.len().min(HEADER - self.filled);
                self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
                self.filled += taken;
                bytes = &bytes[taken..];
                if self.filled < HEADER {
                    return Ok(());
                }
                self.head = match self.protocol {
                    Protocol::FastCgi => fastcgi::parse_header(&self.header)?,
                    _ => script_runtime::parse_header(&self.header)?,
                };
                if matches!(self.head.kind, FrameType::Message(_)) && self.head.length > BUFFERED_MAX {
                    return Err(InvalidFrame(format!("a frame of {} bytes is too long", self.head.length)));
                }
            }
            let taken = bytes.len().min(self.head.length);
            let (content, rest) = bytes.split_at(taken);
            match self.head.kind {
                FrameType::Output => output.extend_from_slice(content),
                FrameType::Errors => decoded.errors.extend_from_slice(content),
                FrameType::Message(_) => self.buffered.extend_from_slice(content),
                FrameType::Skipped => {}
            }
            self.head.length -= taken;
            let skipped = if self.head.length == 0 { rest.len().min(self.head.padding) } else { 0 };
            self.head.padding -= skipped;
            bytes = &rest[skipped..];
            if self.head.length == 0 && self.head.padding == 0 {
                self.filled = 0;
                if let FrameType::Message(number) = self.head.kind {
                    let buffered = std::mem::take(&mut self.buffered);
                    match self.protocol {
                        Protocol::FastCgi => fastcgi::parse_message(&buffered, decoded)?,
                        _ => script_runtime::parse_message(number, &buffered, decoded)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Its position in a frame, for another reader to continue: everything except the buffered content.
    pub(crate) fn position(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + 16);
        bytes.push(u8::try_from(self.filled).unwrap_or(0));
        bytes.extend_from_slice(&self.header);
        for number in [self.head.length, self.head.padding, self.buffered.len()] {
            bytes.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes());
        }
        bytes.extend_from_slice(&self.buffered);
        bytes
    }

    /// Continues at such a position; `None`: the position is invalid.
    pub(crate) fn at(protocol: Protocol, position: &[u8]) -> Option<Frames> {
        let mut frames = Frames::new(protocol);
        let (filled, rest) = position.split_first()?;
        frames.filled = Some(usize::from(*filled)).filter(|filled| *filled <= HEADER)?;
        let (header, rest) = rest.split_first_chunk()?;
        frames.header = *header;
        let number = |index: usize| {
            let bytes = rest.get(4 * index..)?.first_chunk()?;
            usize::try_from(u32::from_ne_bytes(*bytes)).ok()
        };
        let (length, padding, buffered) = (number(0)?, number(1)?, number(2)?);
        frames.buffered = rest.get(12..).filter(|rest| rest.len() == buffered)?.to_vec();
        if frames.filled == HEADER {
            let head = match protocol {
                Protocol::FastCgi => fastcgi::parse_header(&frames.header).ok()?,
                _ => script_runtime::parse_header(&frames.header).ok()?,
            };
            frames.head = FrameHeader { kind: head.kind, length, padding };
        }
        Some(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response of both protocols.
    fn answers() -> [(Protocol, Vec<u8>); 2] {
        let mut fastcgi = vec![1, 6, 0, 1, 0, 5, 3, 0];
        fastcgi.extend_from_slice(b"hello\0\0\0");
        fastcgi.extend_from_slice(&[1, 7, 0, 1, 0, 4, 0, 0]);
        fastcgi.extend_from_slice(b"oops");
        fastcgi.extend_from_slice(&[1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0]);
        let mut runtime = Vec::new();
        for (kind, content) in [(4_u32, &b"hello"[..]), (5, b"oops"), (7, b"status\x007\0")] {
            runtime.extend_from_slice(&kind.to_be_bytes());
            runtime.extend_from_slice(&u32::try_from(content.len()).expect("short").to_be_bytes());
            runtime.extend_from_slice(content);
        }
        [(Protocol::FastCgi, fastcgi), (Protocol::Runtime, runtime)]
    }

    #[test]
    fn an_answer_is_the_same_however_it_arrives() {
        for (protocol, bytes) in answers() {
            for step in 1..=bytes.len() {
                let (mut frames, mut output, mut decoded) = (Frames::new(protocol), Vec::new(), Messages::default());
                for piece in bytes.chunks(step) {
                    frames.read(piece, &mut output, &mut decoded).expect("well formed");
                    // Another reader could continue anywhere.
                    frames = Frames::at(protocol, &frames.position()).expect("a position");
                }
                assert_eq!((&output[..], &decoded.errors[..]), (&b"hello"[..], &b"oops"[..]), "{protocol:?} {step}");
                assert_eq!(decoded.end.map(|end| end.status), Some(7), "{protocol:?} {step}");
            }
        }
    }

    #[test]
    fn nothing_may_follow_the_end() {
        for (protocol, mut bytes) in answers() {
            bytes.push(1);
            let mut decoded = Messages::default();
            assert!(Frames::new(protocol).read(&bytes, &mut Vec::new(), &mut decoded).is_err());
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        for (protocol, bytes) in answers() {
            for index in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut broken = bytes.clone();
                    broken[index] = value;
                    let _ = Frames::new(protocol).read(&broken, &mut Vec::new(), &mut Messages::default());
                    let _ = Frames::at(protocol, &broken);
                }
            }
        }
    }
}
