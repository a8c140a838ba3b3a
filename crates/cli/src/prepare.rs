//! From flags to settings: the Saltfile, the configuration, and flags on top.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use config::{LoadOptions, Role, Saltfile, Source};
use value::error::chain;
use value::{Map, Value};

use crate::args::{Parsed, Program};
use crate::exit_codes;
use crate::terminal::usage_error;

/// The settings of a program on the master's side.
pub struct OnMaster {
    /// The master's settings.
    pub config: config::Master,
    /// All options: the configuration, flags over it, and presets where neither has a value.
    pub options: Map,
    /// The arguments that are not flags.
    pub arguments: Vec<String>,
}

/// The settings of a program on the minion's side.
pub struct OnMinion {
    /// The minion's settings.
    pub config: config::Minion,
    /// All options.
    pub options: Map,
    /// The arguments that are not flags.
    pub arguments: Vec<String>,
}

/// Reads the master's configuration for a program. The error is the exit code, and the reason has been printed.
pub fn on_master(program: Program, parsed: Parsed) -> Result<OnMaster, ExitCode> {
    // Messages that are logged before the log is open are kept until then.
    let _early = logging::Early::keep();
    let flags = Flags::read(program, parsed)?;
    let source = flags.source(Role::Master);
    let config = config::Master::load(&source, &flags.load_options(false)).map_err(|error| failed(&error))?;
    check_user(&config.user, config.paths.verify_env)?;
    if matches!(program, Program::SaltMaster | Program::SaltRun) {
        config.refuse_unsupported().map_err(|error| failed(&error))?;
    }
    Ok(OnMaster { options: flags.merge(&config.raw), config, arguments: flags.arguments })
}

/// Does the same for programs that send requests to the master: the user's `~/.saltrc` counts too.
pub fn on_master_as_client(program: Program, parsed: Parsed) -> Result<OnMaster, ExitCode> {
    let _early = logging::Early::keep();
    let mut flags = Flags::read(program, parsed)?;
    let own = config::client_file(|name| std::env::var(name).ok()).map_err(|error| failed(&error))?;
    for (name, value) in own {
        // The command line wins over `~/.saltrc`, which wins over the configuration.
        if name.as_str().is_some_and(|name| !flags.given.contains_key(name)) {
            flags.given.insert(name, value);
        }
    }
    let source = flags.source(Role::Master);
    let config = config::Master::load(&source, &flags.load_options(false)).map_err(|error| failed(&error))?;
    check_user(&config.user, config.paths.verify_env)?;
    Ok(OnMaster { options: flags.merge(&config.raw), config, arguments: flags.arguments })
}

/// Reads the minion's configuration for a program. Like Salt's, the minion and `salt-call` store an id that they
/// found.
pub fn on_minion(program: Program, parsed: Parsed) -> Result<OnMinion, ExitCode> {
    let _early = logging::Early::keep();
    let flags = Flags::read(program, parsed)?;
    let source = flags.source(Role::Minion);
    let config = config::Minion::load(&source, &flags.load_options(true)).map_err(|error| failed(&error))?;
    check_user(&config.user, config.paths.verify_env)?;
    config.refuse_unsupported().map_err(|error| failed(&error))?;
    Ok(OnMinion { options: flags.merge(&config.raw), config, arguments: flags.arguments })
}

/// Refuses a user that does not exist, as do all of Salt's programs that read the files of a daemon.
fn check_user(user: &str, verify_env: bool) -> Result<(), ExitCode> {
    let exists = || nix::unistd::User::from_name(user).is_ok_and(|found| found.is_some());
    if !verify_env || user.is_empty() || exists() {
        return Ok(());
    }
    rt::complain!("{}", daemon::Error::NoUser { user: user.to_owned() });
    Err(ExitCode::from(exit_codes::NO_USER))
}

/// Reports why the configuration cannot be used, in the form of a log line: as in Salt, a broken file is not a wrong
/// command line.
fn failed(error: &config::Error) -> ExitCode {
    let text = match error {
        // Python's form of the type.
        config::Error::NotAMap { path, kind } => {
            let path = path.display();
            format!("Error parsing configuration file: {path} - conf should be a document, not <class '{kind}'>.")
        }
        error => chain(error),
    };
    rt::complain!("[ERROR   ] {}", value::escape::for_terminal(&text));
    ExitCode::from(exit_codes::GENERIC)
}

/// The flags, and those of the Saltfile.
struct Flags {
    program: Program,
    /// The values from the command line or the Saltfile.
    given: Map,
    /// Values of flags that were not given.
    presets: Map,
    arguments: Vec<String>,
}

impl Flags {
    fn read(program: Program, parsed: Parsed) -> Result<Self, ExitCode> {
        let Parsed { settings, given: names, arguments } = parsed;
        let (mut given, mut presets) = (Map::new(), Map::new());
        for (name, value) in settings {
            let on_line = name.as_str().is_some_and(|name| names.contains(&name));
            if on_line { &mut given } else { &mut presets }.insert(name, value);
        }
        let named = given.get_str("saltfile").map(PathBuf::from);
        let saltfile = Saltfile::load(named.as_deref(), |name| std::env::var(name).ok());
        let saltfile = saltfile.map_err(|error| usage_error(program, &chain(&error)))?;
        // The command line wins.
        for (name, value) in saltfile.flags(program.name()).into_iter().flatten() {
            if name.as_str().is_some_and(|name| !given.contains_key(name)) {
                given.insert(name.clone(), value.clone());
            }
        }
        let mut flags = Flags { program, given, presets, arguments };
        flags.adjust()?;
        Ok(flags)
    }

    /// Converts values into the form of the options.
    fn adjust(&mut self) -> Result<(), ExitCode> {
        for name in ["state_verbose", "rotate_aes_key", "preserve_minions"] {
            if let Some(flag) = self.given.get_str(name).and_then(boolean) {
                self.given.insert(name, flag);
            }
        }
        for name in ["log_file", "key_logfile", "api_logfile"] {
            let bare = self.given.get_str(name).filter(|path| !path.is_empty() && !path.contains('/'));
            // A bare name means the working directory. As an option it would be below `root_dir`.
            if let Some(path) = bare.map(|path| format!("./{path}")) {
                self.given.insert(name, path);
            }
        }
        self.empty_output_file().map_err(|text| usage_error(self.program, &text))
    }

    /// Empties an existing output file, unless results are appended. As in Salt, it keeps its permissions.
    fn empty_output_file(&self) -> Result<(), String> {
        let append = self.given.get("output_file_append").is_some_and(Value::truthy);
        match self.given.get_str("output_file").map(Path::new) {
            Some(path) if !append && path.is_file() => std::fs::File::create(path)
                .map(drop)
                .map_err(|error| format!("{}: Access denied: {error}", path.display())),
            _ => Ok(()),
        }
    }

    fn source(&self, role: Role) -> Source {
        let directory = self.given.get_str("config_dir").map(PathBuf::from);
        let source = Source::from_env(role, directory.as_deref());
        // As in Salt, a warning is logged and the defaults are used.
        if !source.directory().is_dir() {
            rt::complain!("WARNING: CONFIG '{}' directory does not exist.", source.directory().display());
        }
        source
    }

    fn load_options(&self, cache_minion_id: bool) -> LoadOptions {
        let mut overlay = self.given.clone();
        // Its place is known by now, in its absolute form.
        overlay.remove("config_dir");
        LoadOptions { overlay, program: self.program.name().into(), cache_minion_id, ..LoadOptions::default() }
    }

    /// Puts presets below the configuration: they count where it has no value.
    fn merge(&self, configured: &Map) -> Map {
        let mut options = configured.clone();
        for (name, value) in &self.presets {
            if name.as_str().is_some_and(|name| options.get(name).is_none_or(Value::is_null)) {
                options.insert(name.clone(), value.clone());
            }
        }
        options
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Returns the outputters' settings for these options.
pub fn output_settings(options: &Map) -> outputters::Settings {
    use std::io::IsTerminal;
    let mut settings = outputters::Settings::from_options(options, std::io::stdout().is_terminal());
    if let Some(theme) = options.get_str("color_theme").filter(|theme| !theme.is_empty()) {
        let colored = !settings.colors.end.is_empty();
        match read_theme(Path::new(theme)) {
            Ok(theme) if colored => settings.colors = outputters::Colors::themed(&theme),
            Ok(_) => {}
            Err(error) => tracing::warn!("Failed to read the color theme {theme}: {error:#}"),
        }
    }
    settings
}

fn read_theme(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path)?;
    Ok(yaml::load(&text, &path.display().to_string())?)
}

/// Prints an error. It may quote a peer, so control characters are made harmless.
pub fn complain(program: &str, error: &anyhow::Error) {
    rt::complain!("{}", value::escape::for_terminal(&complaint(program, error)));
}

/// Returns what to print about an error. Salt's sentences about the system stand alone, as Salt prints them.
pub fn complaint(program: &str, error: &anyhow::Error) -> String {
    let switch = matches!(error.downcast_ref(), Some(daemon::Error::Switch { .. }));
    let text = match switch || error.is::<logging::Error>() {
        // It quotes its cause.
        true => error.to_string(),
        false => chain(error.as_ref()),
    };
    match error.downcast_ref::<daemon::Error>() {
        Some(daemon::Error::NoUser { .. } | daemon::Error::Directory { .. }) => text,
        _ => format!("{program}: error: {text}"),
    }
}

/// Prints an error and returns the exit code for it.
pub fn fail(program: Program, error: &anyhow::Error) -> ExitCode {
    complain(program.name(), error);
    ExitCode::from(exit_codes::GENERIC)
}

/// The size of the stacks of threads that run jobs: room for forty state runs inside each other. Unused parts take no memory.
pub const STACK: usize = 16 << 20;

/// The most threads for jobs and for short work that blocks. Each job holds one, and some wait for short work, so the number
/// must be larger than that of jobs; `process_count_max` bounds those.
pub const JOB_THREADS: usize = 16_384;

/// Returns a runtime with one thread, for a program that soon ends.
pub fn small_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().on_thread_start(rt::umask::start_thread).enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_taken_in_all_words_of_yaml() {
        let read = |text: &str| {
            let arguments = vec![format!("--rotate-aes-key={text}")];
            let parsed = crate::args::parse::parse(Program::SaltKey, arguments).unwrap();
            Flags::read(Program::SaltKey, parsed).ok().unwrap().given.get("rotate_aes_key").cloned()
        };
        assert!(["no", "Off", "false"].iter().all(|text| read(text) == Some(false.into())));
        assert!(["yes", "ON", "True"].iter().all(|text| read(text) == Some(true.into())));
    }

    #[test]
    fn a_cause_that_an_error_quotes_is_named_once() {
        let error = daemon::Error::Switch { user: "salt".into(), source: nix::Error::EPERM };
        let text = complaint("salt-run", &error.into());
        assert_eq!(text.matches("EPERM").count(), 1, "{text}");
    }
}
