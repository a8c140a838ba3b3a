//! Opens the log of a program.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use config::Log;
use value::Map;

use crate::args::Program;
use crate::exit_codes;

/// Opens the log of a program on the master's side: the console, and the master's log file. `salt-key` has its own.
///
/// A log that cannot be opened does not stop a command; the reason is printed once.
pub fn on_master(program: Program, config: &config::Master) {
    let file = match program {
        Program::SaltKey => config.log.key_logfile.as_deref().unwrap_or_default(),
        _ => &config.log.log_file,
    };
    let place = own_place(file, &config.user, &config.access.publisher_acl);
    open(program, &config.log, place.as_deref().unwrap_or(file), &config.user);
    log_config(&config.paths.conf_file, &config.warnings);
}

/// Does the same on the minion's side.
pub fn on_minion(program: Program, config: &config::Minion) {
    open(program, &config.log, &config.log.log_file, &config.user);
    log_config(&config.paths.conf_file, &config.warnings);
}

/// Logs which file was read and what was found in it, before there was a log.
pub fn log_config(file: &Path, warnings: &[String]) {
    logging::replay();
    tracing::debug!(target: "salt.utils.parsers", "Configuration file path: {}", file.display());
    for warning in warnings {
        tracing::warn!(target: "salt.config", "{warning}");
    }
}

fn open(program: Program, log: &Log, file: &str, user: &str) {
    let (log, unknown_levels) = with_known_levels(log);
    open_known(program, &log, file, user);
    complain_about_levels(&unknown_levels);
}

fn open_known(program: Program, log: &Log, file: &str, user: &str) {
    let console = logging::Settings::program(log);
    let settings = logging::Settings { file: Some(file), user: Some(user), ..console.clone() };
    let Err(error) = logging::init(&settings) else { return };
    // An ordinary user may list keys but not write to the log file. The error quotes its cause.
    rt::complain!("{}: warning: {error}", program.name());
    if let Err(again) = logging::init(&console)
        && again.to_string() != error.to_string()
    {
        rt::complain!("{}: warning: {again}", program.name());
    }
}

/// Replaces words that are not log levels by `error`, as Salt does, and returns them too: a wrong word must not turn
/// the log off.
pub fn with_known_levels(log: &Log) -> (Log, Vec<String>) {
    let mut log = log.clone();
    let mut unknown = Vec::new();
    let mut known = |word: &str| {
        if logging::Level::parse(word).is_some() {
            return None;
        }
        unknown.push(word.to_owned());
        Some("error")
    };
    if let Some(level) = known(&log.log_level) {
        log.log_level = level.into();
    }
    if let Some(level) = log.log_level_logfile.as_deref().and_then(&mut known) {
        log.log_level_logfile = Some(level.into());
    }
    for (_, level) in log.log_granular_levels.iter_mut() {
        if let Some(replaced) = known(&level.to_string()) {
            *level = replaced.into();
        }
    }
    (log, unknown)
}

/// Reports words that are not log levels. Salt's line is a warning, which the level `error` would hide.
pub fn complain_about_levels(unknown: &[String]) {
    for word in unknown {
        tracing::error!(
            target: "salt._logging.impl",
            "Could not translate the logging level string '{word}' into an actual logging level integer. Returning \
             'logging.ERROR'."
        );
    }
}

/// Returns Salt's exit code for a log that cannot be opened.
pub fn status(error: &logging::Error) -> u8 {
    match error {
        logging::Error::Syslog { .. } => exit_codes::UNAVAILABLE,
        logging::Error::Open { source, .. } if source.kind() == ErrorKind::IsADirectory => exit_codes::USAGE,
        _ => exit_codes::GENERIC,
    }
}

/// Adds Salt's explanation of what is wrong with the path of a log.
pub fn explained(error: logging::Error) -> anyhow::Error {
    let explanation = match &error {
        logging::Error::Open { path, source } => match source.kind() {
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                let directory = path.parent().unwrap_or(path);
                format!("Failed to create path {}, is {} a file?", path.display(), directory.display())
            }
            ErrorKind::PermissionDenied => {
                format!("No permissions to access \"{}\", are you running as the correct user?", path.display())
            }
            _ => return error.into(),
        },
        _ => return error.into(),
    };
    anyhow::Error::new(error).context(explanation)
}

/// Returns where those write whom `publisher_acl` names, if they may not write to the master's log: a file of the same
/// name below Salt's directory in their home.
fn own_place(file: &str, user: &str, acl: &Map) -> Option<String> {
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten()?;
    let named = || acl.keys().any(|name| targeting::expr_match(&me.name, &name.to_string()));
    // `://` is a syslog address; it has no permissions.
    if me.name == user || file.contains("://") || may_write(Path::new(file)) || !named() {
        return None;
    }
    // Salt's place: the XDG directory if there is one for Salt, else `~/.salt`.
    let config = std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| me.dir.join(".config"), PathBuf::from);
    let directory = Some(config.join("salt")).filter(|path| path.is_dir()).unwrap_or_else(|| me.dir.join(".salt"));
    let name = Path::new(file).file_name()?.to_string_lossy();
    Some(directory.join(format!("{name}.log")).display().to_string())
}

/// Returns whether a file, or a new one in its directory, is writable.
fn may_write(file: &Path) -> bool {
    use nix::unistd::{AccessFlags, access};
    match access(file, AccessFlags::W_OK) {
        Err(nix::errno::Errno::ENOENT) => file.parent().is_some_and(|above| access(above, AccessFlags::W_OK).is_ok()),
        result => result.is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn words_that_are_no_levels_count_as_error() {
        let options = map! {
            "log_level" => "loud",
            "log_level_logfile" => "debug",
            "log_granular_levels" => map! { "salt" => "noisy", "salt.state" => "info" },
        };
        let config = config::Minion::from_options(options).unwrap();
        let (log, unknown) = with_known_levels(&config.log);
        assert_eq!(unknown, ["loud", "noisy"]);
        assert_eq!((log.log_level.as_str(), log.log_level_logfile.as_deref()), ("error", Some("debug")));
        assert_eq!(log.log_granular_levels, map! { "salt" => "error", "salt.state" => "info" });
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        for (path, status_wanted, text) in [
            (directory.path().join("file/log"), 1, "Failed to create path"),
            (directory.path().to_owned(), 64, "do you have permission to write to"),
            ("udp://127.0.0.1:1/LOG_NOPE".into(), 69, "The syslog facility 'LOG_NOPE' is not known"),
        ] {
            let config = config::Minion::from_options(map! { "log_file" => path.display().to_string() }).unwrap();
            let error = logging::SaltLog::new(&logging::Settings::daemon(&config.log, "root")).unwrap_err();
            assert_eq!(status(&error), status_wanted, "{error}");
            let shown = crate::prepare::complaint("salt-minion", &explained(error));
            assert!(shown.contains(text), "{shown}");
        }
    }
}
