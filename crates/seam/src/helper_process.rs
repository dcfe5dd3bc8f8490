//! Processes beside the children.

use std::fmt;
use std::io;

use sys::signal::SignalFd;

/// The life of a helper process, from its first moment to its last; orders come as signals.
pub type HelperMain = Box<dyn Fn(&SignalFd) -> io::Result<()> + Send + Sync>;

/// A process that belongs to a configuration and serves no clients. The parent starts it before the children that may need
/// it, starts another one when it ends, and tells it to leave (`SIGUSR1`) when the last of those children has gone.
pub struct HelperProcess {
    /// What it is called in log lines and in its title.
    pub name: &'static str,
    /// How many of them there are.
    pub count: usize,
    /// It stays who the parent is; the others become who the children are.
    pub privileged: bool,
    /// What it does.
    pub life: HelperMain,
}

impl fmt::Debug for HelperProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperProcess").field("name", &self.name).field("count", &self.count).finish_non_exhaustive()
    }
}
