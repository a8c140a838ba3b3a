//! The programs by name.

use std::process::ExitCode;

use crate::args::{Parsed, Program};

/// Runs a program with what its command line said.
pub fn run(program: Program, parsed: Parsed) -> ExitCode {
    match program {
        Program::Salt => crate::salt::main(parsed),
        _ => {
            eprintln!("{}: not built yet", program.name());
            ExitCode::FAILURE
        }
    }
}
