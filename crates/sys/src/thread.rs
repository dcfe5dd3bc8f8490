//! Threads.

/// The number of this thread as the thread library has it (`pthread_self`): what `%{tid}P` in an access log shows.
pub fn id() -> u64 {
    // SAFETY: pthread_self has no arguments, touches no memory and cannot fail.
    unsafe { libc::pthread_self() }
}

/// Lets other threads go first: makes the present one nicer (nice(2)), which on Linux concerns it alone.
pub fn be_nicer(by: i32) {
    // SAFETY: nice takes a number, touches no memory and cannot fail for a thread that asks for less.
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
