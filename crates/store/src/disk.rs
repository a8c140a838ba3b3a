//! Reads and writes files atomically, so that no reader sees half of one.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crypto::{HashType, Hasher};
use rt::disk::Durability;
use value::Value;
use wire::msgpack::{Decode, Packing, pack, unpack, unpack_entries};

use crate::{Error, Result};

/// The options for writing a file.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    /// Permission bits, regardless of the umask.
    pub mode: u32,
    /// Sync the file to the disk. An unsynced file survives the death of the process, but perhaps not a power failure.
    pub sync: bool,
}

impl Writing {
    /// Readable by the owner's group. In Salt most of a master's cache is readable by everybody, although it contains the
    /// arguments of jobs, which may be passwords.
    pub const SHARED: Writing = Writing { mode: 0o640, sync: false };
    /// Readable only by the owner.
    pub const PRIVATE: Writing = Writing { mode: 0o600, sync: false };

    fn durability(self) -> Durability {
        if self.sync { Durability::Disk } else { Durability::Process }
    }
}

/// Writes a file through a temporary file in the same directory, which then replaces the old one.
pub fn write(path: &Path, content: &[u8], writing: Writing) -> Result<()> {
    // The temporary file is in the same directory, because a rename is atomic only within one file system.
    let temporary = temporary(path, content, writing)?;
    temporary.persist(path).map_err(|error| Error::io("write", path)(error.error))?;
    sync_directory(path, writing)
}

/// Writes a file unless it exists, and returns whether it did.
pub fn write_new(path: &Path, content: &[u8], writing: Writing) -> Result<bool> {
    match temporary(path, content, writing)?.persist_noclobber(path) {
        Ok(_) => sync_directory(path, writing).map(|()| true),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("write", path)(error.error)),
    }
}

/// A simulated full disk: writes below a directory fail. It applies only to the calling thread.
#[cfg(feature = "sim")]
pub mod refusing {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    thread_local! {
        static REFUSING: RefCell<BTreeSet<PathBuf>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Makes writes below a directory fail, or succeed again.
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

/// Fails if the simulated disk is full.
#[cfg(feature = "sim")]
pub(crate) use refusing::admit;

#[cfg(not(feature = "sim"))]
pub(crate) fn admit(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn temporary(path: &Path, content: &[u8], writing: Writing) -> Result<tempfile::NamedTempFile> {
    admit(path)
        .and_then(|()| rt::disk::beside(path, content, writing.mode, writing.durability()))
        .map_err(Error::io("write", path))
}

fn sync_directory(path: &Path, writing: Writing) -> Result<()> {
    rt::disk::sync_name(path, writing.durability()).map_err(Error::io("sync the directory of", path))
}

/// Returns the content of a file, or `None` if it does not exist.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    found(std::fs::read(path), "read", path)
}

/// Returns the content of a text file, or `None` if it does not exist.
pub fn read_text(path: &Path) -> Result<Option<String>> {
    let Some(content) = read(path)? else { return Ok(None) };
    String::from_utf8(content).map(Some).map_err(|_| Error::malformed(path, "not valid UTF-8"))
}

/// Returns the value in a MessagePack file of either packing, or `None` if it does not exist.
pub fn read_value(path: &Path) -> Result<Option<Value>> {
    let Some(content) = read(path)? else { return Ok(None) };
    unpack(&content, Decode::Default).map(Some).map_err(|error| Error::malformed(path, error))
}

/// Like [`read_value`], but of a map only the entries under these keys are decoded.
pub fn read_entries(path: &Path, keys: &[&str]) -> Result<Option<Value>> {
    let Some(content) = read(path)? else { return Ok(None) };
    unpack_entries(&content, keys).map(Some).map_err(|error| Error::malformed(path, error))
}

/// Writes a MessagePack file in the packing of Salt's own files.
pub fn write_value(path: &Path, value: &Value, writing: Writing) -> Result<()> {
    write(path, &pack(value, Packing::Bin), writing)
}

/// Returns the hash of a file in lower-case hex. The file is read in chunks.
pub fn hash_file(path: &Path, kind: HashType) -> Result<String> {
    let mut file = std::fs::File::open(path).map_err(Error::io("open", path))?;
    let mut hash = Hasher::new(kind);
    // Files of the file server may be larger than the memory.
    let mut piece = [0; 16 * 1024];
    loop {
        match file.read(&mut piece).map_err(Error::io("read", path))? {
            0 => return Ok(hash.finish_hex()),
            len => hash.update(&piece[..len]),
        }
    }
}

/// Removes a file and returns whether it existed.
pub fn remove(path: &Path) -> Result<bool> {
    found(std::fs::remove_file(path), "remove", path).map(|found| found.is_some())
}

/// Removes a directory with its contents and returns whether it existed.
pub fn remove_tree(path: &Path) -> Result<bool> {
    found(std::fs::remove_dir_all(path), "remove", path).map(|found| found.is_some())
}

/// The permission bits that other users do not get on what daemons write.
const OTHER_USERS: u32 = 0o027;

/// Makes a directory and its parents, closed to other users.
pub fn make_directory(path: &Path) -> Result<()> {
    make_directories(path).map_err(Error::io("create directory", path))
}

/// Like [`make_directory`], with the system's error.
pub fn make_directories(path: &Path) -> std::io::Result<()> {
    // One system call on the common path. It also keeps a simulated full disk from refusing directories that exist.
    if path.is_dir() {
        return Ok(());
    }
    admit(path)?;
    std::fs::DirBuilder::new().recursive(true).mode(0o777 & !OTHER_USERS).create(path)
}

/// Returns options that create a file readable only by its owner; add the access mode. An existing file keeps its mode.
pub fn private_file() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.mode(0o600);
    options
}

/// Closes a directory of a daemon, and its direct contents, to other users, because an earlier release or the real Salt may have
/// left it open. What is deeper is then out of their reach too.
///
/// With `through`, others may pass through the directory itself, to files whose names they know. Directories that do not belong
/// to a daemon alone stay as they are: those near the root (`/var/cache`), and those where everybody may create files (`/tmp`).
/// Sockets and links are left alone.
pub fn close_to_others(directory: &Path, through: bool) -> Result<()> {
    let found = std::fs::metadata(directory).map_err(Error::io("look at", directory))?;
    // An operator may point `cachedir` or `log_file` at a place that other programs use. Closing `/tmp` or `/var/log`
    // would break the host.
    let parts = std::path::absolute(directory).map_or(0, |path| path.components().count());
    if parts <= SHARED_DEPTH || found.mode() & 0o1000 != 0 {
        return Ok(());
    }
    take_away(directory, found.mode(), if through { OTHER_USERS & !0o001 } else { OTHER_USERS })?;
    for name in names(directory)? {
        let path = directory.join(name);
        // An entry may vanish in the meantime.
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        if found.is_dir() || found.is_file() {
            take_away(&path, found.mode(), OTHER_USERS)?;
        }
    }
    Ok(())
}

/// A path of the root and two names, such as `/var/cache`, is shared.
const SHARED_DEPTH: usize = 3;

fn take_away(path: &Path, mode: u32, bits: u32) -> Result<()> {
    let closed = mode & 0o7777 & !bits;
    // A daemon that runs as a user without rights to change a mode must still start if nothing needs changing.
    if closed == mode & 0o7777 {
        return Ok(());
    }
    // No link that was placed here since decides what root closes.
    found(rt::owned::set_mode(path, closed), "close to other users", path).map(drop)
}

/// Returns the names in a directory in alphabetical order; none if there is no such directory.
pub fn names(path: &Path) -> Result<Vec<OsString>> {
    let Some(entries) = found(std::fs::read_dir(path), "list", path)? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(Error::io("list", path))?.file_name());
    }
    names.sort();
    Ok(names)
}

/// Like [`names`], without those that are not UTF-8.
pub fn text_names(path: &Path) -> Result<Vec<String>> {
    Ok(names(path)?.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Joins a relative path to a directory, and refuses anything that could lead out of it.
pub fn join_inside(directory: &Path, relative: &str, what: &'static str) -> Result<PathBuf> {
    // 255 bytes is the longest name that Linux file systems take. Refusing it here gives an error about the name, not
    // one about the disk.
    let good = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0') && part.len() <= 255;
    if relative.split('/').all(good) { Ok(directory.join(relative)) } else { Err(Error::bad_name(what, relative)) }
}

/// Like [`join_inside`], for a single name.
pub fn join_name(directory: &Path, name: &str, what: &'static str) -> Result<PathBuf> {
    if name.contains('/') { Err(Error::bad_name(what, name)) } else { join_inside(directory, name, what) }
}

fn found<T>(result: std::io::Result<T>, action: &'static str, path: &Path) -> Result<Option<T>> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match result {
        Ok(value) => Ok(Some(value)),
        // `a/b` does not exist either if `a` is a file.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(Error::io(action, path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn writing_replaces_or_not_and_leaves_no_temporary_file() {
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
    fn directories_left_open_by_earlier_releases_are_closed() {
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
        // Clients of other users connect through the socket, so its mode must survive.
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
    fn shared_directories_stay_open() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        close_to_others(dir.path(), false).unwrap();
        assert_eq!(mode(dir.path()), 0o1777);
        // As root this would really change `/var`.
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
    fn a_joined_path_never_leaves_its_directory() {
        let base = Path::new("/base");
        for bad in ["", "/x", "..", "a/../b", "a//b", "./a", "a\0b", "a/"] {
            assert!(join_inside(base, bad, "key").is_err(), "{bad:?}");
        }
        assert_eq!(join_inside(base, "a/b.c", "key").unwrap(), Path::new("/base/a/b.c"));
        assert!(join_name(base, "a/b", "id").is_err());
    }
}
