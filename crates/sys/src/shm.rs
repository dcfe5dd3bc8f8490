//! Memory that a process shares with the children it forks.

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Values that may live in shared memory: atomics and arrays of them.
///
/// # Safety
/// All bytes zero must be a valid value, every change must go through atomics, and there must be nothing to drop.
pub unsafe trait Shareable: Sync {}

// SAFETY: zero is a valid number, and it changes through atomic operations only.
unsafe impl Shareable for AtomicU64 {}
// SAFETY: an array adds nothing to its elements.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {}

/// A slice in anonymous shared memory, zero at first. Processes forked later see the same memory; untouched pages cost
/// nothing.
#[derive(Debug)]
pub struct Shared<T: Shareable> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: the value owns its mapping; the elements are `Sync` and there is nothing tied to a thread.
unsafe impl<T: Shareable> Send for Shared<T> {}
// SAFETY: only shared references to `Sync` elements are given out.
unsafe impl<T: Shareable> Sync for Shared<T> {}

impl<T: Shareable> Shared<T> {
    /// Maps `len` elements.
    pub fn new(len: usize) -> io::Result<Shared<T>> {
        let bytes = (size_of::<T>().checked_mul(len.max(1))).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared { start, len })
    }
}

impl<T: Shareable> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has `len` elements, is aligned to a page, zero is a valid `T`, and it lives as long as
        // `self`; other processes change it through atomics only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Shareable> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made by `new`; no reference into it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), size_of::<T>() * self.len.max(1)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn zero_at_first_and_writable() {
        let shared: Shared<[AtomicU64; 4]> = Shared::new(1000).expect("memory");
        assert!(shared.iter().flatten().all(|word| word.load(Relaxed) == 0));
        shared[999][3].store(7, Relaxed);
        assert_eq!((shared.len(), shared[999][3].load(Relaxed)), (1000, 7));
    }
}
