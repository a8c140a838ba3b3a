//! Paths as Python's `os.path` treats them, and safe joining.

use std::path::{Component, Path, PathBuf};

use crate::Error;

/// Removes `.`, `..` and double slashes from the text of a path. An empty path becomes `.`.
pub(crate) fn normalise(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            // The parent of the root is the root.
            Component::ParentDir if out.has_root() => {}
            other => out.push(other),
        }
    }
    if out.as_os_str().is_empty() { PathBuf::from(".") } else { out }
}

/// Resolves links in the existing part of a path; the rest stays as it is.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    let path = normalise(path);
    for place in path.ancestors() {
        // From the longest ancestor down: the file itself need not exist yet.
        if let Ok(real) = place.canonicalize() {
            let rest = path.strip_prefix(place).unwrap_or(Path::new(""));
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path
}

/// Returns whether the path is the directory or below it, by text or with links resolved.
pub(crate) fn is_inside(directory: &Path, path: &Path, resolve_links: bool) -> bool {
    if resolve_links {
        resolve(path).starts_with(resolve(directory))
    } else {
        normalise(path).starts_with(normalise(directory))
    }
}

/// Returns whether every part of a relative path is a plain name.
pub(crate) fn is_plain(relative: &str) -> bool {
    !relative.contains('\0') && relative.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Joins a relative path to a directory. Fails if it is absolute or has parts that are not plain names. A double slash counts as
/// one: an SLS that includes `.` is `a.`, and what that one includes is `a..b`.
pub(crate) fn join(directory: &Path, relative: &str) -> Result<PathBuf, Error> {
    let single = relative.replace("//", "/");
    let is_safe = !relative.starts_with('/') && is_plain(&single);
    if is_safe { Ok(directory.join(single)) } else { Err(Error::UnsafePath(relative.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_as_python_does() {
        for (path, expected) in [
            ("a/./b//c", "a/b/c"),
            ("a/../b", "b"),
            ("../a", "../a"),
            ("a/../..", ".."),
            ("/../a", "/a"),
            ("", "."),
            ("a/..", "."),
            ("/a/b/../../..", "/"),
        ] {
            assert_eq!(normalise(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn only_plain_names_can_be_joined() {
        let joined = |relative: &str| join(Path::new("/d"), relative).ok();
        assert_eq!(joined("a//b.sls"), Some(PathBuf::from("/d/a/b.sls")));
        for refused in ["", "/a", "//a", "a/../b", "a//../b", "a/./b", "a/", "a\0b"] {
            assert_eq!(joined(refused), None, "{refused}");
        }
    }

    #[test]
    fn links_are_resolved_where_they_exist() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        std::os::unix::fs::symlink("real", base.join("link")).unwrap();
        assert_eq!(resolve(&base.join("link/none/x")), base.join("real/none/x"));
        assert!(is_inside(&base.join("real"), &base.join("link/x"), true));
        assert!(!is_inside(&base.join("real"), &base.join("link/x"), false));
    }
}
