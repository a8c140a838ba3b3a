//! Paths as Python joins and cleans them.

use std::path::{Component, Path, PathBuf};

/// Joins paths as `os.path.join` does.
pub(crate) fn join(base: &str, rest: &str) -> String {
    if rest.starts_with('/') || base.is_empty() {
        rest.to_owned()
    } else if rest.is_empty() || base.ends_with('/') {
        format!("{base}{rest}")
    } else {
        format!("{base}/{rest}")
    }
}

/// Makes a path absolute without following links.
pub(crate) fn absolute(path: &str) -> String {
    let path = Path::new(path);
    let whole =
        if path.is_absolute() { path.to_owned() } else { std::env::current_dir().unwrap_or_default().join(path) };
    let mut clean = PathBuf::new();
    for part in whole.components() {
        match part {
            // As `os.path.abspath`: by the text alone. Following links would change what the operator wrote.
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean.display().to_string()
}
