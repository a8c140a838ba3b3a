//! The programs by name.

use std::process::ExitCode;

use crate::args::{Parsed, Program};

/// Runs a program with what its command line said.
pub fn run(program: Program, parsed: Parsed) -> ExitCode {
    if program != Program::SaltMaster {
        daemon::share_one_heap();
    }
    match program {
        Program::Salt => crate::salt::main(parsed),
        Program::SaltCall => crate::salt_call::main(parsed),
        Program::SaltCp => crate::salt_cp::main(parsed),
        Program::SaltKey => crate::salt_key::main(parsed),
        Program::SaltMaster => crate::salt_master::main(parsed),
        Program::SaltMinion => crate::salt_minion::main(parsed),
        Program::SaltRun => crate::salt_run::main(parsed),
    }
}
