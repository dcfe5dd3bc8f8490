//! Databases, through the system's libraries: SQLite and PostgreSQL.
//!
//! The libraries are loaded when a driver is first used ([`load`](sqlite::load)), so a server without a database needs
//! none of them. A connection blocks its thread until its deadline at most; it may move from one thread to another.

pub mod postgres;
pub mod sqlite;

use std::ffi::{CStr, c_char};

/// A value for a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A text, without a NUL.
    Text(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
}

/// The answer of a database to a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows. `None` is a null.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// How many rows the statement changed.
    pub changed: u64,
}

/// The longest answer, in bytes.
const ANSWER_MAX: usize = 16 << 20;

/// Why a database refused or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The database's own words.
    pub text: String,
    /// The connection is unusable.
    pub is_lost: bool,
}

impl SqlError {
    /// An error after which the connection can go on.
    fn refused(text: impl Into<String>) -> SqlError {
        SqlError { text: text.into(), is_lost: false }
    }

    fn lost(text: impl Into<String>) -> SqlError {
        SqlError { text: text.into(), is_lost: true }
    }
}

/// Adds up the size of an answer.
#[derive(Default)]
struct Size(usize);

impl Size {
    fn add(&mut self, bytes: usize) -> Result<(), SqlError> {
        // Even an empty row costs something.
        self.0 = self.0.saturating_add(bytes + 32);
        match self.0 > ANSWER_MAX {
            true => Err(SqlError::lost("the answer is too long")),
            false => Ok(()),
        }
    }
}

/// A text of C.
///
/// # Safety
///
/// The pointer is null, or the text ends with a NUL.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
