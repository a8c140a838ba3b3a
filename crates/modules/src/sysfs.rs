//! `sysfs` — attributes of the kernel's objects, below `/sys`.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use exec::{Context, Module, Result, function};
use nix::libc;
use value::{BigInt, Map, Value, map};

/// The module.
pub static MODULE: Module = Module::new(
    "sysfs",
    "Functions that read attributes of the kernel's objects and change them.",
    &[&ATTR, &INTERFACES, &READ, &TARGET, &WRITE],
);

/// The most bytes that are read of an attribute; the kernel gives no more than a page of most.
const LARGEST: u64 = 16 << 20;

/// Returns the real path below `/sys`, if it exists.
fn resolved(key: &str) -> Option<PathBuf> {
    let path = if key.starts_with("/sys") { PathBuf::from(key) } else { Path::new("/sys").join(key) };
    path.canonicalize().inspect_err(|_| tracing::debug!("Unknown SysFS key {}", path.display())).ok()
}

fn path_value(path: &Path) -> Value {
    path.to_string_lossy().into_owned().into()
}

/// A number where the text is one.
fn value_of(text: &str) -> Value {
    if let Ok(number) = text.parse::<BigInt>() {
        return number.into();
    }
    text.parse::<f64>().map_or_else(|_| text.into(), Value::from)
}

/// Reads an attribute. Returns None for those that are empty or cannot be read. Some are pipes, which must not block.
fn attribute(path: &Path) -> Option<Value> {
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).ok()?;
    Some(text.trim()).filter(|text| !text.is_empty()).map(value_of)
}

/// Paths of attributes below a directory: those to read, to write, and both.
#[derive(Default)]
struct Interfaces {
    reads: Vec<String>,
    writes: Vec<String>,
    both: Vec<String>,
}

impl Interfaces {
    fn below(root: &Path) -> Self {
        let mut found = Self::default();
        found.walk(root, root);
        found
    }

    /// Links to directories are not followed.
    fn walk(&mut self, root: &Path, folder: &Path) {
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => self.add(root, &entry.path()),
            }
        }
        folders.iter().for_each(|folder| self.walk(root, folder));
    }

    fn add(&mut self, root: &Path, path: &Path) {
        let Some(mode) = path.metadata().ok().filter(|about| about.is_file()).map(|about| about.mode()) else { return };
        let Ok(name) = path.strip_prefix(root).map(|name| name.to_string_lossy().into_owned()) else { return };
        match (mode & libc::S_IRUSR != 0, mode & libc::S_IWUSR != 0) {
            (true, true) => self.both.push(name),
            (true, false) => self.reads.push(name),
            (false, true) => self.writes.push(name),
            (false, false) => tracing::warn!("Unable to find any interfaces in {}", path.display()),
        }
    }
}

fn insert(tree: &mut Map, name: &str, value: Value) {
    match name.split_once('/') {
        None => {
            tree.insert(name, value);
        }
        Some((folder, rest)) => {
            let below = tree.entry_or_insert_with(folder, || Map::new().into());
            if let Some(below) = below.as_map_mut() {
                insert(below, rest, value);
            }
        }
    }
}

fn all_below(folder: &Path) -> Map {
    let found = Interfaces::below(folder);
    let mut tree = Map::new();
    for name in found.reads.iter().chain(&found.both) {
        if let Some(value) = attribute(&folder.join(name)) {
            insert(&mut tree, name, value);
        }
    }
    tree
}

fn read_key(key: &str) -> Value {
    match resolved(key) {
        Some(path) if path.is_dir() => all_below(&path).into(),
        Some(path) => attribute(&path).unwrap_or(false.into()),
        None => false.into(),
    }
}

/// Reads one path, or each of several below ``root``.
fn read_any(key: &Value, root: &str) -> Value {
    let below = |key: &Value| Path::new(root).join(key.to_string()).to_string_lossy().into_owned();
    let several = |keys: Vec<&Value>| {
        let values = keys.into_iter().map(|key| (key.clone(), read_key(&below(key))));
        values.filter(|(_, value)| *value != Value::Bool(false)).collect::<Map>().into()
    };
    match key {
        Value::List(keys) => several(keys.iter().collect()),
        Value::Map(keys) => several(keys.keys().collect()),
        one => read_key(&below(one)),
    }
}

fn write_key(key: &str, value: &Value) -> bool {
    let Some(path) = resolved(key) else { return false };
    tracing::trace!("Writing {value} to {}", path.display());
    let file = std::fs::OpenOptions::new().write(true).truncate(true).open(path);
    file.and_then(|mut file| file.write_all(format!("{value}\n").as_bytes())).is_ok()
}

/// Reads an attribute, or writes it when there is a value. Of a directory, its path is returned.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysfs.attr block/sda/queue/logical_block_size
#[function]
fn attr(ctx: &Context, key: String, #[default(Value::Null)] value: Value) -> Result<Value> {
    Ok(ctx.blocking(move || match (resolved(&key), value) {
        (None, _) => false.into(),
        (Some(path), _) if path.is_dir() => path_value(&path),
        (Some(_), Value::Null) => read_key(&key),
        (Some(_), value) => write_key(&key, &value).into(),
    }))
}

/// Returns the attributes below a directory: under ``r`` those that can be read, under ``w`` those that can be written,
/// and under ``rw`` those with both.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysfs.interfaces block/bcache0/bcache
#[function]
fn interfaces(ctx: &Context, root: String) -> Result<Value> {
    Ok(ctx.blocking(move || match resolved(&root).filter(|path| path.is_dir()) {
        Some(path) => {
            let found = Interfaces::below(&path);
            map! { "r" => found.reads, "w" => found.writes, "rw" => found.both }.into()
        }
        None => {
            tracing::error!("SysFS {root} not a dir");
            false.into()
        }
    }))
}

/// Reads an attribute, or all below a directory. Of a list, each is read below ``root``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysfs.read class/net/em1/statistics
#[function]
fn read(ctx: &Context, key: Value, #[default("")] root: String) -> Result<Value> {
    Ok(ctx.blocking(move || read_any(&key, &root)))
}

/// Returns the target of a path, or with ``full`` false the last part of it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysfs.target class/ttyS0
#[function]
fn target(ctx: &Context, key: String, #[default(true)] full: bool) -> Result<Value> {
    Ok(ctx.blocking(move || match resolved(&key) {
        Some(path) if full => path_value(&path),
        Some(path) => path.file_name().map_or_else(|| "".into(), |name| path_value(Path::new(name))),
        None => false.into(),
    }))
}

/// Writes an attribute, or triggers its action.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' sysfs.write devices/system/cpu/cpu0/cpufreq/scaling_governor 'performance'
#[function]
fn write(ctx: &Context, key: String, value: Value) -> Result<bool> {
    Ok(ctx.blocking(move || write_key(&key, &value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn attributes_are_read_as_numbers_texts_or_trees() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("stats")).unwrap();
        let files =
            [("size", "4096\n"), ("stats/ratio", "0.5\n"), ("mode", "a [b] c\n"), ("empty", "\n"), ("reset", "x")];
        for (name, text) in files {
            std::fs::write(root.join(name), text).unwrap();
        }
        std::fs::write(root.join("mask"), "18446744073709551615").unwrap();
        std::fs::set_permissions(root.join("reset"), std::fs::Permissions::from_mode(0o200)).unwrap();
        std::fs::set_permissions(root.join("size"), std::fs::Permissions::from_mode(0o444)).unwrap();
        let key = root.to_str().unwrap();
        let tree = read_key(key);
        let mut names: Vec<String> = tree.as_map().unwrap().text_keys().map(str::to_owned).collect();
        names.sort();
        assert_eq!(names, ["mask", "mode", "size", "stats"]);
        assert_eq!(tree.get("size"), Some(&4096.into()));
        assert_eq!(tree.get("mask").unwrap().to_string(), "18446744073709551615");
        assert_eq!(tree.get("stats").unwrap().get("ratio"), Some(&0.5.into()));
        assert_eq!(read_any(&value::list!["mode", "none"], key), map! { "mode" => "a [b] c" }.into());
        let found = Interfaces::below(&root);
        assert_eq!((found.reads, found.writes), (vec!["size".to_owned()], vec!["reset".to_owned()]));
    }

    #[test]
    fn what_is_not_there_is_neither_read_nor_written() {
        assert_eq!(read_key("no/such/attribute"), false.into());
        assert!(!write_key("no/such/attribute", &1.into()));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(write_key(file.path().to_str().unwrap(), &5.into()));
        assert_eq!(read_key(file.path().to_str().unwrap()), 5.into());
    }
}
