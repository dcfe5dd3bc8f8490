//! Processes and threads: how they start, serve, wait, restart, and survive.

pub mod balanced;
pub mod beside_the_loop;
pub mod children;
pub mod clock;
pub mod control;
pub mod crowded;
pub mod faults;
pub mod listening;
pub mod load;
pub mod memory;
pub mod recycling;
pub mod shortage;
pub mod starting;
pub mod upgrade;
pub mod waiting;
pub mod wakeups;
pub mod watchdog;
