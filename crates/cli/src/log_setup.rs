//! Opens the log of a program.

use config::Log;

use crate::args::Program;

/// Opens the log: warnings and worse on the console, and a file for the programs that have one.
///
/// A log that cannot be opened does not keep a command from working; it is said once.
pub fn program(program: Program, log: &Log, file: Option<&str>) {
    let settings = logging::Settings { file, ..logging::Settings::program(log) };
    if let Err(error) = logging::init(&settings) {
        if file.is_none() {
            return eprintln!("{}: warning: {}", program.name(), crate::prepare::chain(&error));
        }
        // An ordinary user may list keys but not write to the log file.
        if let Err(error) = logging::init(&logging::Settings::program(log)) {
            eprintln!("{}: warning: {}", program.name(), crate::prepare::chain(&error));
        }
    }
}
