//! How much freed memory the allocator keeps. A process of its own, with this one test: the numbers are those of the
//! whole process, and other tests would allocate and free beside it.

use tsubame_sys::memory::keep_free;
use tsubame_sys::process::{Pid, anonymous_memory};

#[test]
fn free_memory_stays_or_goes_back() {
    let now = || anonymous_memory(Pid::own()).expect("own memory");
    let before = now();
    // Each is small enough to lie in the heap.
    let use_and_free = || drop((0..2048).map(|_| vec![1u8; 16 * 1024]).collect::<Vec<_>>());
    keep_free(None);
    use_and_free();
    assert!(now() > before + (30 << 20), "{} {before}", now());
    keep_free(Some(1 << 20));
    use_and_free();
    assert!(now() < before + (10 << 20), "{} {before}", now());
}
