//! Bytes on the wire and the time to the first byte: `%I`, `%O`, `%S` and `%^FB` of log formats.
//!
//! The connection counts the bytes, and mod_log_config, which is always there too, writes them.
//!
//! Apache manual: mod_logio.

use conf::directive::Args::Flag;
use conf::{Allowed, Directive, ModuleInfo, Setting, on_or_off, row, settings};
use server::Module;

pub(crate) static MODULE: Module = Module {
    info: ModuleInfo { id: "logio_module", source: "mod_logio.c", linked: true, directives: DIRECTIVES },
    hooks: &[],
};

#[rustfmt::skip]
const DIRECTIVES: &[Directive] = &[
    row("LogIOTrackTTFB", Allowed::ANY, Flag(|c, on| c.set(|d: &mut LogIoDir| &mut d.first_byte, on)), on_or_off(FIRST_BYTE), "Set to 'ON' to enable tracking time to first byte"),
];

/// Whether it is on by default.
const FIRST_BYTE: bool = false;

settings! {
    /// The module's settings of a section.
    pub struct LogIoDir {
        pub first_byte: Setting<bool> = FIRST_BYTE,
    }
}
