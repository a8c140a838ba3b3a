//! Opens the log of a program.

use std::path::{Path, PathBuf};

use config::Log;
use value::Map;

use crate::args::Program;

/// Opens the log of a program of the master's side: the console, and the master's log file; `salt-key` has its own.
///
/// A log that cannot be opened does not keep a command from working; it is said once.
pub fn on_master(program: Program, config: &config::Master) {
    let file = match program {
        Program::SaltKey => config.log.key_logfile.as_deref().unwrap_or_default(),
        _ => &config.log.log_file,
    };
    let place = own_place(file, &config.user, &config.access.publisher_acl);
    open(program, &config.log, place.as_deref().unwrap_or(file), &config.user);
    told(&config.warnings);
}

/// The same on the minion's side.
pub fn on_minion(program: Program, config: &config::Minion) {
    open(program, &config.log, &config.log.log_file, &config.user);
    told(&config.warnings);
}

/// Says what was found when the configuration was read, before there was a log.
pub fn told(warnings: &[String]) {
    logging::replay();
    for warning in warnings {
        tracing::warn!(target: "salt.config", "{warning}");
    }
}

fn open(program: Program, log: &Log, file: &str, user: &str) {
    let console = logging::Settings::program(log);
    let settings = logging::Settings { file: Some(file), user: Some(user), ..console.clone() };
    let Err(error) = logging::init(&settings) else { return };
    // An ordinary user may list keys but not write to the log file.
    eprintln!("{}: warning: {}", program.name(), crate::prepare::chain(&error));
    if let Err(again) = logging::init(&console)
        && again.to_string() != error.to_string()
    {
        eprintln!("{}: warning: {}", program.name(), crate::prepare::chain(&again));
    }
}

/// Returns where those write whom `publisher_acl` names, if they may not write to the master's log: a file of the same
/// name below Salt's directory in their home.
fn own_place(file: &str, user: &str, acl: &Map) -> Option<String> {
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten()?;
    let named = || acl.keys().any(|name| targeting::expr_match(&me.name, &name.to_string()));
    if me.name == user || file.contains("://") || may_write(Path::new(file)) || !named() {
        return None;
    }
    let config = std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| me.dir.join(".config"), PathBuf::from);
    let directory = Some(config.join("salt")).filter(|path| path.is_dir()).unwrap_or_else(|| me.dir.join(".salt"));
    let name = Path::new(file).file_name()?.to_string_lossy();
    Some(directory.join(format!("{name}.log")).display().to_string())
}

/// Whether a file, or a new one in its directory, can be written to.
fn may_write(file: &Path) -> bool {
    use nix::unistd::{AccessFlags, access};
    match access(file, AccessFlags::W_OK) {
        Err(nix::errno::Errno::ENOENT) => file.parent().is_some_and(|above| access(above, AccessFlags::W_OK).is_ok()),
        result => result.is_ok(),
    }
}
