//! The programs: flags, outputters, exit codes.
