//! What ab's `-v` prints of responses as they arrive.

/// ab shows so much of a response, less one byte.
const SHOWN: usize = 8192;
/// From this level on, the status of good responses is shown, too.
const STATUSES: u32 = 3;

/// The response that is arriving.
#[derive(Debug)]
pub(super) struct Log {
    level: u32,
    /// The response up to now, while its head is incomplete.
    begun: Vec<u8>,
    has_head: bool,
}

impl Log {
    pub(super) fn new(level: u32) -> Self {
        Self { level, begun: Vec::new(), has_head: false }
    }

    /// Prints the response up to now with each piece of its head, and with everything that arrived together with that; then
    /// its status.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        if self.has_head {
            return;
        }
        let room = SHOWN - 1 - self.begun.len();
        self.begun.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let text = String::from_utf8_lossy(&self.begun);
        say_line!("LOG: header received:\n{text}");
        self.has_head = text.contains("\r\n\r\n") || text.contains("\n\n");
        if self.has_head {
            let status = text.split_once("HTTP").and_then(|(_, rest)| rest.get(5..8)).unwrap_or("500");
            if !status.starts_with('2') {
                say_line!("WARNING: Response code not 2xx ({status})");
            } else if self.level >= STATUSES {
                say_line!("LOG: Response code = {status}");
            }
        }
    }

    /// The response is complete.
    pub(super) fn end(&mut self) {
        self.begun.clear();
        self.has_head = false;
    }
}
