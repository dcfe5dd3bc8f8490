//! crypt(3): the system's password hashes.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;

/// The longest password that crypt(3) takes, in bytes (`CRYPT_MAX_PASSPHRASE_SIZE` of libxcrypt, without the NUL).
pub const PASSWORD_MAX: usize = 511;

/// Room for the output of crypt(3): its result and its working data (`struct crypt_data`). It begins as zeros.
#[repr(C, align(16))]
struct Room([u8; 32768]);

// SAFETY: the signature is that of crypt(3); `Room` has the size of its structure, and suits any alignment.
#[link(name = "crypt")]
unsafe extern "C" {
    fn crypt_rn(password: *const c_char, setting: *const c_char, room: *mut Room, size: c_int) -> *mut c_char;
}

/// Hashes a password with the method, salt and cost that `setting` begins with; the rest of `setting` does not count,
/// so a stored hash is its own setting. The setting also decides how long this takes.
///
/// Errors: a setting that crypt(3) does not know, and a password that is too long or holds a NUL.
pub fn crypt(password: &[u8], setting: &[u8]) -> io::Result<Vec<u8>> {
    let (password, setting) = (CString::new(password)?, CString::new(setting)?);
    let mut room = Box::new(Room([0; 32768]));
    // SAFETY: both texts end with a NUL and live through the call; the room has the given size, and is all zero.
    let hashed = unsafe { crypt_rn(password.as_ptr(), setting.as_ptr(), &raw mut *room, size_of::<Room>() as c_int) };
    if hashed.is_null() {
        return super::last_os_error();
    }
    // SAFETY: a result is a text within the room that ends with a NUL; the room lives until this function returns.
    Ok(unsafe { CStr::from_ptr(hashed) }.to_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_crypt() {
        assert_eq!(crypt(b"good", b"ab").expect("DES"), b"abb1oGxjdYbAs");
        assert_eq!(crypt(b"good", b"abb1oGxjdYbAs").expect("its own setting"), b"abb1oGxjdYbAs");
        for setting in [&b""[..], b"*", b"*0", b"$apr1$salt", b"$none$salt", b"$5$rounds=10$salt", b"$6$a\0b"] {
            assert_eq!(
                crypt(b"good", setting).expect_err("unknown").kind(),
                io::ErrorKind::InvalidInput,
                "{setting:?}"
            );
        }
        assert_eq!(crypt(b"a\0b", b"$1$salt").expect_err("a NUL").kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_longest_password() {
        crypt(&[b'a'; PASSWORD_MAX], b"$1$salt").expect("long");
        crypt(&[b'a'; PASSWORD_MAX + 1], b"$1$salt").expect_err("too long");
    }
}
