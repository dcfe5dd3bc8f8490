//! The system's log (RFC 3164 over `/dev/log`), for `ErrorLog syslog`.

use std::io;
use std::os::unix::net::UnixDatagram;

use crate::process::Pid;

/// A connection to the system's log.
#[derive(Debug)]
pub struct Syslog {
    socket: UnixDatagram,
    facility: u8,
    tag: String,
}

impl Syslog {
    /// Connects. `facility` is one of [`FACILITIES`]' numbers; `tag` is the name before each message.
    pub fn connect(facility: u8, tag: &str) -> io::Result<Syslog> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect("/dev/log")?;
        Ok(Syslog { socket, facility, tag: tag.to_string() })
    }

    /// Writes a message; `severity` goes from 0 (emergency) to 7 (debug). Never waits.
    pub fn write(&self, severity: u8, text: &str) -> io::Result<()> {
        let priority = u32::from(self.facility) * 8 + u32::from(severity.min(7));
        self.socket.send(format!("<{priority}>{}[{}]: {text}", self.tag, Pid::own()).as_bytes())?;
        Ok(())
    }
}

/// The facilities of syslog(3) with their numbers.
pub const FACILITIES: [(&str, u8); 20] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("cron", 9),
    ("authpriv", 10),
    ("ftp", 11),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];
