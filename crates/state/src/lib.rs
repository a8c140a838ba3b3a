//! The state engine: compiles SLS data to high data and low chunks, and runs them.
//!
//! The terms are Salt's. *SLS data* is what a state file renders to. *High data* is the union of all SLS data of a run:
//! one entry per id. A *low chunk* is one call of a state function. The steps are [`declare`] (one file), [`high`]
//! (extend, verify, `*_in` requisites, exclude), [`low`] (chunks), [`graph`] (their order) and [`run`]. Every step
//! before the run is pure: data in, data out.

pub mod declare;
pub mod gather;
pub mod graph;
pub mod high;
pub mod keywords;
pub mod low;
pub mod run;
pub mod tag;
pub mod tops;

pub use graph::Graph;
pub use low::{Chunks, Settings};
pub use run::{How, Run, World};

/// A list of the state functions that exist, such as a registry.
pub trait StateFunctions: Send + Sync {
    /// Returns whether a state function of this name exists, such as `service.mod_watch`.
    fn has(&self, fun: &str) -> bool;
}

impl StateFunctions for exec::Registry {
    fn has(&self, fun: &str) -> bool {
        self.find_permitted(fun).is_ok()
    }
}
