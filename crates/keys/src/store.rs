//! The key directories of a master, as Salt lays them out.

use std::fs::{self, DirBuilder, DirEntry, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc::{ENXIO, O_NONBLOCK};
use wire::MinionId;

use crate::atomic::{self, Manner, Owner};
use crate::{Bank, KeyError, KeyState};

/// How much of a key file is read, in bytes: many times what a key has.
const MOST_READ: u64 = 64 * 1024;

/// The keys of minions in `pki_dir` (in clusters `cluster_pki_dir`). Every call looks at the files;
/// [`LiveKeys`](crate::LiveKeys) caches them.
#[derive(Clone, Debug)]
pub struct KeyStore {
    dir: PathBuf,
    owner: Owner,
}

/// The key of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// Its state.
    pub state: KeyState,
    /// The key file's content.
    pub text: String,
}

/// The ids in all directories, each list sorted without regard to letter case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing([Vec<MinionId>; 4]);

impl Listing {
    /// The ids with a key in a directory.
    pub fn ids(&self, bank: Bank) -> &[MinionId] {
        &self.0[bank.index()]
    }
}

impl KeyStore {
    /// Returns the keys below a directory, whose new files will belong to an account.
    pub fn new(pki_dir: impl Into<PathBuf>, owner: Owner) -> Self {
        KeyStore { dir: pki_dir.into(), owner }
    }

    /// Creates missing directories, and closes the key directory to other users: its mode becomes 0700 unless it is
    /// already 0700 or 0750 (`permissive_pki_access`).
    pub fn prepare(&self) -> Result<(), KeyError> {
        if !self.dir.is_dir() {
            self.make_directory(&self.dir, 0o700)?;
        }
        let action = "look at key directory";
        let mode = fs::metadata(&self.dir).map_err(KeyError::io(action, &self.dir))?.permissions().mode() & 0o7777;
        // Salt sets the same modes at each start, and its programs may work on the same directory.
        if mode != 0o700 && mode != 0o750 {
            let closed = rt::owned::set_mode(&self.dir, 0o700);
            closed.map_err(KeyError::io("set the permissions of", &self.dir))?;
        }
        let banks = Bank::ALL.into_iter().map(Bank::directory);
        for name in banks.chain(["minions_autosign"]) {
            let path = self.dir.join(name);
            if !path.is_dir() {
                self.make_directory(&path, 0o750)?;
            }
        }
        Ok(())
    }

    fn make_directory(&self, path: &Path, mode: u32) -> Result<(), KeyError> {
        let made = DirBuilder::new().recursive(true).mode(mode).create(path);
        let made = made.and_then(|()| self.owner.apply_to_directory(path));
        made.map_err(KeyError::io("make key directory", path))
    }

    /// The key directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The account new files belong to.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Returns the path of a directory of keys.
    pub fn bank_path(&self, bank: Bank) -> PathBuf {
        self.dir.join(bank.directory())
    }

    /// Returns the path of the key of an id in a directory.
    pub fn path(&self, bank: Bank, id: &MinionId) -> PathBuf {
        self.bank_path(bank).join(id.as_str())
    }

    /// Returns the ids with a key in a directory, sorted without regard to letter case.
    ///
    /// Invalid ids and directories are left out. Links to files count, as they did before Salt 3008. A missing
    /// directory is empty.
    pub fn ids(&self, bank: Bank) -> Result<Vec<MinionId>, KeyError> {
        let path = self.bank_path(bank);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(KeyError::io("list keys in", &path)(error)),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(KeyError::io("list keys in", &path))?;
            if let Some(id) = id_of(&entry) {
                ids.push((id.as_str().to_lowercase(), id));
            }
        }
        // By lower case first, and by the id itself where only case differs: the order is always the same.
        ids.sort_unstable();
        Ok(ids.into_iter().map(|(_, id)| id).collect())
    }

    /// Returns the ids in all directories. An id is in the list of every directory that has a file for it.
    pub fn list(&self) -> Result<Listing, KeyError> {
        let mut listing = Listing::default();
        for bank in Bank::ALL {
            listing.0[bank.index()] = self.ids(bank)?;
        }
        Ok(listing)
    }

    /// Returns the key of an id: the rejected one if there is one, else the pending one, else the accepted one.
    pub fn find(&self, id: &MinionId) -> Result<Option<StoredKey>, KeyError> {
        for state in KeyState::LOOKUP {
            if let Some(text) = self.read(state.bank(), id)? {
                return Ok(Some(StoredKey { state, text }));
            }
        }
        Ok(None)
    }

    /// Returns the content of a key file. What is not a regular file, or a link to one, is no key file.
    pub fn read(&self, bank: Bank, id: &MinionId) -> Result<Option<String>, KeyError> {
        let path = self.path(bank, id);
        match read_regular(&path) {
            // Garbage is not an error here: it is no key, and what reads the text says so.
            Ok(content) => Ok(content.map(|content| String::from_utf8_lossy(&content).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(KeyError::io("read key", &path)(error)),
        }
    }

    /// Stores the key of an id. The id has a key at every moment in between.
    pub fn put(&self, id: &MinionId, state: KeyState, text: &str) -> Result<(), KeyError> {
        // Written before the others are removed: after a crash the id has two keys rather than none.
        self.write(state.bank(), id, text)?;
        self.clear_others(id, state.bank())
    }

    /// Stores the key of an id that has none. Returns false and changes nothing if it has one in any state.
    pub fn put_new(&self, id: &MinionId, state: KeyState, text: &str) -> Result<bool, KeyError> {
        let path = self.path(state.bank(), id);
        match atomic::write_new(&path, text.as_bytes(), self.manner()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(KeyError::io("write key", &path)(error)),
        }
        // Two applications may meet in different directories. The one that sees the other takes back its own.
        let others = KeyState::LOOKUP.into_iter().map(KeyState::bank).filter(|bank| *bank != state.bank());
        if others.into_iter().any(|bank| self.path(bank, id).is_file()) {
            self.remove(id, state.bank())?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Stores a key that was refused because the id has another one. It replaces an earlier denied key.
    pub fn deny(&self, id: &MinionId, text: &str) -> Result<(), KeyError> {
        self.write(Bank::Denied, id, text)
    }

    /// Moves a key file. Moving it to a state replaces the key the id had in any state. Returns false when there is
    /// no such file.
    pub fn move_key(&self, id: &MinionId, from: Bank, to: Bank) -> Result<bool, KeyError> {
        // Renaming onto itself works, but clearing the others must not happen.
        if from == to {
            return Ok(self.path(from, id).is_file());
        }
        let path = self.path(from, id);
        let moved = if path.is_symlink() {
            self.copy_and_remove(id, from, to)?
        } else {
            self.rename(&path, &self.path(to, id))?
        };
        if moved && to != Bank::Denied {
            self.clear_others(id, to)?;
        }
        Ok(moved)
    }

    /// Moves a key whose text was read before: it is this text that has the new state, whatever has come since. Returns false when
    /// the state stays.
    pub fn move_text(&self, id: &MinionId, (from, to): (Bank, Bank), text: &str) -> Result<bool, KeyError> {
        if from == to {
            return Ok(self.path(from, id).is_file());
        }
        self.write(to, id, text)?;
        self.remove(id, from)?;
        if to != Bank::Denied {
            self.clear_others(id, to)?;
        }
        Ok(true)
    }

    /// Removes a key file. Returns false when there is none.
    pub fn remove(&self, id: &MinionId, bank: Bank) -> Result<bool, KeyError> {
        let path = self.path(bank, id);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(KeyError::io("remove key", &path)(error)),
        }
    }

    /// Moves a symbolic link by copying its content, because the link may be relative.
    fn copy_and_remove(&self, id: &MinionId, from: Bank, to: Bank) -> Result<bool, KeyError> {
        let Some(text) = self.read(from, id)? else { return Ok(false) };
        self.write(to, id, &text)?;
        self.remove(id, from)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<bool, KeyError> {
        match fs::rename(from, to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !from.exists() => Ok(false),
            Err(error) => Err(KeyError::io("move key", from)(error)),
        }
    }

    fn write(&self, bank: Bank, id: &MinionId, text: &str) -> Result<(), KeyError> {
        let path = self.path(bank, id);
        atomic::write(&path, text.as_bytes(), self.manner()).map_err(KeyError::io("write key", &path))
    }

    fn manner(&self) -> Manner {
        Manner { mode: 0o600, owner: self.owner, durable: false }
    }

    fn clear_others(&self, id: &MinionId, kept: Bank) -> Result<(), KeyError> {
        let others = KeyState::LOOKUP.into_iter().map(KeyState::bank).filter(|bank| *bank != kept);
        others.into_iter().try_for_each(|bank| self.remove(id, bank).map(drop))
    }
}

/// Reads a regular file, at most [`MOST_READ`] bytes of it; `None` for anything else.
///
/// Whoever may write to a key directory must not be able to stop the master with a FIFO, or fill its memory with a link to a
/// device.
fn read_regular(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        // A socket cannot be opened.
        Err(error) if error.raw_os_error() == Some(ENXIO) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(MOST_READ).read_to_end(&mut content)?;
    Ok(Some(content))
}

fn id_of(entry: &DirEntry) -> Option<MinionId> {
    let kind = entry.file_type().ok()?;
    let is_file = kind.is_file() || (kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|file| file.is_file()));
    let name = entry.file_name();
    // Salt keeps `.key_cache` here, and we the files being written.
    is_file.then(|| MinionId::new(name.to_str()?).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::*;

    fn store() -> (tempfile::TempDir, KeyStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path().join("pki"), Owner::default());
        store.prepare().unwrap();
        (dir, store)
    }

    fn id(text: &str) -> MinionId {
        MinionId::new(text).unwrap()
    }

    fn names(ids: &[MinionId]) -> Vec<&str> {
        ids.iter().map(MinionId::as_str).collect()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn the_directories_are_closed_to_others() {
        let (_dir, store) = store();
        assert_eq!(mode(store.dir()), 0o700);
        for (before, after) in [(0o755, 0o700), (0o750, 0o750), (0o700, 0o700)] {
            fs::set_permissions(store.dir(), Permissions::from_mode(before)).unwrap();
            store.prepare().unwrap();
            assert_eq!(mode(store.dir()), after);
        }
    }

    #[test]
    fn a_key_goes_through_all_states() {
        let (_dir, store) = store();
        let web = id("web1");
        assert_eq!(store.find(&web).unwrap(), None);
        store.put(&web, KeyState::Pending, "key").unwrap();
        assert_eq!(mode(&store.path(Bank::Pending, &web)), 0o600);
        for (from, to) in [(Bank::Pending, Bank::Accepted), (Bank::Accepted, Bank::Rejected)] {
            assert!(store.move_key(&web, from, to).unwrap());
            assert!(!store.move_key(&web, from, to).unwrap());
            let found = store.find(&web).unwrap().unwrap();
            assert_eq!((found.state.bank(), found.text.as_str()), (to, "key"));
        }
        assert!(store.remove(&web, Bank::Rejected).unwrap());
        assert!(!store.remove(&web, Bank::Rejected).unwrap());
    }

    #[test]
    fn an_id_has_one_key_and_perhaps_a_denied_one() {
        let (_dir, store) = store();
        let web = id("web1");
        store.put(&web, KeyState::Pending, "old").unwrap();
        store.put(&web, KeyState::Accepted, "new").unwrap();
        assert_eq!(store.read(Bank::Pending, &web).unwrap(), None);
        store.deny(&web, "other").unwrap();
        store.deny(&web, "another").unwrap();
        assert_eq!(store.read(Bank::Denied, &web).unwrap().unwrap(), "another");
        assert_eq!(store.find(&web).unwrap().unwrap().text, "new");
        assert!(store.move_key(&web, Bank::Denied, Bank::Accepted).unwrap());
        assert_eq!(store.find(&web).unwrap().unwrap().text, "another");
    }

    #[test]
    fn of_several_files_the_rejected_one_counts() {
        let (_dir, store) = store();
        let web = id("web1");
        for bank in [Bank::Accepted, Bank::Pending, Bank::Rejected] {
            fs::write(store.path(bank, &web), bank.word()).unwrap();
            assert_eq!(store.find(&web).unwrap().unwrap().text, bank.word());
        }
    }

    #[test]
    fn lists_hold_ids_only() {
        let (_dir, store) = store();
        for name in ["web2", "Web10", "web1", ".key_cache", "bad\u{200b}id"] {
            fs::write(store.bank_path(Bank::Accepted).join(name), "key").unwrap();
        }
        fs::create_dir(store.bank_path(Bank::Accepted).join("directory")).unwrap();
        symlink("web1", store.bank_path(Bank::Accepted).join("linked")).unwrap();
        symlink("nowhere", store.bank_path(Bank::Accepted).join("broken")).unwrap();
        let listing = store.list().unwrap();
        assert_eq!(names(listing.ids(Bank::Accepted)), ["linked", "web1", "Web10", "web2"]);
        assert!(listing.ids(Bank::Denied).is_empty());
        assert_eq!(store.find(&id("directory")).unwrap(), None);
        assert_eq!(store.find(&id("linked")).unwrap().unwrap().text, "key");
    }

    #[test]
    fn only_regular_files_are_read_and_only_so_far() {
        let (_dir, store) = store();
        let path = |id_text: &str| store.path(Bank::Pending, &id(id_text));
        nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        symlink("/dev/zero", path("device")).unwrap();
        for name in ["fifo", "socket", "device"] {
            assert_eq!(store.find(&id(name)).unwrap(), None, "{name}");
        }
        fs::write(path("large"), vec![b'x'; 2 * MOST_READ as usize]).unwrap();
        assert_eq!(store.find(&id("large")).unwrap().unwrap().text.len(), MOST_READ as usize);
    }

    #[test]
    fn a_link_is_moved_by_its_content() {
        let (_dir, store) = store();
        fs::write(store.dir().join("shared"), "key").unwrap();
        symlink("../shared", store.path(Bank::Pending, &id("web1"))).unwrap();
        fs::create_dir(store.dir().join("deep")).unwrap();
        assert!(store.move_key(&id("web1"), Bank::Pending, Bank::Accepted).unwrap());
        assert_eq!(
            store.find(&id("web1")).unwrap().unwrap(),
            StoredKey { state: KeyState::Accepted, text: "key".to_owned() }
        );
    }

    #[test]
    fn missing_directories_are_empty_and_errors_name_the_file() {
        let store = KeyStore::new("/nonexistent/pki", Owner::default());
        assert_eq!(store.list().unwrap(), Listing::default());
        let error = store.put(&id("web1"), KeyState::Accepted, "key").unwrap_err();
        assert_eq!(error.to_string(), "cannot write key /nonexistent/pki/minions/web1");
    }

    #[test]
    fn ten_thousand_keys_are_listed_in_milliseconds() {
        let (_dir, store) = store();
        for number in 0..10_000 {
            fs::write(store.bank_path(Bank::Accepted).join(format!("minion-{number}.example.org")), "").unwrap();
        }
        let start = std::time::Instant::now();
        assert_eq!(store.list().unwrap().ids(Bank::Accepted).len(), 10_000);
        // Without optimisation and with other tests beside; a release build takes about 5 ms.
        assert!(start.elapsed() < std::time::Duration::from_millis(500), "{:?}", start.elapsed());
    }
}
