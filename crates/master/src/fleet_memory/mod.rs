//! What the master remembers for questions about its fleet: which jobs there are, how far they were, how highstates ended, and
//! whose questions are under way.

mod highstates;
mod index;
mod noting;
mod turns;

use std::sync::Arc;
use std::time::SystemTime;

use schedule::jiff::Timestamp;
use tokio::sync::Semaphore;
use value::{Map, map};

use highstates::Highstates;
use index::Index;
pub use index::Tally;
use noting::Noting;
use turns::Turns;

/// What is in memory for the questions.
#[derive(Default)]
pub struct FleetMemory {
    pub index: Index,
    pub noting: Noting,
    pub highstates: Highstates,
    pub turns: Turns,
    pub pages: Pages,
}

/// How many pages of returns are read at once.
pub struct Pages(pub Arc<Semaphore>);

impl Default for Pages {
    fn default() -> Self {
        Pages(Arc::new(Semaphore::new(4)))
    }
}

/// Why a question has no answer: a status of HTTP, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// The reason.
    pub reason: String,
}

impl Refused {
    /// Creates a refusal.
    pub fn new(status: u16, reason: impl Into<String>) -> Self {
        Refused { status, reason: reason.into() }
    }

    /// Returns the answer of the request.
    pub fn answer(self) -> Map {
        map! { "refused" => map! { "status" => self.status, "reason" => self.reason } }
    }

    /// The stores cannot be read; the log says why.
    pub fn unreadable(error: &dyn std::fmt::Display) -> Self {
        tracing::error!("{error}");
        Refused::new(500, "the master cannot read its stores: see its log")
    }
}

/// Writes a time as RFC 3339.
pub fn rfc3339(time: SystemTime) -> Option<String> {
    Timestamp::try_from(time).ok().map(|time| time.to_string())
}
