//! The system's log (RFC 3164 over `/dev/log`), for `ErrorLog syslog`.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::process::Pid;

/// The socket of the system's log.
const PATH: &str = "/dev/log";

/// The system's log. It may come and go: each message connects anew, as with syslog(3).
#[derive(Debug)]
pub struct Syslog {
    socket: UnixDatagram,
    path: PathBuf,
    facility: u8,
    tag: String,
}

impl Syslog {
    /// Opens it. `facility` is one of [`FACILITIES`]' numbers; `tag` is the name before each message.
    pub fn open(facility: u8, tag: &str) -> io::Result<Syslog> {
        Syslog::at(PATH.as_ref(), facility, tag)
    }

    fn at(path: &Path, facility: u8, tag: &str) -> io::Result<Syslog> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Syslog { socket, path: path.to_path_buf(), facility, tag: tag.to_string() })
    }

    /// Writes a message; `severity` goes from 0 (emergency) to 7 (debug). Never waits.
    pub fn write(&self, severity: u8, text: &str) -> io::Result<()> {
        let priority = u32::from(self.facility) * 8 + u32::from(severity.min(7));
        let message = format!("<{priority}>{}[{}]: {text}", self.tag, Pid::own());
        self.socket.send_to(message.as_bytes(), &self.path)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_the_system_may_come_later_and_come_again() {
        let path = std::env::temp_dir().join(format!("tsubame-syslog-{}", Pid::own()));
        let syslog = Syslog::at(&path, 23, "httpd").expect("it need not be there");
        assert!(syslog.write(3, "lost").is_err());
        for _ in 0..2 {
            let log = UnixDatagram::bind(&path).expect("bind");
            syslog.write(3, "kept").expect("it is there");
            let mut buffer = [0; 100];
            let length = log.recv(&mut buffer).expect("a message");
            let want = format!("<187>httpd[{}]: kept", Pid::own());
            assert_eq!(String::from_utf8_lossy(&buffer[..length]), want);
            std::fs::remove_file(&path).expect("remove");
        }
    }
}
