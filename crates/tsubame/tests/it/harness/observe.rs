//! Looking into a request from outside: an access log of our own tells what variables it had.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::harness::site::Site;
use crate::harness::wait::until;
use crate::harness::wire::{Client, Response};

/// A `CustomLog` that [`variable`] reads: the number of the request and the variable.
pub fn log_line(variable: &str) -> String {
    format!("LogFormat \"%{{X-Number}}i %{{{variable}}}e\" observed\nCustomLog logs/observed observed\n")
}

/// Adds a word to a variable: the words of all sections that apply stand in the order in which these were merged. (Apache
/// looks a value up once for lines in a row about the same variable: the first line is there to part them.)
pub fn add(variable: &str, word: &str) -> String {
    format!("SetEnvIf Request_URI . parted\nSetEnvIf {variable} \"^(.*)$\" \"{variable}=$1 {word}\"\n")
}

/// Sends `line` with a number, and reads what the log says of it; `-` is an unset variable.
pub fn variable(site: &Site, client: &mut Client, line: &str, fields: &str) -> (Response, String) {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let response = client.request(format!("{line}\r\n{fields}X-Number: {number}\r\nConnection: close\r\n\r\n"));
    let prefix = format!("{number} ");
    let logged = until("the line of the access log", || {
        let log = site.read("logs/observed");
        log.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_string))
    });
    (response, logged.trim().to_string())
}
