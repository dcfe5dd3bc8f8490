//! The settings of mod_passenger.

use conf::{Level, Listed, Setting, settings};
use gateway::{StderrMessages, TimeoutMessage};

pub(super) const ENABLED: bool = true;
pub(super) const ENVIRONMENT: &str = "production";
pub(super) const STARTUP: &str = "config.ru";
/// The system's ruby.
pub(super) const RUBY: &str = "/usr/bin/ruby";
/// Where `restart.txt` is, within an application.
pub(super) const RESTART: &str = "tmp";
pub(super) const MIN: u64 = 1;
pub(super) const MAX: u64 = 6;
/// How long an idle process is kept, in seconds.
pub(super) const IDLE: u64 = 300;
/// Without a limit.
pub(super) const REQUESTS: u64 = 0;
pub(super) const QUEUE: u64 = 100;

pub(super) static TIMEOUT_MESSAGE: TimeoutMessage = TimeoutMessage {
    text: |request, time| format!("no output of {} for {} seconds", request.mapped.filename, time.as_secs()),
    level: Level::Error,
};

pub(super) const STDERR: StderrMessages =
    StderrMessages { text: |_, line| line.to_string(), level: |_| Some(Level::Error) };

settings! {
    /// The module's settings of a server.
    pub struct PassengerServer {
        pub(super) ruby: Setting<String>,
        pub(super) max: Setting<u64> = MAX,
        /// 0: as many as there may be together.
        pub(super) max_per_application: Setting<u64> = 0,
        pub(super) idle: Setting<u64> = IDLE,
    }
}

settings! {
    /// The module's settings of a section.
    pub struct PassengerDir {
        pub(super) enabled: Setting<bool> = ENABLED,
        pub(super) root: Setting<String>,
        /// The paths that belong to applications, without a slash at the end.
        pub(super) bases: Listed<String>,
        pub(super) environment: Setting<String>,
        pub(super) startup: Setting<String>,
        pub(super) restart: Setting<String>,
        pub(super) ruby: Setting<String>,
        pub(super) min: Setting<u64> = MIN,
        pub(super) requests: Setting<u64> = REQUESTS,
        pub(super) queue: Setting<u64> = QUEUE,
    }
}
