//! How much text the configuration may make for a request.

use std::sync::atomic::Ordering;

use conf::pattern::TooLong;

use crate::request::Request;

/// The longest text that the configuration may make for a request, in bytes: no program could get a longer one
/// (`MAX_ARG_STRLEN` of Linux). Lines that use their own results could double a text again and again.
pub const TEXT_MAX: usize = 128 * 1024;

/// How much text the configuration may make for a request in sum, in bytes: a file `.htaccess` may have thousands of
/// lines, and rules may be applied thousands of times.
const TEXT_SUM_MAX: usize = 4 * 1024 * 1024;

/// How many bytes each of these texts counts beside its own: it has to be kept, and to be found among the others.
const TEXT_OVERHEAD: usize = 256;

impl Request {
    /// Lets a text pass that a line of the configuration has made, and that the request keeps: neither it nor the sum of
    /// all such texts may be too long.
    ///
    /// # Errors
    /// The text is longer than [`TEXT_MAX`], or the sum is longer than 4 MiB, in which each text counts 256 bytes more.
    pub fn bounded(&self, text: String) -> Result<String, TooLong> {
        TooLong::check(text.len(), TEXT_MAX)?;
        let size = text.len() + TEXT_OVERHEAD;
        let before = self.made.fetch_add(size, Ordering::Relaxed);
        TooLong::check(before + size, TEXT_SUM_MAX)?;
        Ok(text)
    }
}
