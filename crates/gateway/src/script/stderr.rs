//! A script's standard error, line by line.

use crate::process::pipe::Reader;

/// The longest line of standard error that is logged as one, in bytes, as in Apache.
const ERROR_LINE_MAX: usize = 8191;

/// Standard error on its way into the log.
pub(super) struct Errors {
    pub(super) pipe: Reader,
    /// The last line, still incomplete.
    pub(super) line: Vec<u8>,
}

impl Errors {
    pub(super) fn new(pipe: Reader) -> Errors {
        Errors { pipe, line: Vec::new() }
    }

    /// Takes the complete lines.
    pub(super) fn take_lines(&mut self) -> Vec<Vec<u8>> {
        take_lines(&mut self.line)
    }
}

/// Takes the complete lines out of `buffer`, without their ends; cuts lines that are too long.
pub(crate) fn take_lines(buffer: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    loop {
        let window = &buffer[..buffer.len().min(ERROR_LINE_MAX)];
        let (end, next) = match window.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end, end + 1),
            None if window.len() == ERROR_LINE_MAX => (ERROR_LINE_MAX, ERROR_LINE_MAX),
            None => return lines,
        };
        let mut line: Vec<u8> = buffer.drain(..next).take(end).collect();
        if line.last() == Some(&b'\r') && next > end {
            line.pop();
        }
        lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_standard_error() {
        let mut buffer = b"one\r\ntwo\n\nthree\r".to_vec();
        assert_eq!(take_lines(&mut buffer), [&b"one"[..], b"two", b""]);
        assert_eq!(buffer, b"three\r");
        let mut buffer = vec![b'a'; 2 * ERROR_LINE_MAX + 1];
        let lengths: Vec<_> = take_lines(&mut buffer).iter().map(Vec::len).collect();
        assert_eq!((lengths, buffer.len()), (vec![ERROR_LINE_MAX; 2], 1));
    }
}
