//! PCRE2, the regular-expression library that Apache uses, with types. It matches bytes, and does no I/O.
//!
//! Patterns are compiled to machine code if the process may have pages that are both writable and executable; otherwise
//! (`MemoryDenyWriteExecute` of systemd) PCRE2 interprets them, with the same results.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};

use pcre2_sys as ffi;

/// Options for compiling a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options(u32);

impl Options {
    /// Letters match regardless of case.
    pub const CASELESS: Options = Options(ffi::PCRE2_CASELESS);
    /// `^` and `$` match at every line.
    pub const MULTILINE: Options = Options(ffi::PCRE2_MULTILINE);
    /// `.` matches a newline too.
    pub const DOTALL: Options = Options(ffi::PCRE2_DOTALL);
    /// `$` matches at the very end only.
    pub const DOLLAR_ENDONLY: Options = Options(ffi::PCRE2_DOLLAR_ENDONLY);
    /// Blanks and `#` comments are ignored.
    pub const EXTENDED: Options = Options(ffi::PCRE2_EXTENDED);
    /// Groups may share a name.
    pub const DUPNAMES: Options = Options(ffi::PCRE2_DUPNAMES);

    /// Both sets of options.
    #[must_use]
    pub const fn or(self, others: Options) -> Options {
        Options(self.0 | others.0)
    }
}

/// Why a pattern is invalid, in PCRE2's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// PCRE2's message.
    pub text: String,
    /// The byte of the pattern at which it was found.
    pub offset: usize,
}

/// Why a match could not be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchError(i32);

impl fmt::Display for MatchError {
    /// PCRE2's own words: `match limit exceeded`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&message(self.0))
    }
}

impl std::error::Error for MatchError {}

/// The positions of a match's groups; the first is the whole match.
pub type Spans = Vec<Option<Range<usize>>>;

/// A compiled pattern.
pub struct Code {
    code: NonNull<ffi::pcre2_code_8>,
    is_native: bool,
    groups: usize,
}

// SAFETY: PCRE2 never changes a compiled pattern, nor compiles it to machine code later: `new` does that before anybody
// else has it (pcre2api(3), "Multithreading"). The memory that a match writes to belongs to the thread.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern is invalid.
    pub fn new(pattern: &[u8], options: Options) -> Result<Code, CompileError> {
        let (mut error, mut offset) = (0, 0);
        // SAFETY: the pattern has the given length and lives through the call, as do both results; no context is
        // passed.
        let code = unsafe {
            ffi::pcre2_compile_8(pattern.as_ptr(), pattern.len(), options.0, &mut error, &mut offset, ptr::null_mut())
        };
        let code = NonNull::new(code).ok_or_else(|| CompileError { text: message(error), offset })?;
        let mut code = Code { code, is_native: false, groups: 0 };
        code.groups = code.number(ffi::PCRE2_INFO_CAPTURECOUNT);
        // SAFETY: the pattern was compiled above, and nobody else has it yet.
        code.is_native = unsafe { ffi::pcre2_jit_compile_8(code.code.as_ptr(), ffi::PCRE2_JIT_COMPLETE) } == 0;
        Ok(code)
    }

    /// The number of capturing groups, without the whole match.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The named groups in order of their numbers.
    #[must_use]
    pub fn names(&self) -> Vec<(usize, Vec<u8>)> {
        let (count, size) = (self.number(ffi::PCRE2_INFO_NAMECOUNT), self.number(ffi::PCRE2_INFO_NAMEENTRYSIZE));
        let mut table: *const u8 = ptr::null();
        // SAFETY: PCRE2_INFO_NAMETABLE writes a pointer to bytes.
        unsafe { ffi::pcre2_pattern_info_8(self.code.as_ptr(), ffi::PCRE2_INFO_NAMETABLE, (&raw mut table).cast()) };
        if count == 0 || table.is_null() {
            return Vec::new();
        }
        // SAFETY: the table has `count` entries of `size` bytes and lives as long as the pattern.
        let table = unsafe { std::slice::from_raw_parts(table, count * size) };
        // An entry is a number of two bytes, then a name that ends with a NUL.
        let mut names: Vec<(usize, Vec<u8>)> = table
            .chunks_exact(size)
            .map(|entry| {
                let name = entry[2..].split(|byte| *byte == 0).next().unwrap_or_default();
                (usize::from(u16::from_be_bytes([entry[0], entry[1]])), name.to_vec())
            })
            .collect();
        names.sort();
        names
    }

    /// Whether the pattern matches somewhere in `subject`.
    ///
    /// # Errors
    /// PCRE2 gave up.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, MatchError> {
        self.search(subject, 0, None)
    }

    /// Finds the first match that begins at `start` or later, and puts the positions of its groups into `spans`.
    /// Without a match that is left empty.
    ///
    /// # Errors
    /// PCRE2 gave up.
    pub fn find(&self, subject: &[u8], start: usize, spans: &mut Spans) -> Result<bool, MatchError> {
        spans.clear();
        self.search(subject, start, Some(spans))
    }

    fn search(&self, subject: &[u8], start: usize, mut spans: Option<&mut Spans>) -> Result<bool, MatchError> {
        if start > subject.len() {
            return Ok(false);
        }
        if self.is_native && self.groups < KEPT_PAIRS {
            let answer = KEPT.with_borrow_mut(|kept| {
                let scratch = kept.get_or_insert_with(|| Scratch::new(KEPT_PAIRS));
                scratch.run(self, subject, start, 0, spans.as_deref_mut())
            });
            if answer != Err(MatchError(ffi::PCRE2_ERROR_JIT_STACKLIMIT)) {
                return answer;
            }
        }
        // The interpreter keeps its memory in the scratch, so that scratch is not reused.
        Scratch::new(self.groups + 1).run(self, subject, start, ffi::PCRE2_NO_JIT, spans)
    }

    fn number(&self, what: u32) -> usize {
        let mut number = 0_u32;
        // SAFETY: only used for properties that PCRE2 writes as 32 bits.
        unsafe { ffi::pcre2_pattern_info_8(self.code.as_ptr(), what, (&raw mut number).cast()) };
        number as usize
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: PCRE2 made it, and nobody else has it any more.
        unsafe { ffi::pcre2_code_free_8(self.code.as_ptr()) }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Code").field("groups", &self.groups).finish_non_exhaustive()
    }
}

/// Patterns with more groups than this get a new scratch for each match.
const KEPT_PAIRS: usize = 32;

/// The most steps of a match from one position of its subject, or for each byte of it if that is more. A million take
/// some milliseconds. PCRE2's own limit of ten million stays above both.
const STEPS: usize = 1_000_000;
const STEPS_PER_BYTE: usize = 10;

/// The interpreter's memory limit, in KiB.
const HEAP_KIB: u32 = 32 * 1024;

thread_local! {
    static KEPT: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

/// The memory that a match writes to.
struct Scratch {
    data: NonNull<ffi::pcre2_match_data_8>,
    limits: NonNull<ffi::pcre2_match_context_8>,
}

impl Scratch {
    fn new(pairs: usize) -> Scratch {
        let pairs = u32::try_from(pairs).unwrap_or(u32::MAX);
        // SAFETY: both are made with the allocator of the C library.
        let (data, limits) = unsafe {
            let data = ffi::pcre2_match_data_create_8(pairs, ptr::null_mut());
            (data, ffi::pcre2_match_context_create_8(ptr::null_mut()))
        };
        let (Some(data), Some(limits)) = (NonNull::new(data), NonNull::new(limits)) else {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[usize; 2 * KEPT_PAIRS]>());
        };
        // SAFETY: it was made above.
        unsafe { ffi::pcre2_set_heap_limit_8(limits.as_ptr(), HEAP_KIB) };
        Scratch { data, limits }
    }

    fn run(
        &mut self,
        code: &Code,
        subject: &[u8],
        start: usize,
        options: u32,
        spans: Option<&mut Spans>,
    ) -> Result<bool, MatchError> {
        let steps = u32::try_from(STEPS.max(STEPS_PER_BYTE.saturating_mul(subject.len()))).unwrap_or(u32::MAX);
        let (data, limits) = (self.data.as_ptr(), self.limits.as_ptr());
        // SAFETY: pattern, data and limits belong to PCRE2 and are alive, and nobody else uses the latter two; the
        // subject lives through the call, and afterwards PCRE2 does not look at it again. A limit that is set cannot
        // fail.
        let answer = unsafe {
            ffi::pcre2_set_match_limit_8(limits, steps);
            let (text, length) = (subject.as_ptr(), subject.len());
            ffi::pcre2_match_8(code.code.as_ptr(), text, length, start, options, data, limits)
        };
        match usize::try_from(answer) {
            Ok(set) => {
                if let Some(spans) = spans {
                    // SAFETY: PCRE2 has filled this many pairs of offsets; they stay until the next match with this
                    // data.
                    let pairs = unsafe { std::slice::from_raw_parts(ffi::pcre2_get_ovector_pointer_8(data), 2 * set) };
                    let span = |pair: &[usize]| (pair[0] != UNSET).then(|| pair[0]..pair[1]);
                    spans.extend(pairs.chunks_exact(2).map(span));
                    spans.resize(code.groups + 1, None);
                }
                Ok(true)
            }
            Err(_) if answer == ffi::PCRE2_ERROR_NOMATCH => Ok(false),
            Err(_) => Err(MatchError(answer)),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: PCRE2 made both, and nobody else has them any more.
        unsafe {
            ffi::pcre2_match_data_free_8(self.data.as_ptr());
            ffi::pcre2_match_context_free_8(self.limits.as_ptr());
        }
    }
}

/// The offset of an unused group (`PCRE2_UNSET`).
const UNSET: usize = usize::MAX;

/// PCRE2's own words for one of its errors.
fn message(error: i32) -> String {
    // Longer ones do not exist (pcre2api(3), "Obtaining a textual error message").
    let mut text = [0_u8; 256];
    // SAFETY: the buffer has the given size.
    let length = unsafe { ffi::pcre2_get_error_message_8(error, text.as_mut_ptr(), text.len()) };
    let length = usize::try_from(length).unwrap_or(0);
    String::from_utf8_lossy(&text[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const APACHES: Options = Options::DOTALL.or(Options::DOLLAR_ENDONLY).or(Options::DUPNAMES);

    fn code(pattern: &str) -> Code {
        Code::new(pattern.as_bytes(), APACHES).expect("a pattern")
    }

    fn spans(pattern: &str, subject: &[u8], start: usize) -> Spans {
        let (code, mut native, mut interpreted) = (code(pattern), Spans::new(), Spans::new());
        assert!(code.is_native, "{pattern}");
        let found = code.find(subject, start, &mut native);
        assert_eq!(code.is_match(&subject[start..]), found, "{pattern}");
        let other = Scratch::new(code.groups + 1).run(&code, subject, start, ffi::PCRE2_NO_JIT, Some(&mut interpreted));
        assert_eq!((found, &native), (other, &interpreted), "{pattern}");
        native
    }

    #[test]
    fn where_groups_lie() {
        assert_eq!(spans("(a)|(b)|(c)", b"xb", 0), [Some(1..2), None, Some(1..2), None]);
        assert_eq!(spans("(a)(b)?", b"a", 0), [Some(0..1), Some(0..1), None]);
        assert_eq!(spans("b", b"ba", 1), []);
        assert_eq!(spans(r"a\Kb", b"xab", 0), [Some(2..3)]);
        assert_eq!(spans("", b"", 0), [Some(0..0)]);
        assert_eq!(spans(".", b"\xff", 0), [Some(0..1)]);
        assert_eq!(code("a").find(b"a", 2, &mut Spans::new()), Ok(false));
        let many = "(a)?".repeat(KEPT_PAIRS);
        assert_eq!(spans(&many, b"aa", 0)[..4], [Some(0..2), Some(0..1), Some(1..2), None]);
        assert_eq!(spans(&many, b"aa", 0).len(), KEPT_PAIRS + 1);
    }

    #[test]
    fn names_by_number() {
        let names = |pattern| code(pattern).names();
        assert_eq!(names("(?<b>x)(y)(?'a'z)|(?P<b>x)"), [(1, b"b".to_vec()), (3, b"a".to_vec()), (4, b"b".to_vec())]);
        assert_eq!(names("x"), []);
    }

    #[test]
    fn invalid_patterns() {
        let error = Code::new(b"a(b", APACHES).expect_err("no pattern");
        assert_eq!((error.text.as_str(), error.offset), ("missing closing parenthesis", 3));
    }

    /// Runs out of steps, of the memory of the interpreter, and of the stack of native code.
    #[test]
    fn every_limit_is_an_error_or_no_limit() {
        let subject = |length| [b'a'].repeat(length);
        let hostile = [&subject(40)[..], b"b"].concat();
        let told = |pattern, subject: &[u8]| code(pattern).is_match(subject).map_err(|why| why.to_string());
        assert_eq!(told(r"^(a+)+\1$", &hostile), Err("match limit exceeded".into()));
        assert_eq!(told(r"(*LIMIT_MATCH=3)^(a+)+\1$", &hostile), Err("match limit exceeded".into()));
        assert_eq!(told(r"(*NO_JIT)^(a+)+\1$", &hostile), Err("match limit exceeded".into()));
        // Too deep for the stack of native code: the interpreter takes over.
        assert_eq!(told("^((a|b)*)$", &subject(20_000)), Ok(true));
        assert_eq!(told("^((a|b)*)$", &subject(400_000)), Err("heap limit exceeded".into()));
        assert_eq!(told("foo.*bar", &[b"foo", &subject(500_000)[..]].concat()), Ok(false));
        assert_eq!(told("(*UTF)a", b"a\xff"), Err("UTF-8 error: illegal byte (0xfe or 0xff)".into()));
    }
}
