//! Processes beside the children.

use std::fmt;
use std::io;

use sys::signal_fd::SignalFd;

/// The main function of a helper process; orders come as signals.
pub type HelperMain = Box<dyn Fn(&SignalFd) -> io::Result<()> + Send + Sync>;

/// A process that belongs to a configuration and serves no clients. The parent starts it before the children that may
/// need it, starts another one when it ends, and orders it to leave (`SIGUSR1`) when the last of those children has
/// gone.
pub struct HelperProcess {
    /// Its name in log lines and in its title.
    pub name: &'static str,
    /// How many of them run.
    pub count: usize,
    /// Whether it keeps the parent's user; the others become the children's user.
    pub privileged: bool,
    /// Whether it starts scripts: the kernel ends it, and those, before children when memory runs out.
    pub starts_scripts: bool,
    /// Its main function.
    pub life: HelperMain,
}

impl fmt::Debug for HelperProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperProcess").field("name", &self.name).field("count", &self.count).finish_non_exhaustive()
    }
}
