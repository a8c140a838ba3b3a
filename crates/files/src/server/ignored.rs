//! Paths that are never served.

use config::FileSettings;
use targeting::{Glob, PyRegex};

use crate::Result;

/// The options `file_ignore_regex` and `file_ignore_glob`.
pub(crate) struct Ignored {
    regex: Vec<PyRegex>,
    glob: Vec<Glob>,
}

impl Ignored {
    /// Reads the options.
    pub fn new(settings: &FileSettings) -> Result<Self> {
        let regexes = settings.file_ignore_regex.iter().map(|pattern| PyRegex::search(pattern));
        Ok(Ignored {
            regex: regexes.collect::<std::result::Result<_, _>>()?,
            glob: settings.file_ignore_glob.iter().map(|pattern| Glob::new(pattern)).collect(),
        })
    }

    /// Returns whether a path must not be served: pass the relative path for lists, the absolute one for look-ups.
    pub fn is_ignored(&self, path: &str) -> bool {
        self.regex.iter().any(|regex| regex.is_match(path)) || self.glob.iter().any(|glob| glob.matches(path))
    }
}
