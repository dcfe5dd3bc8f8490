//! What the parent and its log keeper say to each other: a question has its number, its kind and names; an answer has the
//! number of its question.

use std::io;
use std::os::fd::OwnedFd;

use crate::log::open::{Identity, Opened};

/// The most names in one question, and the most bytes in a message.
pub(in crate::log) const NAMES_MAX: usize = 32;
pub(super) const MESSAGE_MAX: usize = 160 << 10;

/// The parent's ends and the keeper's. The parent has both, so that one keeper goes on where another ended.
pub(super) struct Sockets {
    pub(super) questions: (OwnedFd, OwnedFd),
    pub(super) lines: (OwnedFd, OwnedFd),
}

/// The kinds of questions. The byte after a question's number says which it is.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Question {
    Look,
    Open,
    Reopen,
}

impl Question {
    const ALL: [Question; 3] = [Question::Look, Question::Open, Question::Reopen];

    pub(super) fn of(byte: u8) -> Option<Question> {
        Question::ALL.into_iter().find(|question| *question as u8 == byte)
    }
}

/// Where the name of an open log file leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Name {
    /// To the file.
    Ours,
    /// To another file: the open one was renamed.
    Another,
    /// Nowhere, or not yet.
    Gone,
}

/// The question where the names of these files lead, without its number.
pub(super) fn look(files: &[(String, Identity)]) -> Vec<u8> {
    let mut question = vec![Question::Look as u8];
    for (name, (device, inode)) in files {
        let name = http::text::to_bytes(name);
        question.extend([*device, *inode, name.len() as u64].iter().flat_map(|number| number.to_ne_bytes()));
        question.extend_from_slice(&name);
    }
    question
}

/// The files in what follows the kind of such a question.
pub(super) fn files_in(mut question: &[u8]) -> impl Iterator<Item = (&[u8], Identity)> {
    std::iter::from_fn(move || {
        let (numbers, rest) = question.split_first_chunk::<24>()?;
        let [device, inode, length] = numbers_of(numbers);
        let (name, rest) = rest.split_at(usize::try_from(length).unwrap_or(usize::MAX).min(rest.len()));
        question = rest;
        Some((name, (device, inode)))
    })
}

fn numbers_of(bytes: &[u8; 24]) -> [u64; 3] {
    let (numbers, _) = bytes.as_chunks::<8>();
    [numbers[0], numbers[1], numbers[2]].map(u64::from_ne_bytes)
}

/// An answer to a question for a file: the number of the error or 0, the file, and what it is.
pub(super) fn encode(opened: &io::Result<Opened>) -> Vec<u8> {
    let (error, (device, inode), kind) = match opened {
        Ok(opened) => {
            let kinds = [opened.identity.is_some(), opened.is_pipe, opened.is_socket];
            (0, opened.identity.unwrap_or_default(), kinds.iter().fold(0, |sum, is| sum << 1 | u64::from(*is)))
        }
        Err(error) => (error.raw_os_error().unwrap_or(sys::errno::INVALID), (0, 0), 0),
    };
    [device, inode, kind].iter().flat_map(|number| number.to_ne_bytes()).chain(error.to_ne_bytes()).collect()
}

/// Reads what [`encode`] wrote; the file came as a descriptor.
pub(super) fn decode(answer: &[u8], descriptor: Option<OwnedFd>) -> io::Result<Opened> {
    let invalid = || io::Error::from_raw_os_error(sys::errno::INVALID);
    let (numbers, error) = answer.split_first_chunk::<24>().ok_or_else(invalid)?;
    let [device, inode, kind] = numbers_of(numbers);
    match (i32::from_ne_bytes(error.try_into().map_err(|_| invalid())?), descriptor) {
        (0, Some(fd)) => Ok(Opened {
            fd,
            is_pipe: kind & 2 != 0,
            is_socket: kind & 1 != 0,
            identity: Some((device, inode)).filter(|_| kind & 4 != 0),
        }),
        (0, None) => Err(invalid()),
        (error, _) => Err(io::Error::from_raw_os_error(error)),
    }
}
