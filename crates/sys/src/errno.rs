//! The numbers of errors that are made or recognized outside this crate (errno(3)).

/// A descriptor is not good for this: Apache says so of what is not a regular file.
pub const BAD_DESCRIPTOR: i32 = libc::EBADF;
/// Nobody reads at the other end.
pub const BROKEN_PIPE: i32 = libc::EPIPE;
/// An argument makes no sense.
pub const INVALID: i32 = libc::EINVAL;
/// Input or output failed, for a reason without a number.
pub const IO: i32 = libc::EIO;
/// A directory, where a file is needed.
pub const IS_DIRECTORY: i32 = libc::EISDIR;
/// A path, or a part of one, has more bytes than the system allows.
pub const NAME_TOO_LONG: i32 = libc::ENAMETOOLONG;
/// A file that does not exist.
pub const NOT_FOUND: i32 = libc::ENOENT;
/// Something took too long.
pub const TIMED_OUT: i32 = libc::ETIMEDOUT;
/// This process has no descriptor left.
pub const TOO_MANY_FILES: i32 = libc::EMFILE;
