//! Panics of libraries that are an answer and no bug.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work that may panic over bad input, and returns `None` if it does. The log says nothing of such a panic.
///
/// Nothing that `work` has changed may be used after a panic.
pub fn expected<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = EXPECTED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work)).ok();
    EXPECTED.set(before);
    done
}

/// Returns whether a panic of this thread would be expected at the moment.
pub fn is_expected() -> bool {
    EXPECTED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_expected_within_the_work_only() {
        assert_eq!(expected(|| (is_expected(), expected(is_expected))), Some((true, Some(true))));
        assert_eq!(expected(|| -> u8 { panic!("bad input") }), None);
        assert!(!is_expected());
    }
}
