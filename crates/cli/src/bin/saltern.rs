//! The one program.

use std::process::ExitCode;

fn main() -> ExitCode {
    saltern_cli::main(std::env::args_os())
}
