//! Threads.

/// The thread library's number of this thread (`pthread_self`): `%{tid}P` in an access log.
pub fn id() -> u64 {
    // SAFETY: pthread_self has no arguments, touches no memory and cannot fail.
    unsafe { libc::pthread_self() }
}

/// Makes the current thread nicer (nice(2)), so that other threads go first; on Linux this affects it alone.
pub fn be_nicer(by: i32) {
    // SAFETY: nice takes a number, touches no memory and cannot fail for a thread that lowers its own priority.
    unsafe { libc::nice(by) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn threads_differ() {
        let other = std::thread::spawn(super::id).join();
        assert!(other.is_ok_and(|other| other != super::id()));
    }
}
