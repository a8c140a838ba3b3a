//! The programs by name.

use std::process::ExitCode;

use crate::args::{Parsed, Program};

/// Runs a program with its parsed command line.
pub fn run(program: Program, parsed: Parsed) -> ExitCode {
    // A master has many threads that allocate; the others are short or mostly idle.
    match program {
        Program::SaltMaster => daemon::return_large_blocks(),
        _ => daemon::share_one_heap(),
    }
    match program {
        Program::Salt => crate::salt::main(parsed),
        Program::SaltCall => crate::salt_call::main(parsed),
        Program::SaltCp => crate::salt_cp::main(parsed),
        Program::SaltKey => crate::salt_key::main(parsed),
        Program::SaltApi => crate::salt_api::main(parsed),
        Program::SaltMaster => crate::salt_master::main(parsed),
        Program::SaltMinion => crate::salt_minion::main(parsed),
        Program::SaltRun => crate::salt_run::main(parsed),
    }
}
