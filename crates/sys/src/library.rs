//! System libraries that are loaded only if the configuration wants them (dlopen(3)).

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// A loaded library. It stays loaded: its functions and data may be in use for as long as the process lives.
#[derive(Debug)]
pub(crate) struct Library(NonNull<c_void>);

// SAFETY: a handle of dlopen(3) is not tied to a thread.
unsafe impl Send for Library {}
// SAFETY: as above; dlsym(3) may be called by several threads at once.
unsafe impl Sync for Library {}

impl Library {
    /// Loads a library by its soname. `Err`: the linker's own words.
    pub(crate) fn open(name: &CStr) -> Result<Library, String> {
        // SAFETY: the name ends with a NUL. The library's initializers run, as they do for any linked library.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Library).ok_or_else(last_error)
    }

    /// A function of the library.
    ///
    /// # Safety
    ///
    /// `F` is the type of a pointer to a function, with the signature that the library documents for that name.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is valid for good, and the name ends with a NUL.
        let symbol = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        let symbol = NonNull::new(symbol).ok_or_else(last_error)?;
        // SAFETY: it has the size of a pointer, and the caller vouches for the type.
        Ok(unsafe { std::mem::transmute_copy(&symbol) })
    }
}

fn last_error() -> String {
    // SAFETY: dlerror(3) gives a text of this thread's own, or nothing.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".into();
    }
    // SAFETY: it ends with a NUL, and holds until the next call of this thread.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A table of a library's functions, by their names in C.
///
/// The types in the table have to be those that the library documents: that makes the calls sound.
macro_rules! functions {
    ($(#[$meta:meta])* struct $table:ident of $library:literal { $($field:ident: $symbol:literal ($($arg:ty),* $(,)?) $(-> $result:ty)?;)* }) => {
        $(#[$meta])*
        #[allow(clippy::type_complexity, reason = "these are the library's own signatures")]
        struct $table { $($field: unsafe extern "C" fn($($arg),*) $(-> $result)?,)* }

        impl $table {
            /// The table. Loads the library on the first call; `Err` says why it cannot.
            fn get() -> Result<&'static $table, String> {
                static TABLE: std::sync::OnceLock<Result<$table, String>> = std::sync::OnceLock::new();
                let load = || {
                    let library = crate::library::Library::open($library)?;
                    // SAFETY: each type is the signature that the library's manual documents for that name.
                    Ok(unsafe { $table { $($field: library.function($symbol)?,)* } })
                };
                TABLE.get_or_init(load).as_ref().map_err(Clone::clone)
            }
        }
    };
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_libraries_are_named() {
        let error = Library::open(c"libnonsense.so.0").expect_err("no such library");
        assert!(error.contains("libnonsense.so.0"), "{error}");
        let library = Library::open(c"libc.so.6").expect("the C library");
        // SAFETY: the signature is that of getpid(2).
        let getpid = unsafe { library.function::<unsafe extern "C" fn() -> i32>(c"getpid") }.expect("getpid");
        // SAFETY: it takes no argument and always succeeds.
        assert_eq!(unsafe { getpid() } as u32, std::process::id());
        // SAFETY: it is never called.
        let error = unsafe { library.function::<unsafe extern "C" fn()>(c"nonsense") }.expect_err("no such function");
        assert!(error.contains("nonsense"), "{error}");
    }
}
