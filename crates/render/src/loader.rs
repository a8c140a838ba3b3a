//! The sources of templates that others import or include.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that a template includes or imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its content.
    pub text: Arc<str>,
    /// Its path on this machine, for error messages.
    pub path: PathBuf,
}

/// Loads files for templates: on a minion from the master's file server, on a master from its own.
pub trait Loader: Send + Sync {
    /// Returns a file by its path below the roots of an environment; `None` when there is none. The path has no `..` parts.
    ///
    /// # Errors
    /// A message, if the file exists or may exist but cannot be read.
    fn load(&self, path: &str, saltenv: &str) -> Result<Option<Source>, String>;
}

/// A loader without files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, _path: &str, _saltenv: &str) -> Result<Option<Source>, String> {
        Ok(None)
    }
}

/// Directories on this machine, the same for all environments or some for each.
pub struct Roots<F>(F);

impl<F: Fn(&str) -> Vec<PathBuf> + Send + Sync> Roots<F> {
    /// Files below the directories that the function names for an environment. The first directory that has a file counts.
    pub fn new(directories: F) -> Self {
        Roots(directories)
    }
}

impl<F: Fn(&str) -> Vec<PathBuf> + Send + Sync> Loader for Roots<F> {
    fn load(&self, path: &str, saltenv: &str) -> Result<Option<Source>, String> {
        let Some(path) = plain(path) else { return Ok(None) };
        for directory in (self.0)(saltenv) {
            if let Some(source) = file(&directory.join(path))? {
                return Ok(Some(source));
            }
        }
        Ok(None)
    }
}

/// Reads a file of this machine; `None` when there is none.
pub(crate) fn file(path: &Path) -> Result<Option<Source>, String> {
    match std::fs::read(path) {
        Ok(bytes) => read(bytes, path.to_owned()).map(Some),
        // Any other error is reported: a file that cannot be read must not look like one that is missing, or `ignore
        // missing` would hide it.
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(format!("failed to read {}: {error}", path.display())),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

fn read(bytes: Vec<u8>, path: PathBuf) -> Result<Source, String> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { text: text.into(), path }),
        Err(error) => {
            Err(format!("{} is not valid UTF-8 at byte {}", path.display(), error.utf8_error().valid_up_to()))
        }
    }
}

/// Returns the path without leading slashes; `None` if it could leave its root.
pub(crate) fn plain(path: &str) -> Option<&Path> {
    let path = path.trim_start_matches('/');
    // Checked before anything touches the disk: names come from templates, which may take them from grains.
    (!path.is_empty() && !path.contains('\0') && path.split('/').all(|part| part != "..")).then(|| Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_that_has_a_file_gives_it() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [("one/x.jinja", "first"), ("two/x.jinja", "second"), ("two/d/y", "deep")] {
            let full = dir.path().join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, text).unwrap();
        }
        let root = dir.path().to_owned();
        let roots = Roots::new(move |env| match env {
            "base" => vec![root.join("one"), root.join("two")],
            _ => Vec::new(),
        });
        let text = |path: &str, env: &str| roots.load(path, env).unwrap().map(|source| source.text.to_string());
        assert_eq!(text("x.jinja", "base").as_deref(), Some("first"));
        assert_eq!(text("/d/y", "base").as_deref(), Some("deep"));
        for (path, env) in [("d", "base"), ("gone", "base"), ("d/../x.jinja", "base"), ("x.jinja", "dev"), ("", "base")]
        {
            assert_eq!(text(path, env), None, "{path} in {env}");
        }
    }

    #[test]
    fn a_file_that_is_no_text_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("bin"), [b'a', 0xff]).unwrap();
        let root = dir.path().to_owned();
        let error = Roots::new(move |_| vec![root.clone()]).load("bin", "base").unwrap_err();
        assert!(error.ends_with("bin is not valid UTF-8 at byte 1"), "{error}");
    }
}
