//! Reading and writing files so that nobody ever sees half of one.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crypto::{HashType, Hasher};
use value::Value;
use wire::msgpack::{Decode, Packing, pack, unpack};

use crate::{Error, Result};

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    /// Permission bits; the umask does not count.
    pub mode: u32,
    /// Waits until the file is on the disk itself. Without it a file that was written survives the death of the
    /// process, but perhaps not that of the machine.
    pub sync: bool,
}

impl Writing {
    /// Readable by the owner's group. Salt lets everybody read most of a master's cache; arguments of jobs, which may be
    /// passwords, lie in there.
    pub const SHARED: Writing = Writing { mode: 0o640, sync: false };
    /// For the owner only.
    pub const PRIVATE: Writing = Writing { mode: 0o600, sync: false };
}

/// Writes a file, replacing what was there: a temporary file in the same directory, renamed.
pub fn write(path: &Path, content: &[u8], writing: Writing) -> Result<()> {
    let temporary = temporary(path, content, writing)?;
    temporary.persist(path).map_err(|error| Error::io("write", path)(error.error))?;
    sync_directory(path, writing)
}

/// Writes a file unless there is one, and says whether it did.
pub fn write_new(path: &Path, content: &[u8], writing: Writing) -> Result<bool> {
    match temporary(path, content, writing)?.persist_noclobber(path) {
        Ok(_) => sync_directory(path, writing).map(|()| true),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("write", path)(error.error)),
    }
}

/// A disk that refuses, for simulations: what is written below a directory fails as if the disk were full. For the calling
/// thread only.
#[cfg(feature = "sim")]
pub mod refusing {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    thread_local! {
        static REFUSING: RefCell<BTreeSet<PathBuf>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Lets everything below a directory be refused, or no longer.
    pub fn set(directory: &Path, refuses: bool) {
        REFUSING.with_borrow_mut(|all| match refuses {
            true => all.insert(directory.to_owned()),
            false => all.remove(directory),
        });
    }

    pub(crate) fn admit(path: &Path) -> std::io::Result<()> {
        match REFUSING.with_borrow(|all| all.iter().any(|directory| path.starts_with(directory))) {
            true => Err(std::io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

/// Says whether the disk takes more; only one that is simulated ever refuses beforehand.
#[cfg(feature = "sim")]
pub(crate) use refusing::admit;

#[cfg(not(feature = "sim"))]
pub(crate) fn admit(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn temporary(path: &Path, content: &[u8], writing: Writing) -> Result<tempfile::NamedTempFile> {
    admit(path).map_err(Error::io("write", path))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let failed = |source| Error::io("write", path)(source);
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tmp").permissions(std::fs::Permissions::from_mode(0o600));
    let mut file = builder.tempfile_in(directory).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    if writing.mode != 0o600 {
        file.as_file().set_permissions(std::fs::Permissions::from_mode(writing.mode)).map_err(failed)?;
    }
    if writing.sync {
        file.as_file().sync_all().map_err(failed)?;
    }
    Ok(file)
}

fn sync_directory(path: &Path, writing: Writing) -> Result<()> {
    if !writing.sync {
        return Ok(());
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(Error::io("sync", directory))
}

/// Returns the content of a file, or nothing when there is none.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    found(std::fs::read(path), "read", path)
}

/// Returns the content of a text file, or nothing when there is none.
pub fn read_text(path: &Path) -> Result<Option<String>> {
    let Some(content) = read(path)? else { return Ok(None) };
    String::from_utf8(content).map(Some).map_err(|_| Error::malformed(path, "not valid UTF-8"))
}

/// Returns a file of MessagePack in either packing, or nothing when there is none.
pub fn read_value(path: &Path) -> Result<Option<Value>> {
    let Some(content) = read(path)? else { return Ok(None) };
    unpack(&content, Decode::Default).map(Some).map_err(|error| Error::malformed(path, error))
}

/// Writes a file of MessagePack in the packing Salt's own files have.
pub fn write_value(path: &Path, value: &Value, writing: Writing) -> Result<()> {
    write(path, &pack(value, Packing::Bin), writing)
}

/// Returns the hash of a file in lower-case hex, reading it piece by piece.
pub fn hash_file(path: &Path, kind: HashType) -> Result<String> {
    let mut file = std::fs::File::open(path).map_err(Error::io("open", path))?;
    let mut hash = Hasher::new(kind);
    let mut piece = [0; 16 * 1024];
    loop {
        match file.read(&mut piece).map_err(Error::io("read", path))? {
            0 => return Ok(hash.finish_hex()),
            len => hash.update(&piece[..len]),
        }
    }
}

/// Removes a file and says whether there was one.
pub fn remove(path: &Path) -> Result<bool> {
    found(std::fs::remove_file(path), "remove", path).map(|found| found.is_some())
}

/// Removes a directory with all in it and says whether there was one.
pub fn remove_tree(path: &Path) -> Result<bool> {
    found(std::fs::remove_dir_all(path), "remove", path).map(|found| found.is_some())
}

/// What others get of what daemons write.
const OTHERS: u32 = 0o027;

/// Makes a directory and those above it, closed to others.
pub fn make_directory(path: &Path) -> Result<()> {
    make_directories(path).map_err(Error::io("create directory", path))
}

/// As [`make_directory`], with the error as the system has it.
pub fn make_directories(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    admit(path)?;
    std::fs::DirBuilder::new().recursive(true).mode(0o777 & !OTHERS).create(path)
}

/// Returns how a file that only its owner may read is opened; what is done with it is to be added. A file that is there
/// keeps its mode.
pub fn private_file() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.mode(0o600);
    options
}

/// Closes a directory of a daemon, and what lies directly in it, to others, as far as an earlier release or the real Salt
/// left it open. What lies deeper is out of their reach then.
///
/// With `through`, others may pass through the directory itself, to files whose names they know. Directories that are not a
/// daemon's alone stay as they are: those near the root (`/var/cache`), and those where everybody may make files (`/tmp`).
/// Sockets and links are left alone.
pub fn close_to_others(directory: &Path, through: bool) -> Result<()> {
    let found = std::fs::metadata(directory).map_err(Error::io("look at", directory))?;
    let parts = std::path::absolute(directory).map_or(0, |path| path.components().count());
    if parts <= SHARED_DEPTH || found.mode() & 0o1000 != 0 {
        return Ok(());
    }
    take_away(directory, found.mode(), if through { OTHERS & !0o001 } else { OTHERS })?;
    for name in names(directory)? {
        let path = directory.join(name);
        // What vanishes meanwhile is no loss.
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        if found.is_dir() || found.is_file() {
            take_away(&path, found.mode(), OTHERS)?;
        }
    }
    Ok(())
}

/// The root and two names: `/var/cache`.
const SHARED_DEPTH: usize = 3;

fn take_away(path: &Path, mode: u32, bits: u32) -> Result<()> {
    let closed = mode & 0o7777 & !bits;
    if closed == mode & 0o7777 {
        return Ok(());
    }
    let set = std::fs::set_permissions(path, std::fs::Permissions::from_mode(closed));
    found(set, "close to other users", path).map(drop)
}

/// Returns what is in a directory, in alphabetical order; nothing when there is no such directory.
pub fn names(path: &Path) -> Result<Vec<OsString>> {
    let Some(entries) = found(std::fs::read_dir(path), "list", path)? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(Error::io("list", path))?.file_name());
    }
    names.sort();
    Ok(names)
}

/// As [`names`], without those that are not text.
pub fn text_names(path: &Path) -> Result<Vec<String>> {
    Ok(names(path)?.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Joins a relative path to a directory, refusing anything that could lead out of it.
pub fn join_inside(directory: &Path, relative: &str, what: &'static str) -> Result<PathBuf> {
    let good = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0') && part.len() <= 255;
    if relative.split('/').all(good) { Ok(directory.join(relative)) } else { Err(Error::bad_name(what, relative)) }
}

/// As [`join_inside`], for a single name.
pub fn join_name(directory: &Path, name: &str, what: &'static str) -> Result<PathBuf> {
    if name.contains('/') { Err(Error::bad_name(what, name)) } else { join_inside(directory, name, what) }
}

fn found<T>(result: std::io::Result<T>, action: &'static str, path: &Path) -> Result<Option<T>> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(Error::io(action, path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_replaces_or_not_and_leaves_no_litter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(write_new(&path, b"first", Writing::PRIVATE).unwrap());
        assert!(!write_new(&path, b"second", Writing::PRIVATE).unwrap());
        assert_eq!(read(&path).unwrap().unwrap(), b"first");
        write(&path, b"third", Writing { mode: 0o644, sync: true }).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"third");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(names(dir.path()).unwrap(), ["file"]);
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_earlier_releases_left_open_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache/master");
        std::fs::create_dir_all(cache.join("jobs/ab")).unwrap();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let (key, old) = (cache.join(".root_key"), cache.join("old.p"));
        std::fs::write(&key, "").unwrap();
        std::fs::write(&old, "").unwrap();
        std::os::unix::fs::symlink(&old, cache.join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(cache.join("socket")).unwrap();
        set(&cache.join("socket"), 0o666);
        set(&cache, 0o777);
        set(&cache.join("jobs"), 0o755);
        set(&key, 0o400);
        set(&old, 0o664);
        close_to_others(&cache, true).unwrap();
        assert_eq!((mode(&cache), mode(&cache.join("jobs")), mode(&key), mode(&old)), (0o751, 0o750, 0o400, 0o640));
        assert_eq!(mode(&cache.join("socket")), 0o666);
        close_to_others(&cache, false).unwrap();
        assert_eq!(mode(&cache), 0o750);
        assert!(close_to_others(&cache.join("none"), false).is_err());
    }

    #[test]
    fn directories_of_everybody_stay_open() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        close_to_others(dir.path(), false).unwrap();
        assert_eq!(mode(dir.path()), 0o1777);
        let before = mode(Path::new("/var/tmp/.."));
        close_to_others(Path::new("/var"), false).unwrap();
        assert_eq!(mode(Path::new("/var")), before);
    }

    #[test]
    fn new_directories_and_files_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        make_directory(&dir.path().join("a/b")).unwrap();
        assert_eq!((mode(&dir.path().join("a")), mode(&dir.path().join("a/b"))), (0o750, 0o750));
        let file = dir.path().join("file");
        write(&file, b"", Writing::SHARED).unwrap();
        drop(private_file().create(true).write(true).open(dir.path().join("private")).unwrap());
        assert_eq!((mode(&file), mode(&dir.path().join("private"))), (0o640, 0o600));
    }

    #[test]
    fn errors_name_the_path() {
        let error = write(Path::new("/nowhere/at/all"), b"", Writing::SHARED).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
        assert!(read(Path::new("/nowhere/at/all")).unwrap().is_none());
    }

    #[test]
    fn a_file_hashes_like_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let content = vec![7; 600_000];
        std::fs::write(&path, &content).unwrap();
        assert_eq!(hash_file(&path, HashType::Sha1).unwrap(), HashType::Sha1.hex(&content));
        assert!(hash_file(&dir.path().join("none"), HashType::Sha1).unwrap_err().is_not_found());
    }

    #[test]
    fn nothing_leads_out_of_a_directory() {
        let base = Path::new("/base");
        for bad in ["", "/x", "..", "a/../b", "a//b", "./a", "a\0b", "a/"] {
            assert!(join_inside(base, bad, "key").is_err(), "{bad:?}");
        }
        assert_eq!(join_inside(base, "a/b.c", "key").unwrap(), Path::new("/base/a/b.c"));
        assert!(join_name(base, "a/b", "id").is_err());
    }
}
