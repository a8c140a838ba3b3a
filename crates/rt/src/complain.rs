//! Lines for the person at the terminal.

/// Writes a line to standard error, as `eprintln` does. A standard error that nobody reads any more, as in `2>&1 | head`, is no
/// reason to panic: the exit code says what became of the command.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => {{
        use ::std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stderr(), $($text)*);
    }};
}
