//! PostgreSQL, through its own library, libpq (<https://www.postgresql.org/docs/current/libpq.html>).
//!
//! Connections do not block within the library: every wait is a poll(2) of ours, with a deadline. The library itself
//! only looks up the name of a host, within the limits of the system's resolver.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null, null_mut};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Rows, Size, SqlError, Value, text};
use crate::library::functions;
use crate::time::Instant;

/// The library's connection and result, which are opaque.
enum Conn {}
enum Outcome {}

/// An option of a connection (`PQconninfoOption`).
#[repr(C)]
struct ConnectionOption {
    keyword: *mut c_char,
    environment: *mut c_char,
    compiled: *mut c_char,
    value: *mut c_char,
    label: *mut c_char,
    dispchar: *mut c_char,
    size: c_int,
}

type Receiver = unsafe extern "C" fn(*mut c_void, *const Outcome);

functions! {
    /// The functions used here.
    #[derive(Debug)]
    struct Functions of c"libpq.so.5" {
        connect_start: c"PQconnectStart" (*const c_char) -> *mut Conn;
        connect_poll: c"PQconnectPoll" (*mut Conn) -> c_int;
        conninfo: c"PQconninfo" (*mut Conn) -> *mut ConnectionOption;
        conninfo_free: c"PQconninfoFree" (*mut ConnectionOption);
        finish: c"PQfinish" (*mut Conn);
        status: c"PQstatus" (*const Conn) -> c_int;
        transaction: c"PQtransactionStatus" (*const Conn) -> c_int;
        socket: c"PQsocket" (*const Conn) -> c_int;
        error_message: c"PQerrorMessage" (*const Conn) -> *const c_char;
        set_nonblocking: c"PQsetnonblocking" (*mut Conn, c_int) -> c_int;
        set_notice_receiver: c"PQsetNoticeReceiver" (*mut Conn, Option<Receiver>, *mut c_void) -> *mut c_void;
        send_query: c"PQsendQuery" (*mut Conn, *const c_char) -> c_int;
        send_prepared: c"PQsendQueryPrepared" (*mut Conn, *const c_char, c_int, *const *const c_char, *const c_int, *const c_int, c_int) -> c_int;
        set_single_row_mode: c"PQsetSingleRowMode" (*mut Conn) -> c_int;
        flush: c"PQflush" (*mut Conn) -> c_int;
        consume_input: c"PQconsumeInput" (*mut Conn) -> c_int;
        is_busy: c"PQisBusy" (*mut Conn) -> c_int;
        get_result: c"PQgetResult" (*mut Conn) -> *mut Outcome;
        result_status: c"PQresultStatus" (*const Outcome) -> c_uint;
        result_error: c"PQresultErrorMessage" (*const Outcome) -> *const c_char;
        ntuples: c"PQntuples" (*const Outcome) -> c_int;
        nfields: c"PQnfields" (*const Outcome) -> c_int;
        fname: c"PQfname" (*const Outcome, c_int) -> *const c_char;
        getvalue: c"PQgetvalue" (*const Outcome, c_int, c_int) -> *const c_char;
        getlength: c"PQgetlength" (*const Outcome, c_int, c_int) -> c_int;
        getisnull: c"PQgetisnull" (*const Outcome, c_int, c_int) -> c_int;
        cmd_tuples: c"PQcmdTuples" (*mut Outcome) -> *const c_char;
        clear: c"PQclear" (*mut Outcome);
    }
}

/// `CONNECTION_OK`, `PQTRANS_IDLE`.
const OK: c_int = 0;
/// `PGRES_POLLING_...`
const POLLING_READING: c_int = 1;
const POLLING_WRITING: c_int = 2;
const POLLING_OK: c_int = 3;
/// `PGRES_...`
const COMMAND_OK: c_uint = 1;
const TUPLES_OK: c_uint = 2;
const SINGLE_TUPLE: c_uint = 9;

/// Loads the library. `Err` says why it cannot.
pub fn load() -> Result<(), String> {
    Functions::get().map(|_| ())
}

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    functions: &'static Functions,
    conn: NonNull<Conn>,
}

// SAFETY: a connection is not tied to a thread, and two threads never use one at the same time, since everything here
// takes `&mut self`.
unsafe impl Send for Connection {}

/// Ignores a server's notices, which are for people at a terminal.
unsafe extern "C" fn ignore(_: *mut c_void, _: *const Outcome) {}

impl Connection {
    /// Connects with a connection string of libpq.
    pub fn open(parameters: &str, deadline: Instant) -> Result<Connection, SqlError> {
        let functions = Functions::get().map_err(SqlError::lost)?;
        let parameters = CString::new(parameters).map_err(|_| SqlError::lost("the parameters hold a NUL"))?;
        // SAFETY: the text ends with a NUL.
        let conn = unsafe { (functions.connect_start)(parameters.as_ptr()) };
        let conn = NonNull::new(conn).ok_or_else(|| SqlError::lost("out of memory"))?;
        let mut connection = Connection { functions, conn };
        // SAFETY: here and below `conn` is valid until it is dropped. The function has the required signature,
        // and needs no argument.
        unsafe { (functions.set_notice_receiver)(conn.as_ptr(), Some(ignore), null_mut()) };
        let deadline = deadline.min(Instant::now() + connection.own_timeout());
        let mut wanted = POLLING_WRITING;
        loop {
            let flags = match wanted {
                POLLING_READING => PollFlags::IN,
                POLLING_WRITING => PollFlags::OUT,
                POLLING_OK => break,
                _ => return Err(connection.lost()),
            };
            if connection.is_broken() {
                return Err(connection.lost());
            }
            connection.wait(flags, deadline)?;
            // SAFETY: as above.
            wanted = unsafe { (functions.connect_poll)(conn.as_ptr()) };
        }
        // SAFETY: as above.
        match unsafe { (functions.set_nonblocking)(conn.as_ptr(), 1) } {
            OK => Ok(connection),
            _ => Err(connection.lost()),
        }
    }

    /// `connect_timeout`, which the library leaves to callers that wait.
    fn own_timeout(&mut self) -> Duration {
        const NONE: Duration = Duration::from_secs(24 * 3600);
        // SAFETY: `conn` is valid; the caller frees the list.
        let options = unsafe { (self.functions.conninfo)(self.conn.as_ptr()) };
        let mut seconds = 0;
        let mut at = options;
        // SAFETY: the list is null, or an array that ends with an entry without a keyword; its texts are null or end with a NUL.
        unsafe {
            while !at.is_null() && !(*at).keyword.is_null() {
                if CStr::from_ptr((*at).keyword) == c"connect_timeout" && !(*at).value.is_null() {
                    seconds = CStr::from_ptr((*at).value).to_string_lossy().trim().parse().unwrap_or(0);
                }
                at = at.add(1);
            }
            (self.functions.conninfo_free)(options);
        }
        // Like PQconnectdb: one second is too short to be meant.
        match seconds {
            0 | i64::MIN..0 => NONE,
            1 => Duration::from_secs(2),
            seconds => Duration::from_secs(seconds.unsigned_abs()).min(NONE),
        }
    }

    /// Runs one or several statements.
    pub fn execute(&mut self, sql: &str, deadline: Instant) -> Result<Rows, SqlError> {
        let sql = CString::new(sql).map_err(|_| SqlError::refused("the statement holds a NUL"))?;
        // SAFETY: the text ends with a NUL.
        let sent = unsafe { (self.functions.send_query)(self.conn.as_ptr(), sql.as_ptr()) };
        self.answer(sent, deadline)
    }

    /// Runs a statement that `PREPARE` gave this name.
    pub fn query(&mut self, name: &str, values: &[Value], deadline: Instant) -> Result<Rows, SqlError> {
        let name = CString::new(name).map_err(|_| SqlError::refused("the name holds a NUL"))?;
        let mut texts = Vec::new();
        for value in values {
            let text = text_of(value).map(CString::new).transpose();
            texts.push(text.map_err(|_| SqlError::refused("a value holds a NUL"))?);
        }
        let pointers: Vec<_> = texts.iter().map(|text| text.as_ref().map_or(null(), |text| text.as_ptr())).collect();
        let count = c_int::try_from(pointers.len()).map_err(|_| SqlError::refused("there are too many values"))?;
        // SAFETY: the name and the values end with a NUL, or are null; their number is the given one. Texts need no
        // lengths and no formats.
        let sent = unsafe {
            (self.functions.send_prepared)(
                self.conn.as_ptr(),
                name.as_ptr(),
                count,
                pointers.as_ptr(),
                null(),
                null(),
                0,
            )
        };
        self.answer(sent, deadline)
    }

    /// Whether the server is still there, without asking it.
    pub fn is_usable(&mut self) -> bool {
        // Its last words, and then an end, may have come meanwhile. A connection with more to read than that is not
        // trusted.
        for _ in 0..8 {
            // SAFETY: `conn` is valid.
            if self.is_broken() || unsafe { (self.functions.transaction)(self.conn.as_ptr()) } != OK {
                return false;
            }
            // A deadline in the past: nothing to read.
            if self.wait(PollFlags::IN, Instant::now()).is_err() {
                return true;
            }
            if self.consume().is_err() {
                return false;
            }
        }
        false
    }

    /// Waits for the answer to the last statement.
    fn answer(&mut self, sent: c_int, deadline: Instant) -> Result<Rows, SqlError> {
        // Row by row, or the library would gather an answer of any length before its length is known.
        // SAFETY: `conn` is valid.
        if sent != 1 || unsafe { (self.functions.set_single_row_mode)(self.conn.as_ptr()) } != 1 {
            return Err(self.lost());
        }
        // SAFETY: `conn` is valid.
        while let rest @ 1.. = unsafe { (self.functions.flush)(self.conn.as_ptr()) } {
            debug_assert_eq!(rest, 1);
            self.wait(PollFlags::IN | PollFlags::OUT, deadline)?;
            self.consume()?;
        }
        let (mut answer, mut rows, mut size) = (Ok(Rows::default()), Rows::default(), Size::default());
        loop {
            // SAFETY: as above.
            while unsafe { (self.functions.is_busy)(self.conn.as_ptr()) } != 0 {
                self.wait(PollFlags::IN, deadline)?;
                self.consume()?;
            }
            // SAFETY: as above; it does not block where the connection is not busy.
            let Some(outcome) = NonNull::new(unsafe { (self.functions.get_result)(self.conn.as_ptr()) }) else { break };
            let added = self.add(outcome, &mut rows, &mut size);
            // SAFETY: the result is ours to free, once.
            unsafe { (self.functions.clear)(outcome.as_ptr()) };
            // The last statement's answer counts, or the first error.
            match added {
                Ok(false) => {}
                Ok(true) => answer = answer.map(|_| std::mem::take(&mut rows)),
                Err(error) => answer = answer.and(Err(error)),
            }
            // For instance a statement that wants to copy: it would wait for us.
            if answer.as_ref().is_err_and(|error: &SqlError| error.is_lost) {
                return answer;
            }
        }
        match self.is_broken() {
            true => Err(answer.err().map_or_else(|| self.lost(), |error| SqlError::lost(error.text))),
            false => answer,
        }
    }

    /// Adds a part of an answer. Returns whether it was the last of its statement.
    fn add(&self, outcome: NonNull<Outcome>, rows: &mut Rows, size: &mut Size) -> Result<bool, SqlError> {
        let (functions, outcome) = (self.functions, outcome.as_ptr());
        // SAFETY: here and below `outcome` is valid; rows and columns are counted before they are accessed; texts end
        // with a NUL, and values have the stated lengths.
        let is_last = match unsafe { (functions.result_status)(outcome) } {
            COMMAND_OK | TUPLES_OK => true,
            SINGLE_TUPLE => false,
            // Errors end with a line feed.
            // SAFETY: as above.
            _ => match unsafe { text((functions.result_error)(outcome)) } {
                error if error.is_empty() => return Err(SqlError::lost("the statement cannot be run here")),
                error => return Err(SqlError::refused(error.trim_end())),
            },
        };
        // SAFETY: as above.
        let (count, width) = unsafe { ((functions.ntuples)(outcome), (functions.nfields)(outcome)) };
        // SAFETY: as above.
        let name = |column| unsafe { text((functions.fname)(outcome, column)) };
        if rows.columns.is_empty() {
            rows.columns = (0..width).map(name).collect();
        }
        let value = |row, column| {
            // SAFETY: as above.
            unsafe {
                if (functions.getisnull)(outcome, row, column) != 0 {
                    return None;
                }
                let length = usize::try_from((functions.getlength)(outcome, row, column)).unwrap_or(0);
                let start = (functions.getvalue)(outcome, row, column);
                Some(std::slice::from_raw_parts(start.cast::<u8>(), length).to_vec())
            }
        };
        for row in 0..count {
            let row: Vec<_> = (0..width).map(|column| value(row, column)).collect();
            size.add(row.iter().flatten().map(Vec::len).sum())?;
            rows.rows.push(row);
        }
        // SAFETY: as above.
        rows.changed = unsafe { text((functions.cmd_tuples)(outcome)) }.parse().unwrap_or(0);
        Ok(is_last)
    }

    fn consume(&mut self) -> Result<(), SqlError> {
        // SAFETY: `conn` is valid.
        match unsafe { (self.functions.consume_input)(self.conn.as_ptr()) } {
            1 => Ok(()),
            _ => Err(self.lost()),
        }
    }

    fn is_broken(&self) -> bool {
        // SAFETY: `conn` is valid. 1 is CONNECTION_BAD.
        unsafe { (self.functions.status)(self.conn.as_ptr()) == 1 }
    }

    /// Waits until the socket is ready; `Err` if the deadline passes first.
    fn wait(&self, flags: PollFlags, deadline: Instant) -> Result<(), SqlError> {
        // SAFETY: `conn` is valid.
        let socket = unsafe { (self.functions.socket)(self.conn.as_ptr()) };
        if socket < 0 {
            return Err(self.lost());
        }
        // SAFETY: the library keeps the socket open at least until its next call.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&left)) {
                Ok(0) => return Err(SqlError::lost("the database has not answered in time")),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(SqlError::lost(crate::describe(&error.into()))),
            }
        }
    }

    /// The library's description of the failure.
    fn lost(&self) -> SqlError {
        // SAFETY: `conn` is valid; the message ends with a NUL.
        SqlError::lost(unsafe { text((self.functions.error_message)(self.conn.as_ptr())) }.trim_end())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: it is closed once.
        unsafe { (self.functions.finish)(self.conn.as_ptr()) };
    }
}

/// A value in PostgreSQL's text format.
fn text_of(value: &Value) -> Option<Vec<u8>> {
    Some(match value {
        Value::Null => return None,
        Value::Text(bytes) => bytes.clone(),
        Value::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\\x{hex}").into_bytes()
        }
        Value::Integer(integer) => integer.to_string().into_bytes(),
        Value::Real(real) => real.to_string().into_bytes(),
    })
}
