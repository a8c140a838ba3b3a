//! Errors of the configuration.

use std::path::PathBuf;

use crate::origin::Origin;

/// The reasons why a configuration is invalid. Every message names the file, and the line if it is known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("config: failed to read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is not YAML.
    #[error("Error parsing configuration file: {} - {source}", path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// Position and reason.
        source: yaml::Error,
    },
    /// A file does not contain options.
    #[error("Error parsing configuration file: {} - conf should be a document, not {kind}.", path.display())]
    NotAMap {
        /// The file.
        path: PathBuf,
        /// Python's name of its type.
        kind: &'static str,
    },
    /// An option has an invalid value.
    #[error("config: {}option '{name}' must be {must}, not {value}", place(origin))]
    Option {
        /// Where it was set; `None` for a default or a flag.
        origin: Option<Origin>,
        /// The option.
        name: String,
        /// The expected value.
        must: String,
        /// The actual value, shortened, and hidden for secrets.
        value: String,
    },
    /// An option restricts who may do what, and cannot be enforced.
    #[error(
        "config: {}option '{name}' is not supported ({reason}); it restricts access, so nothing starts until it \
         is removed",
        place(origin)
    )]
    Refused {
        /// Where it was set.
        origin: Option<Origin>,
        /// The option.
        name: String,
        /// The reason why it cannot be enforced.
        reason: &'static str,
    },
    /// Files include each other endlessly.
    #[error("config: {} is included more than {limit} levels deep", path.display())]
    IncludeDepth {
        /// The file at the end of the chain.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// No id is configured and none can be found.
    #[error("config: failed to find an id for this machine: {why}")]
    Id {
        /// The reason.
        why: String,
    },
}

fn place(origin: &Option<Origin>) -> String {
    origin.as_ref().map(|origin| format!("{origin}: ")).unwrap_or_default()
}
