//! What keeps a server from starting.

use std::io;

use crate::log::os_prefix;

/// Why a server cannot start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartError {
    /// The message that the server would end with.
    pub text: String,
    /// This user lacks a permission that root has.
    pub is_denied: bool,
}

impl StartError {
    /// An error of the system, whose number and text come before the message.
    pub fn of_system(error: &io::Error, message: &str) -> StartError {
        StartError { text: format!("{}{message}", os_prefix(error)), is_denied: sys::is_denied(error) }
    }
}

impl From<String> for StartError {
    /// An obstacle that no call of the system has reported.
    fn from(text: String) -> StartError {
        StartError { text, is_denied: false }
    }
}
