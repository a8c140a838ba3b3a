//! A bug in what handles one request must not take its thread away from the others.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::error;

/// Does something, and ends it alone if it panics. What a panic leaves half done belongs to one request; whatever requests share
/// is whole after each change.
pub fn contained(work: impl FnOnce()) {
    // The panic itself is in the log already, with its place.
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        error!("a request stays unanswered because of a bug");
    }
}
