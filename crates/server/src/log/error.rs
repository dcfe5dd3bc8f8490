//! The error log.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fmt, io};

use conf::{Context, Level};
use sys::syslog::Syslog;

use super::format::{About, Entry, Format};
use super::{Levels, LogFile};
use crate::paths::dir_name;

/// The destination of messages if there is no `ErrorLog`.
pub(crate) const DEFAULT_NAME: &str = "logs/error_log";

/// The destination of a virtual host's messages.
#[derive(Debug)]
pub struct ErrorLog {
    name: String,
    target: Target,
    format: Format,
}

#[derive(Debug)]
enum Target {
    File(Arc<LogFile>),
    Syslog { facility: u8, tag: String, open: OnceLock<Mutex<Syslog>> },
}

impl ErrorLog {
    /// From `ErrorLog` and `ErrorLogFormat`.
    pub fn new(name: &str, format: Option<&str>, context: &Context) -> Result<ErrorLog, String> {
        let (name, target) = match name.strip_prefix("syslog") {
            Some(rest) if rest.is_empty() || rest.starts_with(':') => {
                let mut parts = rest.trim_start_matches(':').splitn(2, ':');
                let facility = parts.next().filter(|f| !f.is_empty()).unwrap_or("local7");
                let known = sys::syslog::FACILITIES.iter().find(|(name, _)| name.eq_ignore_ascii_case(facility));
                let Some((_, facility)) = known else {
                    return Err(format!("ErrorLog: '{facility}' is not a syslog facility"));
                };
                let tag = parts.next().unwrap_or("httpd").to_string();
                (name.to_string(), Target::Syslog { facility: *facility, tag, open: OnceLock::new() })
            }
            _ => {
                let path =
                    if name.starts_with('|') { name.to_string() } else { context.server_relative_as_written(name) };
                let file = LogFile::named(&path);
                (path, Target::File(file))
            }
        };
        Ok(ErrorLog { name, target, format: format.map_or_else(|| Ok(Format::standard()), Format::parse)? })
    }

    /// The directory of its file, with a slash at its end; `None` if it is not a file, or hangs.
    pub(crate) fn directory(name: &str, context: &Context) -> Option<String> {
        let elsewhere = name.starts_with('|') || name == "syslog" || name.starts_with("syslog:");
        let path = (!elsewhere).then(|| context.server_relative_as_written(name)).filter(|path| !super::hangs(path))?;
        Some(dir_name(&path).to_string())
    }

    /// The path, command or `syslog:…`.
    pub fn path(&self) -> &str {
        &self.name
    }

    /// Opens it; runs as root.
    pub fn open(&self) -> io::Result<()> {
        match &self.target {
            Target::File(file) => file.open(),
            Target::Syslog { facility, tag, open } => {
                if open.get().is_none() {
                    let _ = open.set(Mutex::new(Syslog::open(*facility, tag)?));
                }
                Ok(())
            }
        }
    }

    /// From now on, programs that read logs write their errors there.
    pub(crate) fn take_messages_of_programs(&self) {
        if let Target::File(file) = &self.target {
            super::program::messages_go_to(file);
        }
    }

    /// Makes it the standard error output of this process. A program that reads a log keeps its own: its messages must
    /// not come back to it.
    pub fn take_standard_error(&self) -> io::Result<()> {
        match &self.target {
            // Replacing the one before would wait, too.
            Target::File(file) if file.hangs() => Ok(()),
            Target::File(file) => file.descriptor().map_or(Ok(()), sys::process::set_standard_error),
            Target::Syslog { .. } => Ok(()),
        }
    }

    /// Writes a message about a request.
    pub(crate) fn write_for(
        &self,
        about: &dyn About,
        module: &str,
        level: Level,
        error: Option<&io::Error>,
        text: &str,
    ) {
        self.entry(&Entry { about: Some(about), module, level, error, text });
    }

    /// Writes a message about the server.
    pub fn write(&self, module: &str, level: Level, text: &str) {
        self.entry(&Entry { about: None, module, level, error: None, text });
    }

    fn entry(&self, entry: &Entry<'_>) {
        match &self.target {
            Target::File(file) => {
                let mut line = self.format.line(entry);
                line.push('\n');
                let bytes = http::text::to_bytes(&line);
                runtime::recent::note(entry.level, bytes.trim_ascii_end());
                // Messages are rare and wanted at once, so they are not buffered.
                file.append(&bytes);
                file.flush();
            }
            Target::Syslog { open, .. } => {
                runtime::recent::note(entry.level, &http::text::to_bytes(entry.text));
                if let Some(syslog) = open.get() {
                    let severity = (entry.level as u8).min(Level::Debug as u8);
                    let text = format!("[{}:{}] {}", entry.module, entry.level.name(), entry.text);
                    // Nobody is left to complain to.
                    let _ = syslog.lock().unwrap_or_else(PoisonError::into_inner).write(severity, &text);
                }
            }
        }
    }
}

/// The main server's error log, for everything outside the server crate.
pub struct MainLog {
    /// The log.
    pub log: Arc<ErrorLog>,
    /// `LogLevel` of the main server.
    pub levels: Levels,
}

impl runtime::log::Log for MainLog {
    fn enabled(&self, module: &str, level: Level) -> bool {
        // Notices are always written, whatever the level (Apache manual, LogLevel).
        level == Level::Notice || level <= self.levels.of(module)
    }

    fn write(&self, module: &str, level: Level, text: fmt::Arguments<'_>) {
        self.log.write(module, level, &text.to_string());
    }
}
