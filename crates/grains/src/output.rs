//! The output of a program that a grain asks.

/// The output of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its output, without the last line's end.
    pub stdout: String,
}
