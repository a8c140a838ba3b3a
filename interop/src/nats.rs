//! The real server of NATS.

use std::path::PathBuf;

/// The variable that names it.
const VARIABLE: &str = "SALTERN_NATS_SERVER";

/// Returns the program `nats-server`: the one that `SALTERN_NATS_SERVER` names, or the one in `PATH`.
pub fn nats_server() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    named.or_else(|| std::env::split_paths(&paths).map(|dir| dir.join("nats-server")).find(|path| path.is_file()))
}

/// The same for a scenario: says that it is skipped if there is none. Panics where skipping is not permitted (`CI=true`).
pub fn nats_server_or_skip() -> Option<PathBuf> {
    let found = nats_server();
    if found.is_none() {
        let sentence = format!("nats-server is not installed (PATH, {VARIABLE}); `cargo xtask salt` installs it");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{sentence}");
        println!("skipped: {sentence}");
    }
    found
}
