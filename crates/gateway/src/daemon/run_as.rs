//! Scripts that run as somebody else than the server: what the module that lets them do so is asked.

use std::ffi::{CStr, CString};
use std::fmt;

use sys::cred::Identity;
use sys::file::OpenDirectory;

use crate::command::Owner;

/// As whom a script is to run, for the child that asks a daemon for it.
#[derive(Clone, Copy, Debug)]
pub struct RunAs {
    /// Its owner.
    pub owner: Owner,
    /// What the error log says of a script that may not run as its owner, by the number that [`Owners::admit`] gave.
    pub refusal: fn(u64) -> String,
}

/// Who may own scripts. The daemons that ask are root, and become the owner only on the way into the script.
pub trait Owners: fmt::Debug + Send + Sync {
    /// Looks whether a program may run as that owner, and what is to be executed then. `Err`: why not, as a number.
    fn admit(&self, program: &CStr, owner: Owner) -> Result<Admitted<'_>, u64>;

    /// What is left of an environment for a script that runs as its owner.
    fn environment(&self, environment: &[CString]) -> Vec<CString>;
}

/// A program that may run as its owner: who that is, and what was looked at.
#[derive(Debug)]
pub struct Admitted<'a> {
    /// The owner.
    pub identity: &'a Identity,
    /// The directory that the program works in.
    pub directory: OpenDirectory,
    /// The program, in that directory.
    pub name: CString,
}
