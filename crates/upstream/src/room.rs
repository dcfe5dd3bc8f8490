//! Memory that exchanges leave to later ones: a busy server needs some for each request, an idle connection none.

use std::cell::RefCell;
use std::mem;
use std::ops::{Deref, DerefMut};

use http::h1::received::ResponseHead;

/// How many a thread keeps.
const KEPT: usize = 64;
/// The largest buffer that is kept, in bytes.
const LARGEST: usize = 16 * 1024;

/// The memory of an exchange, which a later one gets.
#[derive(Debug, Default)]
pub struct Room(Memory);

/// What there is room for.
#[derive(Debug, Default)]
pub struct Memory {
    /// The head of the request. Whoever makes the exchange writes it.
    pub request: Vec<u8>,
    /// The start of the response, until its head has been taken.
    pub(crate) received: Vec<u8>,
    pub(crate) head: ResponseHead,
}

thread_local! {
    static SPARE: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

impl Room {
    /// Empty buffers, perhaps those of a former exchange.
    pub fn take() -> Room {
        // A thread that ends has none.
        Room(SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut memory = mem::take(&mut self.0);
        let is_small = |buffer: &Vec<u8>| buffer.capacity() <= LARGEST;
        if is_small(&memory.request) && is_small(&memory.received) {
            memory.request.clear();
            memory.received.clear();
            // Parsing goes on where it stopped, and this response may have stopped in the middle of its head.
            memory.head.clear();
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| {
                let mut spare = spare.borrow_mut();
                if spare.len() < KEPT {
                    spare.push(memory);
                }
            });
        }
    }
}

impl Deref for Room {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.0
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut Memory {
        &mut self.0
    }
}
