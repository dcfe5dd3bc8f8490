//! `ScriptLog`: a file that shows the requests and responses of scripts that failed.

use std::io::Write as _;

use conf::Level;
use http::text::to_bytes;
use server::paths::c_path;
use server::{Fields, Request};

/// Where and how much to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLog {
    /// The path of the file.
    pub path: String,
    /// A longer file gets no more entries (`ScriptLogLength`).
    pub length_max: u64,
    /// How much of the body of a `POST` or `PUT` request to write (`ScriptLogBuffer`).
    pub body_max: usize,
}

/// The input and output of a script that failed.
pub(crate) struct FailedRun<'a> {
    pub(crate) status: u16,
    /// The beginning of the request's body.
    pub(crate) body: &'a [u8],
    /// The line of its header at which it failed.
    pub(crate) line: &'a str,
    /// The output after that.
    pub(crate) output: &'a [u8],
}

impl ScriptLog {
    /// Writes a script's error.
    pub(crate) fn error(&self, request: &Request, status: u16, text: &str) {
        let mut entry = heading(request, status);
        entry.extend_from_slice(b"%error\n");
        entry.extend_from_slice(&to_bytes(text));
        entry.push(b'\n');
        self.write(&entry);
    }

    /// Writes the request and the response of a script that failed.
    pub(crate) fn failure(&self, request: &Request, failure: &FailedRun<'_>) {
        let mut entry = heading(request, failure.status);
        entry.extend_from_slice(b"%request\n");
        let mut headers = Fields::default();
        request.headers().into_iter().for_each(|(name, value)| headers.merge(name.into_owned(), &value));
        fields(&mut entry, &headers);
        if matches!(&*request.data.method, "POST" | "PUT") && !failure.body.is_empty() {
            entry.push(b'\n');
            entry.extend_from_slice(failure.body);
            entry.push(b'\n');
        }
        entry.extend_from_slice(b"%response\n");
        fields(&mut entry, &request.response.err_headers_out);
        if !failure.line.is_empty() {
            entry.extend_from_slice(&to_bytes(failure.line));
            entry.push(b'\n');
        }
        if !failure.output.is_empty() {
            entry.extend_from_slice(b"%stdout\n");
            entry.extend_from_slice(failure.output);
            entry.push(b'\n');
        }
        self.write(&entry);
    }

    /// A log that is full or cannot be written never fails a request.
    fn write(&self, entry: &[u8]) {
        let Some(path) = c_path(&self.path) else { return };
        if sys::file::stat(&path).is_ok_and(|meta| meta.size > self.length_max) {
            return;
        }
        if let Ok(file) = sys::file::open_append(&path, 0o666) {
            let _ = std::fs::File::from(file).write_all(entry);
        }
    }
}

fn heading(request: &Request, status: u16) -> Vec<u8> {
    let now = sys::time::realtime().as_secs() as i64;
    let args = request.data.args.as_ref().map_or_else(String::new, |args| format!("?{args}"));
    let text = format!(
        "%% [{}] {} {}{args} {}\n%% {status} {}\n",
        clock(now + i64::from(sys::time::local_offset(now))),
        request.data.method,
        request.data.uri,
        request.protocol(),
        request.mapped.filename
    );
    to_bytes(&text).into_owned()
}

/// `Sat Nov 21 21:47:26 2026`, from `Sat, 21 Nov 2026 21:47:26 GMT`.
fn clock(seconds: i64) -> String {
    let date = http::date::http_date(seconds);
    let part = |range: std::ops::Range<usize>| String::from_utf8_lossy(&date[range]).into_owned();
    format!("{} {} {} {} {}", part(0..3), part(8..11), part(5..7), part(17..25), part(12..16))
}

fn fields(entry: &mut Vec<u8>, fields: &Fields) {
    for (name, value) in fields.iter() {
        entry.extend_from_slice(&to_bytes(&format!("{name}: {value}\n")));
    }
}

/// Writes a script's error to the error log, and to the script log if there is one; `number` is Apache's for the
/// message. Writes nothing for a request that is only explained.
pub fn complain(
    request: &Request,
    module: &'static str,
    number: &str,
    log: Option<&ScriptLog>,
    status: u16,
    text: &str,
) {
    request.log(module, Level::Error, format!("{number}: stderr from {}: {text}", request.mapped.filename));
    if let Some(log) = log.filter(|_| !request.is_hypothetical()) {
        log.error(request, status, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(clock(1_795_297_646), "Sat Nov 21 21:47:26 2026");
    }
}
