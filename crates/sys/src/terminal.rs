//! The terminal of the user who started this process, for a question whose response stays invisible.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::poll::any_readable;
use crate::time::Instant;

/// The terminal that controls this process.
#[derive(Debug)]
pub struct Terminal(File);

/// Restores its modes on drop.
struct Restore<'a>(&'a File, Termios);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no modes.
        let _ = tcsetattr(self.0, OptionalActions::Flush, &self.1);
    }
}

impl Terminal {
    /// Opens it. An error if this process has none.
    pub fn open() -> io::Result<Terminal> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        // An open file of our own: this changes nobody else's reads.
        crate::file::set_nonblocking(&file)?;
        Ok(Terminal(file))
    }

    /// Writes a text.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(text.as_bytes())
    }

    /// Asks for a line of up to `most` bytes, without showing it. Interrupt and end of file are errors
    /// ([`Interrupted`](io::ErrorKind::Interrupted)), and so is a line that does not come `within` the time.
    pub fn prompt(&mut self, prompt: &str, most: usize, within: Duration) -> io::Result<Vec<u8>> {
        let before = tcgetattr(&self.0)?;
        let mut modes = before.clone();
        // An interrupt must not leave a terminal that shows nothing, so the keys for signals are read like any others.
        modes.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        let mut file = &self.0;
        let restore = Restore(file, before);
        tcsetattr(file, OptionalActions::Flush, &modes)?;
        file.write_all(prompt.as_bytes())?;
        let line = read_line(file, most, Instant::now() + within);
        drop(restore);
        self.say("\n")?;
        line
    }
}

fn read_line(mut terminal: &File, most: usize, end: Instant) -> io::Result<Vec<u8>> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const ERASE_LINE: u8 = 21;
    let mut line = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        any_readable([terminal.as_fd()], left)?;
        let mut byte = [0];
        match terminal.read(&mut byte) {
            Ok(0) => return Err(io::ErrorKind::Interrupted.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        match byte[0] {
            b'\n' | b'\r' => return Ok(line),
            INTERRUPT | END => return Err(io::ErrorKind::Interrupted.into()),
            8 | 127 => drop(line.pop()),
            ERASE_LINE => line.clear(),
            byte if line.len() < most => line.push(byte),
            _ => {}
        }
    }
}
