//! The output that all programs share: texts, and errors of the command line.

use std::io::Write;
use std::process::ExitCode;

use crate::args::Program;
use crate::args::help::usage;
use crate::exit_codes;

/// Prints a text. A closed output is not an error.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints what is wrong with a command line, in the form of Salt's programs, and returns the exit code.
pub fn usage_error(program: Program, text: &str) -> ExitCode {
    rt::complain!("{}\n{}: error: {text}", usage(program), program.name());
    ExitCode::from(exit_codes::USAGE)
}
