//! The memory allocator of this process, and files in memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// How much memory at the end of a heap stays with the process when it is no longer needed, in bytes; what is more goes back
/// to the system. `None`: all of it stays. (`M_TRIM_THRESHOLD` in mallopt(3).)
pub fn keep_free(bytes: Option<usize>) {
    let most = bytes.map_or(-1, |bytes| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX));
    // SAFETY: the call takes numbers and changes a number of the allocator, under its own lock. It fails for parameters that
    // there are not; this one there is.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, most) };
}

/// Blocks of more than 128 KiB are memory of their own, which goes back to the system when they are freed, however many of
/// them there were before. (`M_MMAP_THRESHOLD` in mallopt(3); the allocator would raise it with the first that is freed.)
pub fn large_blocks_apart() {
    // SAFETY: as above.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 128 * 1024) };
}

/// A file that exists in memory only, with this content, and cannot be changed. `name` is what proc(5) shows.
pub fn file(name: &std::ffi::CStr, content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(name, flags)?);
    (&file).write_all(content)?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use crate::process::{Pid, anonymous_memory};

    #[test]
    fn free_memory_stays_or_goes_back() {
        let now = || anonymous_memory(Pid::own()).expect("own memory");
        let before = now();
        // Each is small enough to lie in the heap.
        let use_and_free = || drop((0..2048).map(|_| vec![1u8; 16 * 1024]).collect::<Vec<_>>());
        super::keep_free(None);
        use_and_free();
        assert!(now() > before + (30 << 20));
        super::keep_free(Some(1 << 20));
        use_and_free();
        assert!(now() < before + (10 << 20), "{} {before}", now());
    }

    #[test]
    fn a_file_in_memory_stays_as_it_is() {
        let file = super::file(c"text", b"hello").expect("a file");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        assert_eq!(std::fs::read(&path).expect("read"), b"hello");
        assert!(
            std::fs::OpenOptions::new()
                .append(true)
                .open(&path)
                .is_ok_and(|file| { std::io::Write::write_all(&mut &file, b"more").is_err() })
        );
    }
}
