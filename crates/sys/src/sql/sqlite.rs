//! SQLite, through its own library (<https://www.sqlite.org/c3ref/funclist.html>).

use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Rows, Size, SqlError, Value, text};
use crate::library::functions;
use crate::time::Instant;

/// The library's connection and statement, which are opaque.
enum Db {}
enum Stmt {}

functions! {
    /// The functions used here.
    #[derive(Debug)]
    struct Functions of c"libsqlite3.so.0" {
        threadsafe: c"sqlite3_threadsafe" () -> c_int;
        open: c"sqlite3_open" (*const c_char, *mut *mut Db) -> c_int;
        close: c"sqlite3_close" (*mut Db) -> c_int;
        busy_timeout: c"sqlite3_busy_timeout" (*mut Db, c_int) -> c_int;
        progress_handler: c"sqlite3_progress_handler" (*mut Db, c_int, Option<unsafe extern "C" fn(*mut c_void) -> c_int>, *mut c_void);
        errmsg: c"sqlite3_errmsg" (*mut Db) -> *const c_char;
        prepare: c"sqlite3_prepare_v2" (*mut Db, *const c_char, c_int, *mut *mut Stmt, *mut *const c_char) -> c_int;
        bind_null: c"sqlite3_bind_null" (*mut Stmt, c_int) -> c_int;
        bind_text: c"sqlite3_bind_text" (*mut Stmt, c_int, *const c_char, c_int, isize) -> c_int;
        bind_blob: c"sqlite3_bind_blob" (*mut Stmt, c_int, *const c_void, c_int, isize) -> c_int;
        bind_int64: c"sqlite3_bind_int64" (*mut Stmt, c_int, i64) -> c_int;
        bind_double: c"sqlite3_bind_double" (*mut Stmt, c_int, f64) -> c_int;
        step: c"sqlite3_step" (*mut Stmt) -> c_int;
        reset: c"sqlite3_reset" (*mut Stmt) -> c_int;
        finalize: c"sqlite3_finalize" (*mut Stmt) -> c_int;
        column_count: c"sqlite3_column_count" (*mut Stmt) -> c_int;
        column_name: c"sqlite3_column_name" (*mut Stmt, c_int) -> *const c_char;
        column_text: c"sqlite3_column_text" (*mut Stmt, c_int) -> *const c_uchar;
        column_bytes: c"sqlite3_column_bytes" (*mut Stmt, c_int) -> c_int;
        changes: c"sqlite3_changes" (*mut Db) -> c_int;
    }
}

const OK: c_int = 0;
const ROW: c_int = 100;
const DONE: c_int = 101;
/// Makes the library copy a value.
const TRANSIENT: isize = -1;
/// The number of virtual-machine steps after which the library asks whether to go on.
const STEPS: c_int = 10_000;

/// Loads the library. `Err` says why it cannot.
pub fn load() -> Result<(), String> {
    // SAFETY: it takes no argument, and may be called at any time.
    match unsafe { (Functions::get()?.threadsafe)() } {
        0 => Err("libsqlite3.so.0 was built for programs with one thread".into()),
        _ => Ok(()),
    }
}

/// A connection to a database in a file, with its prepared statements.
#[derive(Debug)]
pub struct Connection {
    functions: &'static Functions,
    db: NonNull<Db>,
    statements: Vec<NonNull<Stmt>>,
    /// When the library should give up, in milliseconds of the clock that [`now`] reads. The library has the address.
    until: Box<AtomicU64>,
}

// SAFETY: the library's own locks let a connection move from one thread to another (`load` has checked that); two
// threads never use one at the same time, since everything here takes `&mut self`.
unsafe impl Send for Connection {}

/// The current time in milliseconds.
fn now() -> u64 {
    u64::try_from(crate::time::monotonic().as_millis()).unwrap_or(u64::MAX)
}

/// Called by the library, which gives up if this is not zero.
unsafe extern "C" fn is_over(until: *mut c_void) -> c_int {
    // SAFETY: the address is that of `Connection::until`, which outlives the database that calls this.
    let until = unsafe { &*until.cast::<AtomicU64>() };
    c_int::from(now() >= until.load(Ordering::Relaxed))
}

impl Connection {
    /// Opens a file, and creates it if there is none.
    pub fn open(path: &str) -> Result<Connection, SqlError> {
        let functions = Functions::get().map_err(SqlError::lost)?;
        let path = CString::new(path).map_err(|_| SqlError::lost("the path holds a NUL"))?;
        let mut db = null_mut();
        // SAFETY: the path ends with a NUL; the library writes a connection, or null, to the given place.
        let code = unsafe { (functions.open)(path.as_ptr(), &raw mut db) };
        let db = NonNull::new(db).ok_or_else(|| SqlError::lost("out of memory"))?;
        // From here on drop closes it; the library requires that even if the file could not be opened.
        let until = Box::new(AtomicU64::new(u64::MAX));
        let connection = Connection { functions, db, statements: Vec::new(), until };
        if code != OK {
            return Err(SqlError::lost(connection.message()));
        }
        let until = (&raw const *connection.until).cast_mut().cast();
        // SAFETY: the function has the required signature, and its argument lives longer than the connection.
        unsafe { (functions.progress_handler)(connection.db.as_ptr(), STEPS, Some(is_over), until) };
        Ok(connection)
    }

    /// Runs a statement once.
    pub fn execute(&mut self, sql: &str, deadline: Instant) -> Result<Rows, SqlError> {
        let index = self.prepare(sql)?;
        let rows = self.query(index, &[], deadline);
        if let Some(statement) = self.statements.pop() {
            // SAFETY: `prepare` has put it there, and nobody else has it.
            unsafe { (self.functions.finalize)(statement.as_ptr()) };
        }
        rows
    }

    /// Prepares a statement; returns its number.
    pub fn prepare(&mut self, sql: &str) -> Result<usize, SqlError> {
        let text = CString::new(sql).map_err(|_| SqlError::refused("the statement holds a NUL"))?;
        let (mut statement, mut rest) = (null_mut(), null());
        // SAFETY: the text ends with a NUL, as -1 says; the library writes a statement, or null, and the start of the
        // rest.
        let code =
            unsafe { (self.functions.prepare)(self.db.as_ptr(), text.as_ptr(), -1, &raw mut statement, &raw mut rest) };
        if code != OK {
            return Err(self.error());
        }
        let statement = NonNull::new(statement).ok_or_else(|| SqlError::refused("there is no statement"))?;
        self.statements.push(statement);
        Ok(self.statements.len() - 1)
    }

    /// Runs a prepared statement with these values.
    pub fn query(&mut self, index: usize, values: &[Value], deadline: Instant) -> Result<Rows, SqlError> {
        let statement = *self.statements.get(index).ok_or_else(|| SqlError::refused("there is no such statement"))?;
        let left = deadline.saturating_duration_since(Instant::now());
        self.until.store(now().saturating_add(millis(left)), Ordering::Relaxed);
        // Other processes may be writing.
        // SAFETY: the connection is open.
        unsafe { (self.functions.busy_timeout)(self.db.as_ptr(), c_int::try_from(millis(left)).unwrap_or(c_int::MAX)) };
        let rows = self.run(statement, values);
        // SAFETY: the statement is this connection's. Its result repeats that of the last step.
        unsafe { (self.functions.reset)(statement.as_ptr()) };
        rows
    }

    fn run(&mut self, statement: NonNull<Stmt>, values: &[Value]) -> Result<Rows, SqlError> {
        for (number, value) in (1..).zip(values) {
            self.bind(statement, number, value)?;
        }
        let statement = statement.as_ptr();
        let (mut columns, mut rows, mut size) = (Vec::new(), Vec::new(), Size::default());
        loop {
            // SAFETY: the statement is this connection's.
            match unsafe { (self.functions.step)(statement) } {
                ROW => {
                    if rows.is_empty() {
                        columns = self.columns(statement);
                    }
                    let row: Vec<_> = (0..).zip(&columns).map(|(column, _)| self.value(statement, column)).collect();
                    size.add(row.iter().flatten().map(Vec::len).sum())?;
                    rows.push(row);
                }
                DONE => break,
                _ => return Err(self.error()),
            }
        }
        // SAFETY: the connection is open.
        let changed = unsafe { (self.functions.changes)(self.db.as_ptr()) };
        Ok(Rows { columns, rows, changed: u64::try_from(changed).unwrap_or(0) })
    }

    fn bind(&self, statement: NonNull<Stmt>, number: c_int, value: &Value) -> Result<(), SqlError> {
        let statement = statement.as_ptr();
        let length = |bytes: &[u8]| c_int::try_from(bytes.len()).map_err(|_| SqlError::refused("a value is too long"));
        // SAFETY: the statement is this connection's; the library copies texts and bytes, which have the stated
        // lengths, and refuses numbers of values that do not exist.
        let code = unsafe {
            match value {
                Value::Null => (self.functions.bind_null)(statement, number),
                Value::Text(bytes) => {
                    (self.functions.bind_text)(statement, number, bytes.as_ptr().cast(), length(bytes)?, TRANSIENT)
                }
                Value::Bytes(bytes) => {
                    (self.functions.bind_blob)(statement, number, bytes.as_ptr().cast(), length(bytes)?, TRANSIENT)
                }
                Value::Integer(integer) => (self.functions.bind_int64)(statement, number, *integer),
                Value::Real(real) => (self.functions.bind_double)(statement, number, *real),
            }
        };
        if code == OK { Ok(()) } else { Err(self.error()) }
    }

    /// The names of the columns, once there is a row: a statement is prepared again after its tables have changed.
    fn columns(&self, statement: *mut Stmt) -> Vec<String> {
        // SAFETY: the statement is this connection's.
        let count = unsafe { (self.functions.column_count)(statement) };
        // SAFETY: as above; a name is null or ends with a NUL, and holds until the next call for this statement.
        (0..count).map(|column| unsafe { text((self.functions.column_name)(statement, column)) }).collect()
    }

    /// A value of the current row.
    fn value(&self, statement: *mut Stmt, column: c_int) -> Option<Vec<u8>> {
        // SAFETY: there is a row with this column; a value that is not null has the stated number of bytes, until the
        // next step.
        unsafe {
            let text = (self.functions.column_text)(statement, column);
            let length = usize::try_from((self.functions.column_bytes)(statement, column)).unwrap_or(0);
            (!text.is_null()).then(|| std::slice::from_raw_parts(text, length).to_vec())
        }
    }

    fn message(&self) -> String {
        // SAFETY: the message ends with a NUL, and holds until the next call.
        unsafe { text((self.functions.errmsg)(self.db.as_ptr())) }
    }

    fn error(&self) -> SqlError {
        SqlError::refused(self.message())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for statement in self.statements.drain(..) {
            // SAFETY: each is finalized once, before its connection.
            unsafe { (self.functions.finalize)(statement.as_ptr()) };
        }
        // SAFETY: the connection is closed once, and has no statements.
        unsafe { (self.functions.close)(self.db.as_ptr()) };
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
