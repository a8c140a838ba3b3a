//! The file and line that set an option.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Where an option was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<Path>,
    /// The line in it, from one, if it is known.
    pub line: Option<u64>,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file.display()),
            None => write!(f, "{}", self.file.display()),
        }
    }
}

/// Where the options of a daemon were set, by name. An option that is not here has its default.
pub type Origins = HashMap<String, Origin>;
