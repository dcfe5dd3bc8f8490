//! The memory allocator of this process, and files in memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Free memory stays with the process.
static STAYS: AtomicBool = AtomicBool::new(false);

/// Sets how much unneeded memory at the end of the heap stays with the process, in bytes; anything more goes back to
/// the system. `None`: all of it stays. (`M_TRIM_THRESHOLD` in mallopt(3).)
pub fn keep_free(bytes: Option<usize>) {
    STAYS.store(bytes.is_none(), Ordering::Relaxed);
    let most = bytes.map_or(-1, |bytes| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX));
    // SAFETY: the call takes numbers and changes a number of the allocator, under its own lock. It fails only for
    // unknown parameters, and this one is known.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, most) };
}

/// Gives blocks of more than 128 KiB a mapping of their own, which goes back to the system when they are freed, however
/// many there were before. (`M_MMAP_THRESHOLD` in mallopt(3); the allocator would raise it with the first freed one.)
pub fn large_blocks_apart() {
    // SAFETY: as above.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 128 * 1024) };
}

/// Gives free memory back to the system, wherever in the heaps it is. It takes time with the size of the heaps: some
/// milliseconds for a hundred MiB. Nothing happens if all of it has to stay ([`keep_free`]).
pub fn give_back() {
    if STAYS.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the call takes a number, and returns whole unused pages to the system under the allocator's own locks.
    unsafe { libc::malloc_trim(0) };
}

/// Makes a file that exists in memory only, with this content, and cannot be changed. `name` is its name in proc(5).
pub fn file(name: &std::ffi::CStr, content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(name, flags)?);
    (&file).write_all(content)?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(file.into())
}

/// Whether this process may map so many bytes more (`RLIMIT_AS`, or an address space that is full).
///
/// # Errors
/// The process may not; the kernel's error.
pub fn room_for(bytes: usize) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    // SAFETY: a new mapping, which nobody may touch and nobody else knows; it goes before this function returns.
    unsafe {
        let start =
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)?;
        munmap(start, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
