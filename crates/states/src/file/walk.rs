//! Walking through directories, with patterns that select paths.

use std::fs;

use targeting::PyRegex;
use value::Value;

use super::common::join;

/// One step of Python's `os.walk`: a directory with the names of its directories and of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The path.
    pub root: String,
    /// Directories.
    pub dirs: Vec<String>,
    /// Everything else.
    pub files: Vec<String>,
}

/// The deepest nesting, so that a broken file system cannot keep us forever.
const DEPTH_LIMIT: usize = 1_000;

/// Reads one directory; nothing where it cannot be read.
pub fn step(root: &str) -> Step {
    let mut step = Step { root: root.to_owned(), dirs: Vec::new(), files: Vec::new() };
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() { &mut step.dirs } else { &mut step.files }.push(name);
    }
    step.dirs.sort();
    step.files.sort();
    step
}

/// Goes through all directories from the top, at most `depth` levels deep; links are not followed.
pub fn down(top: &str, depth: Option<usize>) -> Vec<Step> {
    let mut steps = Vec::new();
    if std::path::Path::new(top).is_dir() {
        go(top, 0, depth.unwrap_or(DEPTH_LIMIT), &mut steps);
    }
    steps
}

fn go(root: &str, level: usize, depth: usize, steps: &mut Vec<Step>) {
    if level >= depth {
        return;
    }
    let here = step(root);
    let dirs = here.dirs.clone();
    steps.push(here);
    for name in dirs {
        let path = join(root, &name);
        if !std::path::Path::new(&path).is_symlink() {
            go(&path, level + 1, depth, steps);
        }
    }
}

/// Returns whether a path is selected: an include pattern has to match, an exclude pattern must not. Patterns are
/// globs, or regular expressions behind `E@`, one or a list.
pub fn is_meant(path: &str, include: &Value, exclude: &Value) -> bool {
    let any = |patterns: &Value| match patterns {
        Value::List(many) => many.iter().any(|one| fits(path, &one.to_string())),
        one => fits(path, &one.to_string()),
    };
    (!include.truthy() || any(include)) && !(exclude.truthy() && any(exclude))
}

fn fits(path: &str, pattern: &str) -> bool {
    match pattern.strip_prefix("E@") {
        Some(regex) => PyRegex::search(regex).is_ok_and(|regex| regex.is_match(path)),
        None => targeting::fnmatch(path, pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn patterns_say_what_is_meant() {
        assert!(is_meant("a/b.txt", &Value::Null, &Value::Null));
        assert!(is_meant("a/b.txt", &"*.txt".into(), &Value::Null));
        assert!(!is_meant("a/b.txt", &"E@^b".into(), &Value::Null));
        assert!(!is_meant("a/b.txt", &"*.txt".into(), &list!["x", "E@b"]));
    }

    #[test]
    fn walks_have_a_depth() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        fs::create_dir_all(format!("{root}/a/b/c")).unwrap();
        fs::write(format!("{root}/a/x"), "").unwrap();
        let roots = |depth| down(root, depth).into_iter().map(|step| step.root.replace(root, "")).collect::<Vec<_>>();
        assert_eq!(roots(Some(2)), ["", "/a"]);
        assert_eq!(roots(None), ["", "/a", "/a/b", "/a/b/c"]);
        assert!(roots(Some(0)).is_empty());
    }
}
