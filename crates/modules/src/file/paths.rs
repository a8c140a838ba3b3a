//! Paths as Python sees them: `~`, `..`, links, parts.

use std::path::{Path, PathBuf};

use exec::{Result, VarArgs, function};
use nix::unistd::{Uid, User};

/// Replaces a leading `~` or `~user` by the home directory.
pub fn expand_user(path: &str) -> String {
    let Some(rest) = path.strip_prefix('~') else { return path.to_owned() };
    let (name, tail) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let home = if name.is_empty() {
        // Python asks the variable first, then the user database.
        let known = std::env::var("HOME").ok().filter(|home| !home.is_empty());
        known.or_else(|| home_of(User::from_uid(Uid::current()).ok().flatten()))
    } else {
        home_of(User::from_name(name).ok().flatten())
    };
    // An unknown user leaves the path as it is, tilde included.
    home.map_or_else(|| path.to_owned(), |home| format!("{}{tail}", home.trim_end_matches('/')))
}

fn home_of(user: Option<User>) -> Option<String> {
    user.map(|user| user.dir.to_string_lossy().into_owned())
}

/// Replaces `$name` and `${name}` by environment variables; unknown ones stay.
pub fn expand_vars(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some(place) = rest.find('$') {
        let (before, after) = (&rest[..place], &rest[place + 1..]);
        out.push_str(before);
        let (name, used) = variable(after);
        match std::env::var(name) {
            Ok(value) if !name.is_empty() => out.push_str(&value),
            // A lone dollar sign or an unknown name is kept to the letter.
            _ => out.push_str(&rest[place..=place + used]),
        }
        rest = &after[used..];
    }
    out + rest
}

/// Returns the name after a `$`, and its length in bytes with its braces.
fn variable(text: &str) -> (&str, usize) {
    if let Some(inside) = text.strip_prefix('{') {
        return inside.find('}').map_or(("", 0), |end| (&inside[..end], end + 2));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    (&text[..end], end)
}

/// Returns the path without `.`, `..` and doubled slashes, without looking at the disk (`os.path.normpath`).
pub fn normalize(path: &str) -> String {
    if path.is_empty() {
        return ".".into();
    }
    // POSIX gives exactly two leading slashes a special meaning.
    let root = if path.starts_with("//") && !path.starts_with("///") {
        "//"
    } else if path.starts_with('/') {
        "/"
    } else {
        ""
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            // The parent of the root is the root.
            ".." if !root.is_empty() => {}
            part => parts.push(part),
        }
    }
    let joined = format!("{root}{}", parts.join("/"));
    if joined.is_empty() { ".".into() } else { joined }
}

/// Splits at the last slash (`os.path.split`).
pub fn split(path: &str) -> (&str, &str) {
    let place = path.rfind('/').map_or(0, |slash| slash + 1);
    let (head, tail) = path.split_at(place);
    let trimmed = head.trim_end_matches('/');
    // Slashes at the end of the head go, unless it consists of nothing else.
    (if trimmed.is_empty() { head } else { trimmed }, tail)
}

/// Follows all links and makes the path absolute; parts that do not exist stay as they are (`os.path.realpath`).
pub fn real(path: &str) -> String {
    // The kernel also gives up after 40 links.
    resolved(&absolute(path), 40)
}

/// Resolves a path, and follows at most `links` dangling links.
fn resolved(absolute: &str, links: usize) -> String {
    let mut missing: Vec<&std::ffi::OsStr> = Vec::new();
    let mut place = Path::new(absolute);
    loop {
        if let Ok(found) = place.canonicalize() {
            let whole: PathBuf = missing.iter().rev().fold(found, |path, part| path.join(part));
            return whole.to_string_lossy().into_owned();
        }
        // A link that leads nowhere: Python resolves it to the path it names.
        if let Some(target) = place.read_link().ok().filter(|_| links > 0) {
            let target = place.parent().unwrap_or(Path::new("/")).join(target);
            let whole: PathBuf = missing.iter().rev().fold(target, |path, part| path.join(part));
            return resolved(&normalize(&whole.to_string_lossy()), links - 1);
        }
        match (place.parent(), place.file_name()) {
            (Some(parent), Some(name)) => {
                // The part that does not exist is put back behind the part that does.
                missing.push(name);
                place = parent;
            }
            _ => return absolute.to_owned(),
        }
    }
}

/// Makes the path absolute without looking at the disk (`os.path.abspath`).
pub fn absolute(path: &str) -> String {
    if path.starts_with('/') {
        return normalize(path);
    }
    let directory = std::env::current_dir().map_or_else(|_| "/".into(), |path| path.to_string_lossy().into_owned());
    normalize(&format!("{directory}/{path}"))
}

/// Returns the paths a shell pattern matches, sorted; as in a shell `*` leaves hidden names out.
pub fn glob(pattern: &str) -> Vec<String> {
    let (root, rest) = if let Some(rest) = pattern.strip_prefix('/') { ("/", rest) } else { ("", pattern) };
    let mut found = vec![root.to_owned()];
    for part in rest.split('/').filter(|part| !part.is_empty()) {
        found = found.iter().flat_map(|place| matches_in(place, part)).collect();
    }
    found.sort();
    found
}

fn matches_in(place: &str, part: &str) -> Vec<String> {
    let joined = |name: &str| {
        if place.is_empty() || place.ends_with('/') { format!("{place}{name}") } else { format!("{place}/{name}") }
    };
    if !part.contains(['*', '?', '[']) {
        let path = joined(part);
        // A link that leads nowhere exists for `glob`, as in Python.
        return if Path::new(&path).symlink_metadata().is_ok() { vec![path] } else { Vec::new() };
    }
    let directory = if place.is_empty() { "." } else { place };
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let pattern = targeting::Glob::new(part);
    let fits = |name: &String| (part.starts_with('.') || !name.starts_with('.')) && pattern.matches(name);
    names.filter(fits).map(|name| joined(&name)).collect()
}

/// Returns the last part of a path.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.basename /etc/salt/minion
#[function]
pub fn basename(path: String) -> Result<String> {
    Ok(path.rsplit('/').next().unwrap_or_default().to_owned())
}

/// Returns a path without its last part.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.dirname /etc/salt/minion
#[function]
pub fn dirname(path: String) -> Result<String> {
    Ok(split(&path).0.to_owned())
}

/// Joins parts of a path; an absolute part drops those before it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.join / etc salt minion
#[function]
pub fn join(args: VarArgs) -> Result<String> {
    let mut joined = String::new();
    for part in args.0.iter().map(ToString::to_string) {
        // An absolute part discards everything before it, as in `os.path.join`.
        if part.starts_with('/') || joined.is_empty() {
            joined = part;
        } else {
            if !joined.ends_with('/') {
                joined.push('/');
            }
            joined.push_str(&part);
        }
    }
    Ok(joined)
}

/// Returns a path without doubled slashes, `.` and `..`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.normpath /etc/salt/../hosts
#[function]
pub fn normpath(path: String) -> Result<String> {
    Ok(normalize(&path))
}

/// Returns the name of the parent directory: `..`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.pardir
#[function]
pub fn pardir() -> Result<String> {
    Ok("..".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized_as_python_does() {
        for (path, expected) in [
            ("/etc/../tmp//x/.", "/tmp/x"),
            ("/..", "/"),
            // POSIX gives exactly two leading slashes a special meaning, so Python keeps them.
            ("//etc", "//etc"),
            ("///etc", "/etc"),
            ("a/../..", ".."),
            ("", "."),
            ("./", "."),
        ] {
            assert_eq!(normalize(path), expected, "{path}");
        }
    }

    #[test]
    fn paths_are_split_as_python_does() {
        assert_eq!(split("/etc/hosts"), ("/etc", "hosts"));
        assert_eq!(split("/hosts"), ("/", "hosts"));
        assert_eq!(split("a//b/"), ("a//b", ""));
        assert_eq!(split("x"), ("", "x"));
    }

    #[test]
    fn home_and_variables_are_put_in() {
        assert_eq!(expand_user("/x/~"), "/x/~");
        assert!(expand_user("~root/x").ends_with("/x"));
        assert_eq!(expand_user("~no-such-user/x"), "~no-such-user/x");
        let path = std::env::var("PATH").unwrap();
        assert_eq!(expand_vars("a$PATH/${PATH}b$"), format!("a{path}/{path}b$"));
        assert_eq!(expand_vars("$NO_SUCH_NAME_/x${"), "$NO_SUCH_NAME_/x${");
    }

    #[test]
    fn patterns_match_names_in_directories() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        for name in ["a/x.conf", "b/y.conf", "b/.z.conf"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(glob(&format!("{root}/*/*.conf")), [format!("{root}/a/x.conf"), format!("{root}/b/y.conf")]);
        // Hidden names are found only by a pattern that begins with a dot.
        assert_eq!(glob(&format!("{root}/b/.*")), [format!("{root}/b/.z.conf")]);
        assert!(glob(&format!("{root}/c/*")).is_empty());
    }
}
