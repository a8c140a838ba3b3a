//! Master and minion settings: layered, checked, with Salt's option names and defaults.
//!
//! [`Master::load`] and [`Minion::load`] read the main file, then `default_include`, then `include`; merge the options over the
//! defaults; resolve paths below `root_dir`; find the id; and merge the command-line flags over the rest. The result never changes
//! afterwards. The fields have the names of the options, in groups; `raw` has all options, including unknown ones, as Salt shows
//! them.
//!
//! A known option of a wrong type is an error with file and line. Unknown options are kept silently. Oddities are lines in
//! `warnings`, because the log is not open yet.

pub mod bus;
mod bus_ports;
mod check;
mod cluster;
mod common;
pub mod effects;
mod error;
mod fields;
pub mod glob;
pub mod host;
mod id;
mod lookup;
mod machine;
mod master;
mod masters;
mod member_keys;
mod minion;
mod opts;
mod origin;
mod paths;
mod period;
mod prepare;
mod read;
mod saltfile;
mod secret;
mod table;

use std::path::{Path, PathBuf};

use value::{Map, Value};

pub use bus_ports::BusPorts;
pub use cluster::{Cluster, ClusterRole, Once};
pub use common::{CertReqs, FileSettings, IpcMode, Keepalive, Log, Output, PillarSettings, Roots, Tls, Transport};
pub use error::Error;
pub use fields::typed_fields;
pub use lookup::{DEFAULTS, Lookup};
pub use machine::Machine;
pub use master::{Access, ClientSettings, EventSettings, JobSettings, Master, MasterKeys, MasterNetwork, MasterPaths};
pub use masters::{MasterAddress, MasterType, UriFormat, parse_master, parse_masters};
pub use minion::{GrainSettings, LinkSettings, Login, Minion, MinionJobs, MinionNetwork, MinionPaths, Trust};
pub use opts::FromOption;
pub use origin::{Origin, Origins};
pub use period::period;
pub use prepare::UNIX_PATH_MAX;
pub use saltfile::{Saltfile, client_file};
pub use secret::Secret;

/// The default configuration directory.
pub const CONFIG_DIR: &str = "/etc/salt";

/// The side whose options are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A master and the programs on its host.
    Master,
    /// A minion and `salt-call`.
    Minion,
}

impl Role {
    /// Returns `master` or `minion`, the name of the main file.
    pub fn name(self) -> &'static str {
        match self {
            Role::Master => "master",
            Role::Minion => "minion",
        }
    }

    fn default_include(self) -> &'static str {
        match self {
            Role::Master => "master.d/*.conf",
            Role::Minion => "minion.d/*.conf",
        }
    }

    fn file_variable(self) -> &'static str {
        match self {
            Role::Master => "SALT_MASTER_CONFIG",
            Role::Minion => "SALT_MINION_CONFIG",
        }
    }
}

/// The main file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path; it need not exist.
    pub path: PathBuf,
}

impl Source {
    /// Finds the main file: `-c` wins, then the variable that names a file, then `SALT_CONFIG_DIR`, then `/etc/salt`.
    ///
    /// A variable whose file does not exist is ignored.
    pub fn find(role: Role, config_dir: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Self {
        // `-c /etc/salt` counts as no `-c`, as in Salt, where the flag's default cannot be distinguished from the same
        // value given explicitly.
        if let Some(directory) = config_dir.filter(|directory| *directory != Path::new(CONFIG_DIR)) {
            let directory = paths::absolute(&table::expand_home(&directory.display().to_string()));
            return Source { path: Path::new(&directory).join(role.name()) };
        }
        let named = |name: &str| variable(name).filter(|value| !value.is_empty());
        // A variable that names a missing file is skipped. A stale variable must not hide the real configuration.
        if let Some(path) = named(role.file_variable()).map(PathBuf::from).filter(|path| path.is_file()) {
            return Source { path };
        }
        match named("SALT_CONFIG_DIR").filter(|_| config_dir.is_none()) {
            Some(directory) => Source { path: PathBuf::from(paths::absolute(&directory)).join(role.name()) },
            None => Self::default_for(role),
        }
    }

    /// Like [`Source::find`], with the variables of this process.
    pub fn from_env(role: Role, config_dir: Option<&Path>) -> Self {
        Self::find(role, config_dir, |name| std::env::var(name).ok())
    }

    /// Returns the main file below `/etc/salt`.
    pub fn default_for(role: Role) -> Self {
        Source { path: Path::new(CONFIG_DIR).join(role.name()) }
    }

    /// Returns the directory of the main file.
    pub fn directory(&self) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).to_owned()
    }
}

/// Additional inputs of the settings.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Options from command-line flags, which override everything.
    pub overlay: Map,
    /// The program's name, for the option `__cli`.
    pub program: String,
    /// Cache a found id in the file `minion_id`. Daemons do, programs do not.
    pub cache_minion_id: bool,
    /// The id, unless a file sets one.
    pub minion_id: Option<String>,
}

/// Merges the flags, and checks what can only be checked at the end.
fn finish(opts: &mut opts::Opts, source: &Source, load: &LoadOptions) -> Result<(), Error> {
    opts.set("config_dir", source.directory().display().to_string());
    let quiet = opts.map.get("log_level_logfile").is_none_or(|level| !level.truthy());
    if quiet && load.overlay.contains_key("log_level") {
        // As in Salt, `-l` sets the level of the console, and not that of the log file.
        opts.set("log_level_logfile", opts.text("log_level"));
    }
    for (name, value) in &load.overlay {
        let name = name.to_string();
        // The value no longer is the one in the file, and an error must not point there.
        opts.origins.remove(&name);
        opts.set(&name, value.clone());
    }
    // Found at startup, where it can be explained, not when the first socket fails to bind.
    let longest = ["publish_pull.ipc", "master_event_pull.ipc", "minion_event_0123456789_pull.ipc"];
    let sock_dir = opts.text("sock_dir");
    // Daemons need sockets. Programs that connect to one report the error when they do; the others need none.
    let is_daemon = ["salt-master", "salt-minion", ""].contains(&load.program.as_str());
    let unix = opts.map.get("ipc_mode").and_then(Value::as_str) != Some("tcp");
    if is_daemon && unix && longest.iter().any(|name| sock_dir.len() + 1 + name.len() > UNIX_PATH_MAX) {
        return Err(opts.wrong(
            "sock_dir",
            format!("short enough for socket paths of at most {UNIX_PATH_MAX} bytes (or set 'ipc_mode: tcp')"),
        ));
    }
    Ok(())
}
