//! Places in memory that all processes share, for balancers and their members: numbers, and a text that one process may replace
//! while others read it.
//!
//! A text has two copies, and a number says which one counts. So nobody waits who reads, and a process that dies while it writes leaves
//! the former text.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use sys::shm::Shared;

/// The numbers of a place: a cache line.
const WORDS: usize = 8;
type Words = [AtomicU64; WORDS];
/// The number that grows with each new text; 0: there has been none.
const REVISION: usize = WORDS - 1;
/// The words of a copy of a text: its length in bytes, and the bytes.
const COPY: usize = 128;
type Copies = [[AtomicU64; COPY]; 2];
/// The longest text, in bytes.
pub(super) const TEXT_MAX: usize = (COPY - 1) * size_of::<u64>();
/// How often a text is read that is replaced meanwhile: twice, each time, for one who reads slowly.
const READS: usize = 8;

/// All places of a configuration. Those without a text cost no memory for one.
#[derive(Debug)]
pub(super) struct Places {
    words: Shared<Words>,
    texts: Shared<Copies>,
}

impl Places {
    /// So many places, for this process and those that it forks.
    pub(super) fn new(count: usize) -> io::Result<Arc<Places>> {
        Ok(Arc::new(Places { words: Shared::new(count)?, texts: Shared::new(count)? }))
    }

    /// One of them.
    pub(super) fn place(self: &Arc<Places>, index: usize) -> Place {
        Place { all: self.clone(), index }
    }
}

/// A place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    all: Arc<Places>,
    index: usize,
}

impl Place {
    /// The numbers; the last one belongs to the text.
    pub(super) fn words(&self) -> &Words {
        &self.all.words[self.index]
    }

    /// The text. `None`: there has been none.
    pub(super) fn text(&self) -> Option<String> {
        let revision = &self.words()[REVISION];
        for _ in 0..READS {
            let number = revision.load(Acquire);
            if number == 0 {
                return None;
            }
            let text = read(&self.all.texts[self.index][copy_of(number)]);
            fence(Acquire);
            if revision.load(Relaxed) == number {
                return text;
            }
        }
        None
    }

    /// Replaces the text by one of up to [`TEXT_MAX`] bytes. Only one process may do so at a time.
    pub(super) fn set_text(&self, text: &str) {
        let revision = &self.words()[REVISION];
        let next = revision.load(Relaxed) + 1;
        // Who sees a byte of this text sees that the copy no longer counts.
        fence(Release);
        write(&self.all.texts[self.index][copy_of(next)], text);
        revision.store(next, Release);
    }
}

fn copy_of(revision: u64) -> usize {
    usize::from(revision % 2 == 1)
}

fn read(copy: &[AtomicU64; COPY]) -> Option<String> {
    let (length, words) = copy.split_first()?;
    let length = usize::try_from(length.load(Relaxed)).ok().filter(|length| *length <= TEXT_MAX)?;
    let needed = length.div_ceil(size_of::<u64>());
    let mut bytes: Vec<u8> = words[..needed].iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

fn write(copy: &[AtomicU64; COPY], text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(TEXT_MAX)];
    copy[0].store(bytes.len() as u64, Relaxed);
    for (word, piece) in copy[1..].iter().zip(bytes.chunks(size_of::<u64>())) {
        let mut whole = [0; size_of::<u64>()];
        whole[..piece.len()].copy_from_slice(piece);
        word.store(u64::from_ne_bytes(whole), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_replaced_as_a_whole() {
        let places = Places::new(2).expect("memory");
        let place = places.place(1);
        assert_eq!(place.text(), None);
        for text in ["a", "", "täxt of more than eight bytes", &"x".repeat(TEXT_MAX)] {
            place.set_text(text);
            assert_eq!(place.text().as_deref(), Some(text));
        }
        assert_eq!(places.place(0).text(), None);
    }

    #[test]
    fn readers_see_one_text_or_the_other() {
        let place = Places::new(1).expect("memory").place(0);
        let texts = ["a".repeat(TEXT_MAX), "b".repeat(300)];
        place.set_text(&texts[0]);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..20_000).for_each(|number| place.set_text(&texts[number % 2])));
            while !writer.is_finished() {
                let text = place.text();
                assert!(text.is_none_or(|text| texts.contains(&text)));
            }
        });
        assert!(place.text().is_some());
    }
}
