//! The keys of the minions: created once, stored in a directory, and used by every later swarm.
//!
//! Creating an RSA key takes a tenth of a second, so minions may share a pool of them. The pool is in files of twenty keys each,
//! `<bits>-<number>.pem` with mode 0600. The order never changes: with a pool of the same size, each minion has the same key the
//! next time, and a master that knows the swarm recognises it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crypto::PrivateKey;
use nix::fcntl::{Flock, FlockArg};

/// The number of keys in one file.
// Small enough that an interrupted creation of keys loses little, and large enough that thousands of keys do not need
// thousands of files.
const PER_FILE: usize = 20;

/// The end of a key in a file.
const END: &str = "-----END RSA PRIVATE KEY-----\n";

/// An error of the key pool.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file or directory could not be used.
    #[error("failed to {doing} {}: {source}", .path.display())]
    File {
        /// What was attempted: `read`, `write`, …
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file does not contain the keys it should.
    #[error("{} does not hold {PER_FILE} keys; remove it to create new keys", .0.display())]
    Damaged(PathBuf),
    /// An invalid id, or one that would be a path.
    #[error(transparent)]
    Id(#[from] wire::InvalidId),
    /// A key could not be created or parsed.
    #[error(transparent)]
    Rsa(#[from] crypto::RsaError),
}

/// A pool of keys in a directory.
#[derive(Clone, Debug)]
pub struct KeyPool {
    dir: PathBuf,
    bits: u32,
}

impl KeyPool {
    /// Returns the pool of keys of a size in a directory, which is created when needed.
    pub fn new(dir: impl Into<PathBuf>, bits: u32) -> Self {
        KeyPool { dir: dir.into(), bits }
    }

    /// Returns the first `count` keys. Missing ones are created on all processors, which blocks for long; `progress` gets the number
    /// of created and of missing keys.
    ///
    /// # Errors
    /// If the directory cannot be used, or a file in it was changed.
    pub fn take(&self, count: usize, progress: impl Fn(usize, usize) + Sync) -> Result<Vec<PrivateKey>, KeyError> {
        self.make_directory()?;
        // Before the look at what is missing: another swarm may create just these files.
        let _alone = self.lock()?;
        let files = count.div_ceil(PER_FILE);
        let missing: Vec<PathBuf> = (0..files).map(|file| self.path(file)).filter(|path| !path.exists()).collect();
        self.make(&missing, &progress)?;
        let mut keys = Vec::with_capacity(count);
        for file in 0..files {
            keys.extend(in_parallel(self.read(file, count - keys.len())?)?);
        }
        Ok(keys)
    }

    fn path(&self, file: usize) -> PathBuf {
        self.dir.join(format!("{}-{file:04}.pem", self.bits))
    }

    fn make_directory(&self) -> Result<(), KeyError> {
        // Private keys: nobody else may even list the names.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(failed("create", &self.dir))
    }

    /// Two swarms that start at once must not create different keys for the same file.
    fn lock(&self) -> Result<Flock<File>, KeyError> {
        let path = self.dir.join("lock");
        let file = File::create(&path).map_err(failed("create", &path))?;
        let locked = Flock::lock(file, FlockArg::LockExclusive);
        locked.map_err(|(_, error)| failed("lock", &path)(error.into()))
    }

    fn make(&self, missing: &[PathBuf], progress: &(impl Fn(usize, usize) + Sync)) -> Result<(), KeyError> {
        // File by file, so that whatever was finished before an interruption is kept.
        let (done, all) = (AtomicUsize::new(0), missing.len() * PER_FILE);
        for path in missing {
            let made = on_all_processors(PER_FILE, |_| {
                let pem = PrivateKey::generate(self.bits).and_then(|key| key.to_pem(None));
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
                pem
            });
            let pems: Vec<String> = made.into_iter().collect::<Result<_, _>>()?;
            self.write(path, &pems.concat()).map_err(failed("write", path))?;
        }
        Ok(())
    }

    /// Writes a file under a temporary name, so that half a file of keys is never seen.
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.persist(path)?;
        Ok(())
    }

    /// Reads the first `count` keys of a file, as text.
    fn read(&self, file: usize, count: usize) -> Result<Vec<String>, KeyError> {
        let path = self.path(file);
        let text = fs::read_to_string(&path).map_err(failed("read", &path))?;
        let pems: Vec<String> = text.split_inclusive(END).map(str::to_owned).collect();
        // Keys are found by their place. A file with too few would shift the keys of all minions after it, and masters
        // would reject them as changed.
        if pems.len() != PER_FILE || !text.ends_with(END) {
            return Err(KeyError::Damaged(path));
        }
        Ok(pems.into_iter().take(count).collect())
    }
}

/// Writes the public keys where a master keeps accepted keys (`<pki_dir>/minions`).
///
/// # Errors
/// If a file cannot be written, or an id is invalid.
pub fn place<'a>(pki_dir: &Path, minions: impl Iterator<Item = (String, &'a PrivateKey)>) -> Result<(), KeyError> {
    let dir = pki_dir.join("minions");
    fs::create_dir_all(&dir).map_err(failed("create", &dir))?;
    for (id, key) in minions {
        // The id becomes a file name. The check keeps `../x` from writing elsewhere.
        let path = dir.join(wire::MinionId::new(id)?.as_str());
        fs::write(&path, crypto::clean_key(&key.public().to_pem())).map_err(failed("write", &path))?;
    }
    Ok(())
}

fn in_parallel(pems: Vec<String>) -> Result<Vec<PrivateKey>, crypto::RsaError> {
    on_all_processors(pems.len(), |place| PrivateKey::from_pem(pems[place].as_bytes(), None)).into_iter().collect()
}

/// Runs `count` pieces of work on one thread per processor, and returns the results in order.
fn on_all_processors<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    // Threads take the next number instead of a fixed share: RSA key generation takes very different times.
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                return done;
            }
            done.push((place, work(place)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    // Threads finish in any order, but keys belong to minions by position.
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, value)| value).collect()
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeyError + use<> {
    let path = path.to_owned();
    move |source| KeyError::File { doing, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn texts(keys: &[PrivateKey]) -> Vec<String> {
        keys.iter().map(|key| key.public().to_pem()).collect()
    }

    #[test]
    fn keys_are_made_once_and_kept_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let pool = KeyPool::new(dir.path().join("keys"), 1024);
        let told = Mutex::new(Vec::new());
        let first = pool.take(3, |done, all| told.lock().unwrap().push((done, all))).unwrap();
        let told = told.into_inner().unwrap();
        assert!(told.len() == 20 && told.contains(&(20, 20)), "a whole file is made: {told:?}");
        let again = pool.take(5, |_, _| panic!("nothing is to be made")).unwrap();
        assert_eq!(texts(&again)[..3], texts(&first));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&pool.path(0)), mode(&pool.dir)), (0o600, 0o700));
    }

    #[test]
    fn a_damaged_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let pool = KeyPool::new(dir.path(), 1024);
        fs::write(pool.path(0), "no keys").unwrap();
        let refused = pool.take(1, |_, _| {}).unwrap_err().to_string();
        assert!(refused.contains("1024-0000.pem does not hold 20 keys"), "{refused}");
    }

    #[test]
    fn public_keys_are_placed_as_a_master_keeps_them() {
        let dir = tempfile::tempdir().unwrap();
        let key = PrivateKey::generate(1024).unwrap();
        place(dir.path(), [("swarm-1".to_owned(), &key)].into_iter()).unwrap();
        let placed = fs::read_to_string(dir.path().join("minions/swarm-1")).unwrap();
        assert_eq!(placed, crypto::clean_key(&key.public().to_pem()));
        let refused = place(dir.path(), [("../x".to_owned(), &key)].into_iter());
        assert!(matches!(refused, Err(KeyError::Id(_))));
    }

    #[test]
    fn work_in_parallel_keeps_its_order() {
        assert_eq!(on_all_processors(1000, |place| place * 2), (0..1000).map(|place| place * 2).collect::<Vec<_>>());
        assert!(on_all_processors(0, |place| place).is_empty());
    }
}
