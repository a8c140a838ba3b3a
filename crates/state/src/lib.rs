//! The state engine: from SLS data to high data and low chunks, and their run.
//!
//! The words are Salt's. *SLS data* is what a state file renders to. *High data* is the union of all SLS data of a run: one
//! entry per id. A *low chunk* is one call of a state function. The way is [`declare`] (what one file says), [`high`]
//! (extend, verify, requisites that were declared at the other end, exclude), [`low`] (chunks), [`graph`] (their order), [`run`].
//! All of it but the run is a matter of data alone.

pub mod declare;
pub mod gather;
pub mod graph;
pub mod high;
pub mod keywords;
pub mod low;
pub mod run;
pub mod tag;

pub use graph::Graph;
pub use low::{Chunks, Settings};
pub use run::{How, Run, World};

/// Which state functions exist.
pub trait Known: Send + Sync {
    /// Says whether there is a state function of this name, such as `service.mod_watch`.
    fn has(&self, fun: &str) -> bool;
}

impl Known for exec::Registry {
    fn has(&self, fun: &str) -> bool {
        self.find_permitted(fun).is_ok()
    }
}
