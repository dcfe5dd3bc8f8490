//! The streams of a connection (RFC 9113 section 5.1).

use super::window::{ReceiveWindow, SendWindow};

/// A stream's place in its connection. It stays the stream's until [`release`](super::Connection::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    slot: u32,
    number: u32,
}

impl At {
    /// The number of the stream.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }
}

/// A stream, with what its owner keeps for it.
pub(super) struct Stream<S> {
    pub send: SendWindow,
    pub receive: ReceiveWindow,
    /// Received bytes that nobody has consumed.
    pub unread: u32,
    /// How much of the announced body is still to come, in bytes.
    pub announced: Option<u64>,
    /// The other side may still send.
    pub receives: bool,
    /// We may still send.
    pub sends: bool,
    /// The head of the response is sent, or received.
    pub is_answered: bool,
    /// One side has reset it.
    pub is_reset: bool,
    pub owner: S,
}

impl<S> Stream<S> {
    /// Whether it counts for SETTINGS_MAX_CONCURRENT_STREAMS.
    fn is_open(&self) -> bool {
        self.receives || self.sends
    }
}

/// How a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Both sides have sent all.
    Whole,
    /// The other side has reset it.
    Peer,
    /// We have: the other side may not know that yet.
    Own,
}

/// What is known of a stream's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nobody has opened it.
    Idle,
    /// It is open.
    There(At),
    Ended(End),
    /// It has ended long ago, or was left out.
    Unknown,
}

pub(super) struct Streams<S> {
    slots: Vec<Option<Stream<S>>>,
    /// The numbers of the streams in `slots`; 0 where there is none.
    numbers: Vec<u32>,
    free: Vec<u32>,
    /// The streams that have ended last, in a circle.
    ended: Vec<(u32, End)>,
    next_ended: usize,
    /// How many of them there are at most.
    remembered: usize,
    /// The highest number that a client has used.
    pub last: u32,
    open: u32,
}

impl<S> Streams<S> {
    pub fn new(remembered: usize) -> Streams<S> {
        Streams {
            slots: Vec::new(),
            numbers: Vec::new(),
            free: Vec::new(),
            ended: Vec::new(),
            next_ended: 0,
            remembered,
            last: 0,
            open: 0,
        }
    }

    pub fn known(&self, number: u32) -> Known {
        if number > self.last {
            return Known::Idle;
        }
        let slot = self.numbers.iter().position(|other| *other == number);
        if let Some(slot) = slot.filter(|slot| self.slots[*slot].as_ref().is_some_and(Stream::is_open)) {
            return Known::There(At { slot: slot as u32, number });
        }
        let ended = self.ended.iter().find(|(other, _)| *other == number).map(|(_, end)| Known::Ended(*end));
        ended.unwrap_or(if slot.is_some() { Known::Ended(End::Whole) } else { Known::Unknown })
    }

    pub fn get(&mut self, at: At) -> Option<&mut Stream<S>> {
        if self.numbers.get(at.slot as usize) != Some(&at.number) {
            return None;
        }
        self.slots[at.slot as usize].as_mut()
    }

    pub fn peek(&self, at: At) -> Option<&Stream<S>> {
        if self.numbers.get(at.slot as usize) != Some(&at.number) {
            return None;
        }
        self.slots[at.slot as usize].as_ref()
    }

    /// Those that count for SETTINGS_MAX_CONCURRENT_STREAMS.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// All that were not released.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn all(&mut self) -> impl Iterator<Item = &mut Stream<S>> {
        self.slots.iter_mut().flatten()
    }

    /// The places of those with higher numbers than this.
    pub fn beyond(&self, last: u32) -> Vec<At> {
        let all = self.numbers.iter().zip(0..);
        all.filter(|(number, _)| **number > last).map(|(number, slot)| At { slot, number: *number }).collect()
    }

    pub fn add(&mut self, number: u32, stream: Stream<S>) -> At {
        self.open += u32::from(stream.is_open());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.numbers.push(0);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(stream);
        self.numbers[slot as usize] = number;
        At { slot, number }
    }

    /// Changes a stream's state by `change`, and counts it no more if that has ended it.
    pub fn change(&mut self, at: At, change: impl FnOnce(&mut Stream<S>)) {
        let Some(stream) = self.get(at) else { return };
        let was_open = stream.is_open();
        change(stream);
        self.open -= u32::from(was_open && !stream.is_open());
    }

    /// Ends a stream that one side has reset.
    pub fn end(&mut self, at: At, end: End) {
        self.note_end(at.number(), end);
        self.change(at, |stream| {
            stream.is_reset = true;
            (stream.receives, stream.sends) = (false, false);
        });
    }

    pub fn remove(&mut self, at: At) -> Option<Stream<S>> {
        self.get(at)?;
        let stream = self.slots[at.slot as usize].take()?;
        self.numbers[at.slot as usize] = 0;
        self.free.push(at.slot);
        self.open -= u32::from(stream.is_open());
        Some(stream)
    }

    /// Remembers how a stream has ended: once for each.
    pub fn note_end(&mut self, number: u32, end: End) {
        if self.ended.len() < self.remembered {
            return self.ended.push((number, end));
        }
        self.ended[self.next_ended] = (number, end);
        self.next_ended = (self.next_ended + 1) % self.remembered;
    }

    /// Gives memory back while there are no streams.
    pub fn rest(&mut self) {
        if self.len() == 0 {
            (self.slots, self.numbers, self.free) = Default::default();
        }
    }
}
