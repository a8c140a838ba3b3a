//! What can be wrong with a configuration.

use std::path::PathBuf;

use crate::opts::Origin;

/// Why a configuration is not accepted. Every message names the file, and the line where it is known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("config: failed to read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not YAML.
    #[error("Error parsing configuration file: {} - {source}", path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: yaml::Error,
    },
    /// A file holds something else than options.
    #[error("Error parsing configuration file: {} - conf should be a document, not {kind}.", path.display())]
    NotAMap {
        /// The file.
        path: PathBuf,
        /// Python's name of what it holds.
        kind: &'static str,
    },
    /// An option has a wrong value.
    #[error("config: {}option '{name}' must be {must}, not {value}", place(origin))]
    Option {
        /// Where it was set; nowhere for a default or a flag.
        origin: Option<Origin>,
        /// The option.
        name: String,
        /// What it must be.
        must: String,
        /// What it is, shortened, and hidden for secrets.
        value: String,
    },
    /// An option limits who may do what, and cannot be obeyed.
    #[error(
        "config: {}option '{name}' is not supported ({reason}); it limits what is allowed, so nothing starts until it \
         is taken out",
        place(origin)
    )]
    Refused {
        /// Where it was set.
        origin: Option<Origin>,
        /// The option.
        name: String,
        /// Why it cannot be obeyed.
        reason: &'static str,
    },
    /// Files include each other without end.
    #[error("config: {} is included more than {limit} levels deep", path.display())]
    IncludeDepth {
        /// The file at the end of the chain.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// No id is set and none can be found.
    #[error("config: failed to find an id for this machine: {why}")]
    Id {
        /// What is in the way.
        why: String,
    },
}

fn place(origin: &Option<Origin>) -> String {
    origin.as_ref().map(|origin| format!("{origin}: ")).unwrap_or_default()
}
