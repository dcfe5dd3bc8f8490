//! The protocol of runtimes, which run the scripts of a language in persistent processes (`docs/backend-protocol.md`).

use std::time::Duration;

use conf::Level;
use http::text::from_bytes;

use super::header::{FrameHeader, FrameType, HEADER};
use super::message::{End, InvalidFrame, Messages};

const HANDLER: u32 = 1;
const ENVIRONMENT: u32 = 2;
const INPUT: u32 = 3;
const OUTPUT: u32 = 4;
const ERROR: u32 = 5;
const LOG: u32 = 6;
const END: u32 = 7;
/// The longest content of a frame, in bytes.
const CONTENT_MAX: usize = 1 << 20;

fn frame(kind: u32, content: &[u8], to: &mut Vec<u8>) {
    header(kind, content.len(), to);
    to.extend_from_slice(content);
}

fn header(kind: u32, length: usize, to: &mut Vec<u8>) {
    to.extend_from_slice(&kind.to_be_bytes());
    to.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

/// The beginning of a request: the list of what the handler gets to know, and the environment, in which no text has a
/// zero byte. `Err`: they are too long for the protocol.
pub fn open<T: AsRef<[u8]>>(handler: &[u8], environment: impl IntoIterator<Item = (T, T)>) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(4096);
    frame(HANDLER, handler, &mut bytes);
    let start = bytes.len();
    header(ENVIRONMENT, 0, &mut bytes);
    for text in environment.into_iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend_from_slice(text.as_ref());
        bytes.push(0);
    }
    let length = bytes.len() - start - HEADER;
    match u32::try_from(length) {
        _ if handler.len() > CONTENT_MAX => Err(handler.len()),
        Ok(number) if length <= CONTENT_MAX => {
            bytes[start + 4..start + HEADER].copy_from_slice(&number.to_be_bytes());
            Ok(bytes)
        }
        _ => Err(length),
    }
}

/// Adds a name and its value to a list.
pub fn add(name: &[u8], value: &[u8], list: &mut Vec<u8>) {
    for text in [name, value] {
        // A list is split at these; no variable of a process could have one either.
        match text.contains(&0) {
            false => list.extend_from_slice(text),
            true => list.extend(text.iter().copied().filter(|byte| *byte != 0)),
        }
        list.push(0);
    }
}

/// A piece of the request's body.
pub(super) fn input(piece: &[u8], to: &mut Vec<u8>) {
    piece.chunks(CONTENT_MAX).for_each(|piece| frame(INPUT, piece, to));
}

/// The end of the body.
pub(super) fn end_of_input(to: &mut Vec<u8>) {
    frame(INPUT, &[], to);
}

pub(super) fn parse_header(header: &[u8; HEADER]) -> Result<FrameHeader, InvalidFrame> {
    let [k0, k1, k2, k3, l0, l1, l2, l3] = *header;
    let length = u32::from_be_bytes([l0, l1, l2, l3]);
    let length = usize::try_from(length).ok().filter(|length| *length <= CONTENT_MAX);
    let length = length.ok_or_else(|| InvalidFrame("it does not speak the protocol of runtimes".into()))?;
    let kind = match u32::from_be_bytes([k0, k1, k2, k3]) {
        OUTPUT => FrameType::Output,
        ERROR => FrameType::Errors,
        number @ (LOG | END) => FrameType::Message(number),
        _ => FrameType::Skipped,
    };
    Ok(FrameHeader { kind, length, padding: 0 })
}

/// Reads a message.
pub(super) fn parse_message(number: u32, content: &[u8], decoded: &mut Messages) -> Result<(), InvalidFrame> {
    let mut texts = content.strip_suffix(&[0]).unwrap_or(content).split(|byte| *byte == 0).map(from_bytes);
    let mut pairs = std::iter::from_fn(|| Some((texts.next()?, texts.next()?)));
    if number == LOG {
        let (mut level, mut text) = (Level::Error, String::new());
        for (name, value) in pairs {
            match &*name {
                "level" => level = Level::parse(&value).unwrap_or(Level::Error),
                "text" => text = value.into_owned(),
                _ => {}
            }
        }
        decoded.notes.push((level, text));
        return Ok(());
    }
    let mut end = End::default();
    let (mut user, mut system) = (None, None);
    let wrong = |name: &str| InvalidFrame(format!("'{name}' at the end of its response is not a number"));
    for (name, value) in &mut pairs {
        match &*name {
            "status" => end.status = value.parse().map_err(|_| wrong(&name))?,
            "user" => user = Some(Duration::from_micros(value.parse().map_err(|_| wrong(&name))?)),
            "system" => system = Some(Duration::from_micros(value.parse().map_err(|_| wrong(&name))?)),
            "last" => end.last = value == "1",
            "http" => {
                end.page = match value.parse::<i32>().map_err(|_| wrong(&name))? {
                    // The script declines: as if there were no such file.
                    -1 => Some(404),
                    status => u16::try_from(status).ok().filter(|status| (400..600).contains(status)),
                }
            }
            "error" if !value.is_empty() => end.refused = Some((500, value.into_owned())),
            _ => {}
        }
    }
    end.used = user.zip(system);
    decoded.end = Some(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_two_lists_and_a_body() {
        let mut bytes = open(b"file\0/x\0", [(&b"A"[..], &b"12"[..]), (b"B", b"")]).expect("short");
        input(b"xy", &mut bytes);
        end_of_input(&mut bytes);
        let want: &[u8] =
            b"\0\0\0\x01\0\0\0\x08file\0/x\0\0\0\0\x02\0\0\0\x08A\x0012\0B\0\0\0\0\0\x03\0\0\0\x02xy\0\0\0\x03\0\0\0\0";
        assert_eq!(bytes, want);
        let long = vec![b'x'; CONTENT_MAX];
        assert_eq!(open(b"", [(&b"A"[..], &long[..])]).map(drop), Err(CONTENT_MAX + 3));
    }

    #[test]
    fn an_end_tells_what_was_used() {
        let mut decoded = Messages::default();
        parse_message(END, b"status\x003\0user\x001500\0system\x00500\0last\x001\0error\0it died\0", &mut decoded)
            .expect("an end");
        let end = decoded.end.take().expect("an end");
        assert_eq!((end.status, end.last, end.refused), (3, true, Some((500, "it died".into()))));
        assert_eq!(end.used, Some((Duration::from_micros(1500), Duration::from_micros(500))));
        for (http, page) in [("-1", Some(404)), ("403", Some(403)), ("200", None), ("0", None)] {
            parse_message(END, format!("http\0{http}\0").as_bytes(), &mut decoded).expect("an end");
            assert_eq!(decoded.end.take().and_then(|end| end.page), page, "{http}");
        }
        assert!(parse_message(END, b"status\0x\0", &mut decoded).is_err());
        parse_message(LOG, b"level\0warn\0text\0look out\0", &mut decoded).expect("a note");
        assert_eq!(decoded.notes, [(Level::Warn, "look out".to_string())]);
    }
}
