//! Zstandard (RFC 8878), through its own library, which is loaded on first use (<https://facebook.github.io/zstd/>).

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::ptr::NonNull;

use crate::library::functions;

/// The library's compressor, which is opaque.
enum Context {}

/// What the compressor reads, and how much of it is done (`ZSTD_inBuffer`).
#[repr(C)]
struct Input {
    start: *const c_void,
    size: usize,
    position: usize,
}

/// Where the compressor writes, and how far it has come (`ZSTD_outBuffer`).
#[repr(C)]
struct Output {
    start: *mut c_void,
    size: usize,
    position: usize,
}

functions! {
    /// The functions used here.
    #[derive(Debug)]
    struct Functions of c"libzstd.so.1" {
        create: c"ZSTD_createCCtx" () -> *mut Context;
        free: c"ZSTD_freeCCtx" (*mut Context) -> usize;
        set_parameter: c"ZSTD_CCtx_setParameter" (*mut Context, c_int, c_int) -> usize;
        set_size: c"ZSTD_CCtx_setPledgedSrcSize" (*mut Context, u64) -> usize;
        compress: c"ZSTD_compressStream2" (*mut Context, *mut Output, *mut Input, c_int) -> usize;
        is_error: c"ZSTD_isError" (usize) -> c_uint;
        error_name: c"ZSTD_getErrorName" (usize) -> *const c_char;
    }
}

const LEVEL: c_int = 100;
const WINDOW_LOG: c_int = 101;
const CONTINUE: c_int = 0;
const FLUSH: c_int = 1;
const END: c_int = 2;

/// The highest level.
pub const LEVEL_MAX: i32 = 22;
/// Up to this level, windows stay within the 8 MiB that HTTP clients must support (RFC 9659, section 3).
const LEVEL_OF_HTTP: i32 = 19;
const WINDOW_LOG_OF_HTTP: c_int = 23;

/// Loads the library. `Err` says why it cannot.
pub fn load() -> Result<(), String> {
    Functions::get().map(|_| ())
}

/// Compresses one body, in pieces.
#[derive(Debug)]
pub struct Compressor {
    functions: &'static Functions,
    context: NonNull<Context>,
}

// SAFETY: a compressor is not tied to a thread, and two threads never use one at the same time, since everything here
// takes `&mut self`.
unsafe impl Send for Compressor {}

impl Compressor {
    /// Makes one for a body of `size` bytes, if that is known: a small one then needs little memory.
    ///
    /// # Errors
    /// There is no library, or no memory.
    pub fn new(level: i32, size: Option<u64>) -> io::Result<Compressor> {
        let functions = Functions::get().map_err(io::Error::other)?;
        // SAFETY: it takes no argument, and returns a compressor or NULL.
        let context = NonNull::new(unsafe { (functions.create)() }).ok_or(io::ErrorKind::OutOfMemory)?;
        let compressor = Compressor { functions, context };
        compressor.set(LEVEL, level)?;
        if level > LEVEL_OF_HTTP {
            compressor.set(WINDOW_LOG, WINDOW_LOG_OF_HTTP)?;
        }
        if let Some(size) = size {
            // SAFETY: the compressor lives as long as `self`.
            compressor.check(unsafe { (functions.set_size)(context.as_ptr(), size) })?;
        }
        Ok(compressor)
    }

    fn set(&self, parameter: c_int, value: c_int) -> io::Result<()> {
        // SAFETY: the compressor lives as long as `self`.
        self.check(unsafe { (self.functions.set_parameter)(self.context.as_ptr(), parameter, value) }).map(|_| ())
    }

    /// Takes some of `input` and appends to `out`, within its capacity. Returns how much it took.
    ///
    /// # Errors
    /// The library's own words.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        self.step(input, out, CONTINUE).map(|(taken, _)| taken)
    }

    /// Appends what the input so far makes, within the capacity of `out`. Returns whether that was all.
    ///
    /// # Errors
    /// The library's own words.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        self.step(&[], out, FLUSH).map(|(_, left)| left == 0)
    }

    /// Appends the rest after the end of the input, within the capacity of `out`. Returns whether that was all.
    ///
    /// # Errors
    /// The library's own words; also if the body's length differs from the size given to `new`.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        self.step(&[], out, END).map(|(_, left)| left == 0)
    }

    /// Runs one step: returns how much input it took, and a hint how much is still to be written.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>, how: c_int) -> io::Result<(usize, usize)> {
        let room = out.spare_capacity_mut();
        let mut output = Output { start: room.as_mut_ptr().cast(), size: room.len(), position: 0 };
        let mut source = Input { start: input.as_ptr().cast(), size: input.len(), position: 0 };
        // SAFETY: the compressor lives as long as `self`; both buffers have the stated lengths, and outlive the call,
        // which keeps neither.
        let left = unsafe { (self.functions.compress)(self.context.as_ptr(), &raw mut output, &raw mut source, how) };
        let left = self.check(left)?;
        let length = out.len() + output.position;
        // SAFETY: this many bytes of the spare capacity were just written.
        unsafe { out.set_len(length) };
        Ok((source.position, left))
    }

    fn check(&self, result: usize) -> io::Result<usize> {
        // SAFETY: it only looks at a number.
        if unsafe { (self.functions.is_error)(result) } == 0 {
            return Ok(result);
        }
        // SAFETY: it returns a text that lasts as long as the library.
        let name = unsafe { CStr::from_ptr((self.functions.error_name)(result)) };
        Err(io::Error::other(name.to_string_lossy()))
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: it came from the library, and is freed once.
        unsafe { (self.functions.free)(self.context.as_ptr()) };
    }
}
