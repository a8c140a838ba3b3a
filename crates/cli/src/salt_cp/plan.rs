//! Plans which file goes where.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use value::Map;

use crate::exit_codes;

/// Sources that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// There is no such file.
    #[error("{0} does not exist")]
    Missing(String),
    /// A directory needs `--chunked`.
    #[error(
        "{0} is a directory, only files are supported in non-chunked mode. Use \"--chunked\" command line argument."
    )]
    Directory(String),
    /// Bytes that are not text need `--chunked`.
    #[error("{0} is no text in UTF-8. Use \"--chunked\" command line argument.")]
    NotText(String),
}

impl Unusable {
    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Unusable::Missing(_) => exit_codes::INCOMPLETE,
            Unusable::Directory(_) | Unusable::NotText(_) => exit_codes::GENERIC,
        }
    }
}

/// Reads the files that are sent whole, by path.
pub fn texts(sources: &[String]) -> Result<Map> {
    let mut files = Map::new();
    for source in sources {
        let path = full_path(source)?;
        let name = path.display().to_string();
        if path.is_dir() {
            return Err(Unusable::Directory(name).into());
        }
        let bytes = fs::read(&path).with_context(|| format!("failed to read {name}"))?;
        let text = String::from_utf8(bytes).map_err(|_| Unusable::NotText(name.clone()))?;
        files.insert(name, text);
    }
    Ok(files)
}

/// A file to be sent in pieces.
#[derive(Debug, PartialEq)]
pub struct Item {
    /// The local path.
    pub source: PathBuf,
    /// The path on the minion.
    pub destination: String,
    /// Its permissions.
    pub mode: i64,
}

/// The files and directories to send in pieces.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Files.
    pub files: Vec<Item>,
    /// Empty directories.
    pub empty_directories: Vec<String>,
}

impl Plan {
    /// Finds all files below the sources. The destination is a directory if it ends with a slash, or if there are
    /// several files.
    pub fn of(sources: &[String], destination: &str) -> Result<Plan> {
        let (mut files, mut empty) = (Vec::new(), Vec::new());
        let sources = sources.iter().map(|source| full_path(source)).collect::<Result<Vec<PathBuf>>>()?;
        for source in &sources {
            find(source, source, &mut files, &mut empty)?;
        }
        let into_directory = !empty.is_empty() || files.len() > 1 || destination.ends_with(['/', '\\']);
        let remote = |(root, path): &(PathBuf, PathBuf)| remote_path(root, path, destination, into_directory);
        let items = files.iter().map(|found| {
            // Only the permissions: the kind of file is in the upper bits.
            let mode = fs::metadata(&found.1).map(|data| data.permissions().mode() & 0o7777);
            let mode = mode.with_context(|| format!("failed to look at {}", found.1.display()))?;
            Ok(Item { source: found.1.clone(), destination: remote(found), mode: mode.into() })
        });
        Ok(Plan { files: items.collect::<Result<_>>()?, empty_directories: empty.iter().map(remote).collect() })
    }
}

fn full_path(source: &str) -> Result<PathBuf> {
    match fs::canonicalize(source) {
        Ok(path) => Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Unusable::Missing(source.to_owned()).into()),
        Err(error) => Err(error).with_context(|| format!("failed to find {source}")),
    }
}

type Found = (PathBuf, PathBuf);

fn find(root: &Path, path: &Path, files: &mut Vec<Found>, empty: &mut Vec<Found>) -> Result<()> {
    if !path.is_dir() {
        files.push((root.to_owned(), path.to_owned()));
        return Ok(());
    }
    let entries = fs::read_dir(path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut entries = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
    // In a fixed order, unlike the file system's.
    entries.sort();
    if entries.is_empty() {
        empty.push((root.to_owned(), path.to_owned()));
    }
    entries.iter().try_for_each(|entry| find(root, entry, files, empty))
}

fn remote_path(root: &Path, path: &Path, destination: &str, into_directory: bool) -> String {
    if root == path && !into_directory {
        return destination.to_owned();
    }
    let name = root.file_name().map(PathBuf::from).unwrap_or_default();
    let below = path.strip_prefix(root).unwrap_or(Path::new(""));
    let relative = if below.as_os_str().is_empty() { name } else { name.join(below) };
    format!("{}/{}", destination.trim_end_matches('/'), relative.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_keep_their_shape() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap().join("tree");
        fs::create_dir_all(root.join("sub/empty")).unwrap();
        fs::write(root.join("a"), "x").unwrap();
        fs::write(root.join("sub/b"), "y").unwrap();
        let plan = Plan::of(&[root.display().to_string()], "/opt/").unwrap();
        let destinations: Vec<&str> = plan.files.iter().map(|item| item.destination.as_str()).collect();
        assert_eq!(destinations, ["/opt/tree/a", "/opt/tree/sub/b"]);
        assert_eq!(plan.empty_directories, ["/opt/tree/sub/empty"]);
        let one = Plan::of(&[root.join("a").display().to_string()], "/opt/name").unwrap();
        assert_eq!(one.files[0].destination, "/opt/name");
        let into = Plan::of(&[root.join("a").display().to_string()], "/opt/").unwrap();
        assert_eq!(into.files[0].destination, "/opt/a");
    }

    #[test]
    fn what_cannot_be_sent_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let code = |error: anyhow::Error| error.downcast_ref::<Unusable>().map(Unusable::code);
        assert_eq!(code(texts(std::slice::from_ref(&path)).unwrap_err()), Some(1));
        assert_eq!(code(texts(&[format!("{path}/none")]).unwrap_err()), Some(42));
        fs::write(dir.path().join("raw"), [0xff, 0xfe]).unwrap();
        assert_eq!(code(texts(&[format!("{path}/raw")]).unwrap_err()), Some(1));
    }
}
