//! Files in the directories of environments: what `file_roots` and `pillar_roots` have in common.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use config::Roots;
use exec::{Error, Result};
use value::{Map, Value, map};

/// Returns the files at a path in all directories of an environment, each with `txt` or `bin`.
pub fn find(roots: &Roots, path: &str, saltenv: &str) -> Vec<(PathBuf, &'static str)> {
    let directories = roots.get(saltenv).unwrap_or_default();
    let full = directories.iter().filter_map(|root| inside(root, path));
    full.filter(|full| full.is_file()).map(|full| (full.clone(), form(&full))).collect()
}

/// As [`find`], in the form Salt returns it.
pub fn found(roots: &Roots, path: &str, saltenv: &str) -> Vec<Map> {
    find(roots, path, saltenv).into_iter().map(|(full, form)| map! { full.to_string_lossy() => form }).collect()
}

/// Returns the content of the text files at a path.
pub fn read(roots: &Roots, path: &str, saltenv: &str) -> Result<Vec<Map>> {
    let mut contents = Vec::new();
    for (full, _) in find(roots, path, saltenv).into_iter().filter(|(_, form)| *form == "txt") {
        let content = std::fs::read(&full).map_err(|error| Error::io("read", &full, &error))?;
        contents.push(map! { full.to_string_lossy() => String::from_utf8_lossy(&content).into_owned() });
    }
    Ok(contents)
}

/// Returns the files of an environment as a tree below each directory; a file has the value `f`.
pub fn list_env(roots: &Roots, saltenv: &str) -> Map {
    let directories = roots.get(saltenv).unwrap_or_default();
    directories.iter().map(|root| (root.to_string_lossy(), tree(root))).collect()
}

/// Returns the trees of all environments.
pub fn list_roots(roots: &Roots) -> Map {
    roots.iter().map(|(env, _)| (env, vec![list_env(roots, env)])).collect()
}

/// The content to write, and its place.
pub struct Write<'a> {
    /// The content.
    pub data: &'a Value,
    /// The path in the environment.
    pub path: &'a str,
    /// The environment.
    pub saltenv: &'a str,
    /// The index of the directory in the environment's list.
    pub index: usize,
}

/// Writes a file and returns a sentence about it. Mistakes of the caller are such sentences, too, as with Salt.
pub fn write(roots: &Roots, wanted: &Write<'_>) -> Result<String> {
    let Write { data, path, saltenv, index } = wanted;
    let Some(directories) = roots.get(saltenv) else {
        return Ok(format!("Named environment {saltenv} is not present"));
    };
    let Some(root) = directories.get(*index) else {
        return Ok(format!("Specified index {index} in environment {saltenv} is not present"));
    };
    if Path::new(path).is_absolute() {
        return Ok(format!("The path passed in {path} is not relative to the environment {saltenv}"));
    }
    let Some(full) = inside(root, path) else { return Ok(format!("Invalid path: {path}")) };
    let directory = full.parent().unwrap_or(root);
    store::disk::make_directories(directory).map_err(|error| Error::io("create", directory, &error))?;
    let content = data.as_bytes().map_or_else(|| data.to_string().into_bytes(), <[u8]>::to_vec);
    // A pillar holds secrets, and file roots often do. A file that exists keeps its mode, which the operator chose.
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o640).open(&full);
    file.and_then(|mut file| file.write_all(&content)).map_err(|error| Error::io("write", &full, &error))?;
    Ok(format!("Wrote data to file {}", full.display()))
}

/// Joins a path to a directory. Returns nothing if it leads out of it, by its text or through a link.
fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    // The path comes over the network, from users who may call this function but not read the master's other files.
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.is_empty() || path.contains('\0') || !Path::new(path).components().all(plain) {
        return None;
    }
    let full = root.join(path);
    // The directory itself may be a link; that was the operator's decision.
    let real_root = root.canonicalize().ok()?;
    // A path that does not exist yet is judged by the nearest existing directory; a dangling link leads elsewhere.
    let there = full.ancestors().find(|ancestor| ancestor.symlink_metadata().is_ok())?;
    there.canonicalize().ok()?.starts_with(&real_root).then_some(full)
}

fn tree(directory: &Path) -> Map {
    let mut map = Map::new();
    // Salt shows an environment whose directory does not exist as an empty one.
    let names = store::disk::text_names(directory).unwrap_or_default();
    let (dirs, files): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| directory.join(name).is_dir());
    for name in dirs {
        let full = directory.join(&name);
        // Links to directories are named but not entered.
        map.insert(name, if full.is_symlink() { Map::new() } else { tree(&full) });
    }
    map.extend(files.into_iter().map(|name| (name, "f")));
    map
}

fn form(path: &Path) -> &'static str {
    use std::io::Read;
    const BLOCK: u64 = 512;
    let mut block = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(BLOCK).read_to_end(&mut block));
    if read.is_err() || is_binary(&block) { "bin" } else { "txt" }
}

/// Guesses as Salt does: a NUL, or more than three tenths of bytes that are not text.
fn is_binary(block: &[u8]) -> bool {
    if block.is_empty() {
        return false;
    }
    // The block may end within a letter.
    let utf8 = std::str::from_utf8(block).map_or_else(|error| error.error_len().is_none(), |_| true);
    // Salt's set of text bytes has form feed and backspace in it, and the bytes of longer UTF-8 letters if all of the
    // block is UTF-8.
    let is_text =
        |byte: &u8| matches!(byte, 32..=126 | b'\n' | b'\r' | b'\t' | 12 | 8) || (utf8 && (128..=254).contains(byte));
    let strange = block.iter().filter(|byte| !is_text(byte)).count();
    block.contains(&0) || strange as f64 / block.len() as f64 > 0.30
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn place() -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("srv");
        std::fs::create_dir_all(root.join("sub/empty")).unwrap();
        std::fs::write(root.join("sub/a.txt"), "text é").unwrap();
        std::fs::write(root.join("b.bin"), [0u8, 1, 2]).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        std::os::unix::fs::symlink("../nothing", root.join("sub/dangling")).unwrap();
        (dir, Roots::new(vec![("base".into(), vec![root])]))
    }

    #[test]
    fn files_are_found_inside_only() {
        let (_dir, roots) = place();
        let forms = |path: &str| find(&roots, path, "base").into_iter().map(|(_, form)| form).collect::<Vec<_>>();
        assert_eq!(forms("sub/a.txt"), ["txt"]);
        assert_eq!(forms("b.bin"), ["bin"]);
        // By `..`, through a link to a file, through a link to a directory, and by an absolute path.
        for path in ["../secret", "link", "up/secret", "/etc/hostname", "", "sub", "sub/../../secret", "none"] {
            assert!(forms(path).is_empty(), "{path}");
        }
        assert_eq!(read(&roots, "sub/a.txt", "base").unwrap()[0].values().next(), Some(&Value::from("text é")));
        assert!(read(&roots, "b.bin", "base").unwrap().is_empty());
    }

    #[test]
    fn trees_show_directories_and_files() {
        let (_dir, roots) = place();
        let tree = list_env(&roots, "base");
        let tree = tree.values().next().unwrap();
        let expected = map! {
            "sub" => map! { "empty" => map! {}, "a.txt" => "f", "dangling" => "f" }, "up" => map! {}, "b.bin" => "f", "link" => "f",
        };
        assert_eq!(tree, &Value::from(expected));
        assert!(list_env(&roots, "none").is_empty());
    }

    #[test]
    fn files_are_written_inside_only() {
        let (dir, roots) = place();
        let write = |path: &str, saltenv: &str, index: usize| {
            write(&roots, &Write { data: &"new".into(), path, saltenv, index }).unwrap()
        };
        assert!(write("new/dir/file", "base", 0).starts_with("Wrote data to file "));
        assert_eq!(std::fs::read_to_string(dir.path().join("srv/new/dir/file")).unwrap(), "new");
        // Under the usual umask they would be 0644 and 0755.
        let others = |path: &str| dir.path().join(path).metadata().unwrap().permissions().mode() & 0o027;
        assert_eq!((others("srv/new"), others("srv/new/dir"), others("srv/new/dir/file")), (0, 0, 0));
        assert_eq!(write("x", "none", 0), "Named environment none is not present");
        assert_eq!(write("x", "base", 1), "Specified index 1 in environment base is not present");
        assert_eq!(write("/x", "base", 0), "The path passed in /x is not relative to the environment base");
        // The last two: a directory that does not exist below a link, and a link whose target does not exist.
        for path in ["../x", "up/x", "link", "up/new/x", "sub/dangling"] {
            assert_eq!(write(path, "base", 0), format!("Invalid path: {path}"));
        }
        assert_eq!(std::fs::read_to_string(dir.path().join("secret")).unwrap(), "secret");
        assert!(!dir.path().join("x").exists() && !dir.path().join("nothing").exists());
    }
}
