//! The command line of `git`, with a clean environment.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Variables that `git` and its child programs may need. All others, above all git's own, are removed.
const PASSED_VARIABLES: [&str; 23] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "SSH_AUTH_SOCK",
    "KRB5CCNAME",
    "KRB5_CONFIG",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "GIT_EXEC_PATH",
];

/// Returns the program for a repository, in a clean environment and without a terminal.
pub(crate) fn command(repository: &Path) -> Command {
    let mut command = Command::new("git");
    // Variables such as `GIT_DIR` or `GIT_CONFIG_GLOBAL` of the caller would redirect the program.
    command.env_clear();
    for name in PASSED_VARIABLES {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let own = nix::unistd::geteuid();
    if !is_home_of(own.as_raw())
        && let Ok(Some(user)) = nix::unistd::User::from_uid(own)
    {
        command.env("HOME", user.dir);
    }
    command.envs([
        // Messages are searched for signs of damage, so they must be in English.
        ("LC_ALL", "C"),
        ("LANGUAGE", "C"),
        // A daemon has no terminal. A question would make it hang until the timeout.
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "/bin/false"),
        ("SSH_ASKPASS", "/bin/false"),
        ("SSH_ASKPASS_REQUIRE", "force"),
        // Above all not `ext`, which runs any command.
        ("GIT_ALLOW_PROTOCOL", "file:http:https:ssh:ftp:ftps"),
        ("GIT_OPTIONAL_LOCKS", "0"),
    ]);
    command.env("GIT_DIR", repository);
    // A separate process group, so that a timeout kills ssh and helpers too.
    command.current_dir("/").stdin(Stdio::null()).process_group(0);
    command
}

/// Returns whether `HOME` belongs to this user: a daemon that has switched users must not read the first user's settings.
fn is_home_of(user: u32) -> bool {
    let home = std::env::var_os("HOME").and_then(|home| std::fs::metadata(home).ok());
    home.is_some_and(|home| user == 0 || home.uid() == user)
}
