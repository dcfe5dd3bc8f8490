//! The settings of pages with includes.

use conf::{Gathered, Setting, settings};

pub(super) const START: &str = "<!--#";
pub(super) const END: &str = "-->";
pub(super) const ERROR: &str = "[an error occurred while processing this directive]";
pub(super) const TIME_FORMAT: &str = "%A, %d-%b-%Y %H:%M:%S %Z";
pub(super) const UNDEFINED: &str = "(none)";
pub(super) const LEGACY: bool = false;
pub(super) const LAST_MODIFIED: bool = false;
pub(super) const ETAG: bool = false;

/// The meaning of a file's execute bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum XBitHack {
    Off,
    /// The owner's bit: the file is a page with includes.
    On,
    /// And the group's: clients may cache it as long as the file does not change.
    Full,
}

/// The beginning and the end of an element; a virtual host that sets one of them inherits none.
#[derive(Clone, Debug, Default)]
pub(super) struct Tags {
    pub(super) start: Option<String>,
    pub(super) end: Option<String>,
}

settings! {
    /// The module's settings of a server.
    pub struct IncludeServer {
        pub(super) tags: Gathered<Tags>,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct IncludeDir {
        pub(super) xbithack: Setting<XBitHack>,
        pub(super) error: Setting<String>,
        pub(super) time_format: Setting<String>,
        pub(super) undefined: Setting<String>,
        pub(super) legacy: Setting<bool> = LEGACY,
        pub(super) last_modified: Setting<bool> = LAST_MODIFIED,
        pub(super) etag: Setting<bool> = ETAG,
    }
}
