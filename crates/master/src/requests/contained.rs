//! Contains panics: a bug in the handler of one request must not end a thread that serves others.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::error;

/// Runs `work` and catches a panic. Unfinished state belongs to one request; shared state is consistent after each
/// change.
pub fn contained(work: impl FnOnce()) {
    // The panic itself is in the log already, with its place.
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        error!("a request stays unanswered because of a bug");
    }
}
