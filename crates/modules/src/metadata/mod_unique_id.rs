//! `UNIQUE_ID`: an identifier that no other request has, here or on other machines.
//!
//! Apache manual: mod_unique_id. As in 2.4.71 it is 27 letters for 20 bytes: the time of the request in seconds, and a
//! number unique to the thread.

use conf::ModuleInfo;
use server::PhaseHook::Now;
use server::unique::push_letters;
use server::{Flow, Hook, Module, Order, Phase, Request, Unique};

/// The module. If it is loaded, its id is also that of log lines (`%L`).
pub static MODULE: Module = Module {
    info: ModuleInfo { id: "unique_id_module", source: "mod_unique_id.c", linked: false, directives: &[] },
    hooks: &[
        Hook::Repeatable,
        Hook::OwnVariable(NAME, |_, text| write(text)),
        Hook::Phase(Phase::PostRead, Order::Middle, Now(set)),
        Hook::LogId(id),
    ],
};

/// The variable with the request's id.
pub(crate) const NAME: &str = "UNIQUE_ID";

/// Gives a request its id, unless it has one.
pub(crate) fn set(request: &mut Request) -> Flow {
    // The error log may have been first.
    match request.log_id().map(str::to_string).or_else(|| known(request)) {
        Some(id) => request.env.set(NAME, id),
        None => request.set_own_variable(NAME, |_, text| write(text)),
    }
    Flow::Declined
}

/// The request's id; a new one if there is none.
fn id(request: &Request) -> String {
    known(request).unwrap_or_else(fresh)
}

/// The id that the request has, perhaps from before an internal redirect.
fn known(request: &Request) -> Option<String> {
    let before = || request.previous()?.env.get(NAME);
    request.env.get(NAME).or_else(before).map(str::to_string)
}

fn fresh() -> String {
    let mut text = String::new();
    write(&mut text);
    text
}

/// Appends a new id.
fn write(text: &mut String) {
    let since_1970 = sys::time::realtime_coarse();
    let mut bytes = [0; 20];
    // The seconds wrap in 2106.
    bytes[..4].copy_from_slice(&(since_1970.as_secs() as u32).to_be_bytes());
    bytes[4..].copy_from_slice(&Unique::draw().bytes());
    push_letters(&bytes, text);
}
