//! The time of day.

use std::time::SystemTime;

/// Tells the time of day.
pub trait Clock: Send + Sync {
    /// Returns the time now.
    fn now(&self) -> SystemTime;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A function is a clock, for simulations that keep their own time.
impl<F: Fn() -> SystemTime + Send + Sync> Clock for F {
    fn now(&self) -> SystemTime {
        self()
    }
}
