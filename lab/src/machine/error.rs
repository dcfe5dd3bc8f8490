//! One error type: what went wrong and, if we know it, what to do about it.

use std::fmt;
use std::path::Path;

/// The result of every fallible function of the laboratory.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A failure for a person: the fact, and the remedy if there is one.
#[derive(Debug)]
pub(crate) struct Error {
    what: String,
    remedy: Option<String>,
    status: u8,
}

impl Error {
    /// A failure without advice.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: None, status: 1 }
    }

    /// Sets the exit status, if it should not be 1.
    pub(crate) fn ending_with(mut self, status: u8) -> Self {
        self.status = status;
        self
    }

    /// The exit status of the laboratory.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    /// Adds advice for the user.
    pub(crate) fn advise(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n  try: {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Adds the action during which a lower layer failed.
pub(crate) trait Context<T> {
    /// Prefixes the failure with `doing`, for example "read /proc/stat".
    fn context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error::new(format!("cannot {}: {cause}", doing())))
    }
}

/// Reads a whole file as text; the error names the file.
pub(crate) fn read_text(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    std::fs::read_to_string(path).context(|| format!("read {}", path.display()))
}

/// Writes a whole file anew: removes the old file of that name first, and if that was a link, leaves its target as it
/// is.
pub(crate) fn write_anew(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
    use std::io::Write as _;
    let path = path.as_ref();
    let _ = std::fs::remove_file(path);
    let file = std::fs::File::create_new(path);
    file.and_then(|mut file| file.write_all(content.as_ref())).context(|| format!("write {}", path.display()))
}

/// Writes a whole file; the error names the file.
pub(crate) fn write_file(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    std::fs::write(path, content).context(|| format!("write {}", path.display()))
}
