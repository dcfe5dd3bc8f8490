//! Decides which messages are written.

use conf::{Keyed, Level, Merge, Origin, Setting};

/// `LogLevel`: one level for all, and levels for single modules. An inner level with any `LogLevel` replaces it as a
/// whole.
#[derive(Clone, Debug, Default)]
pub struct LogLevels {
    /// For the modules not named.
    pub all: Setting<Level>,
    /// Level by module (log name).
    pub modules: Keyed<String, Level>,
}

impl LogLevels {
    /// The level of a module, if it is set here.
    pub fn of(&self, module: &str) -> Option<Level> {
        self.modules.get(module).or(self.all.get()).copied()
    }
}

impl Merge for LogLevels {
    fn merge(base: &Self, add: &Self) -> Self {
        if add.all.is_set() || !add.modules.is_empty() { add.clone() } else { base.clone() }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.all.origins(see);
        self.modules.origins(see);
    }
}

/// `LogLevel` of a virtual host, resolved.
#[derive(Clone, Debug)]
pub struct Levels {
    named: LogLevels,
}

impl Levels {
    /// From the directive's values; the default is `warn`.
    pub fn new(named: &LogLevels) -> Levels {
        Levels { named: named.clone() }
    }

    /// The level of a module: messages up to it are written.
    pub fn of(&self, module: &str) -> Level {
        if let Some(level) = runtime::log_levels::of(module) {
            return level;
        }
        self.named.of(module).unwrap_or(Level::Warn)
    }
}
