//! The member key of a master on disk: `saltern/member.pem` in `pki_dir`.
//!
//! It says which member a master is in its set, and signs what that member decides. So no two hosts may have the same one.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use config::Master;
use crypto::MemberKey;
use nix::libc::O_NONBLOCK;
use nix::unistd::geteuid;
use tracing::info;

use crate::KeyError;
use crate::atomic::{self, Manner, Owner};

/// What other users must not have on the key and its directory.
const OTHERS: u32 = 0o077;
/// The largest file that is read. An Ed25519 key takes 119 bytes.
const MOST_BYTES: u64 = 16 * 1024;

/// The place of a master's member key.
#[derive(Clone, Debug)]
pub struct MemberKeyPath {
    pki_dir: PathBuf,
    owner: Owner,
}

impl MemberKeyPath {
    /// Returns the place below a key directory, for files of an account.
    pub fn new(pki_dir: impl Into<PathBuf>, owner: Owner) -> Self {
        MemberKeyPath { pki_dir: pki_dir.into(), owner }
    }

    /// Returns the place below a master's own `pki_dir`. Masters may have `cluster_pki_dir` in common, but never this key.
    pub fn of_master(settings: &Master) -> Self {
        MemberKeyPath::new(&settings.paths.pki_dir, Owner::of_user(&settings.user))
    }

    /// Returns the path of the file.
    pub fn file(&self) -> PathBuf {
        self.directory().join("member.pem")
    }

    fn directory(&self) -> PathBuf {
        self.pki_dir.join("saltern")
    }

    /// Reads the key, and creates it first if there is none. The key is on the disk when this returns.
    pub fn load_or_create(&self) -> Result<MemberKey, KeyError> {
        self.prepare_directory()?;
        match self.load()? {
            Some(key) => Ok(key),
            None => {
                self.create()?;
                // Read in either case: if another process was first, its key counts.
                self.load()?.ok_or_else(|| self.unusable("it was removed while this master started".to_owned()))
            }
        }
    }

    fn prepare_directory(&self) -> Result<(), KeyError> {
        let path = self.directory();
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => self
                .owner
                .apply_to_directory(&path)
                .and_then(|()| sync_directory(&self.pki_dir))
                .map_err(KeyError::io("make key directory", &path))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(KeyError::io("make key directory", &path)(error)),
        }
        let found = fs::metadata(&path).map_err(KeyError::io("look at key directory", &path))?;
        self.check_owner(&path, &found)?;
        if found.mode() & OTHERS != 0 {
            let closed = rt::owned::set_mode(&path, 0o700);
            closed.map_err(KeyError::io("set the permissions of", &path))?;
        }
        Ok(())
    }

    fn create(&self) -> Result<(), KeyError> {
        let path = self.file();
        info!("Generating member key: {}", path.display());
        let make = |source| KeyError::MakeMemberKey { path: path.clone(), source };
        let pem = MemberKey::generate().and_then(|key| key.to_pem()).map_err(make)?;
        let manner = Manner { mode: 0o400, owner: self.owner, durable: true };
        match atomic::write_new(&path, pem.as_bytes(), manner) {
            Ok(()) => sync_directory(&self.directory()).map_err(KeyError::io("sync the directory of", &path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(KeyError::io("write key", &path)(error)),
        }
    }

    /// Reads the key; `None` if there is no file.
    fn load(&self) -> Result<Option<MemberKey>, KeyError> {
        let path = self.file();
        // A pipe in place of the file must not stop the start for ever.
        let mut file = match OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(KeyError::io("read key", &path)(error)),
        };
        // The open file is checked, not its name, which may lead elsewhere a moment later.
        let found = file.metadata().map_err(KeyError::io("read key", &path))?;
        self.check_file(&path, &found)?;
        let mut pem = Vec::new();
        file.by_ref().take(MOST_BYTES).read_to_end(&mut pem).map_err(KeyError::io("read key", &path))?;
        MemberKey::from_pem(&pem).map(Some).map_err(|source| KeyError::MemberKey { path, source })
    }

    fn check_file(&self, path: &Path, found: &Metadata) -> Result<(), KeyError> {
        if !found.is_file() {
            return Err(self.unusable("it is not a regular file".to_owned()));
        }
        self.check_owner(path, found)?;
        let mode = found.mode() & 0o7777;
        if mode & OTHERS != 0 {
            let reason = format!(
                "its mode is {mode:04o}, so other users may have read it; remove it to get a new key, or set its mode to 0400"
            );
            return Err(self.unusable(reason));
        }
        match found.len() {
            0 => Err(self.unusable("it is empty; restore it, or remove it to become a new member".to_owned())),
            len if len > MOST_BYTES => Err(self.unusable(format!("it has {len} bytes, which no key has"))),
            _ => Ok(()),
        }
    }

    fn check_owner(&self, path: &Path, found: &Metadata) -> Result<(), KeyError> {
        let own = geteuid();
        if found.uid() == own.as_raw() || self.owner.is(found.uid()) {
            return Ok(());
        }
        let reason = format!("it belongs to the user with the id {}, and this master runs as {own}", found.uid());
        Err(KeyError::UnusableMemberKey { path: path.to_owned(), reason })
    }

    fn unusable(&self, reason: String) -> KeyError {
        KeyError::UnusableMemberKey { path: self.file(), reason }
    }
}

/// Writes down the names in a directory.
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn place() -> (tempfile::TempDir, MemberKeyPath) {
        let dir = tempfile::tempdir().unwrap();
        let path = MemberKeyPath::new(dir.path(), Owner::NOBODY);
        (dir, path)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// Replaces the key by a file, and returns why it is refused.
    fn refused(path: &MemberKeyPath, content: &[u8], mode: u32) -> String {
        let _ = fs::remove_file(path.file());
        fs::write(path.file(), content).unwrap();
        fs::set_permissions(path.file(), Permissions::from_mode(mode)).unwrap();
        let error = path.load_or_create().unwrap_err();
        assert!(error.to_string().contains(path.file().to_str().unwrap()), "{error}");
        assert_eq!(fs::read(path.file()).unwrap(), content, "a file that is refused stays as it is");
        error.to_string()
    }

    #[test]
    fn a_key_is_made_once_and_closed_to_others() {
        let (_dir, path) = place();
        let made = path.load_or_create().unwrap();
        assert_eq!((mode(&path.file()), mode(&path.directory())), (0o400, 0o700));
        assert_eq!(path.load_or_create().unwrap().public(), made.public());
        assert_eq!(fs::read_dir(path.directory()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_made_by_another_process_at_the_same_time_counts() {
        let (_dir, path) = place();
        let first = path.load_or_create().unwrap();
        path.create().unwrap();
        assert_eq!(path.load_or_create().unwrap().public(), first.public());
    }

    #[test]
    fn an_open_directory_is_closed() {
        let (_dir, path) = place();
        path.load_or_create().unwrap();
        fs::set_permissions(path.directory(), Permissions::from_mode(0o755)).unwrap();
        path.load_or_create().unwrap();
        assert_eq!(mode(&path.directory()), 0o700);
    }

    #[test]
    fn a_file_that_may_not_be_the_key_is_refused_and_kept() {
        let (_dir, path) = place();
        path.load_or_create().unwrap();
        let pem = fs::read(path.file()).unwrap();
        assert!(refused(&path, b"", 0o400).contains("empty"));
        assert!(refused(&path, &pem, 0o440).contains("0440"));
        assert!(refused(&path, &vec![b'x'; 20_000], 0o400).contains("20000 bytes"));
        assert!(!refused(&path, b"-----BEGIN PRIVATE KEY-----\nsecret", 0o400).contains("secret"));
        assert!(refused(&path, &pem[..60], 0o400).contains("member.pem"));
    }

    #[test]
    fn a_pipe_or_directory_in_its_place_is_refused() {
        let (_dir, path) = place();
        path.load_or_create().unwrap();
        fs::remove_file(path.file()).unwrap();
        nix::unistd::mkfifo(&path.file(), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(path.load_or_create().unwrap_err().to_string().contains("not a regular file"));
        fs::remove_file(path.file()).unwrap();
        fs::create_dir(path.file()).unwrap();
        assert!(path.load_or_create().unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn a_link_that_leads_nowhere_is_no_reason_for_a_new_key() {
        let (_dir, path) = place();
        path.load_or_create().unwrap();
        fs::remove_file(path.file()).unwrap();
        symlink("/nonexistent/member.pem", path.file()).unwrap();
        let error = path.load_or_create().unwrap_err().to_string();
        assert!(error.contains("member.pem"), "{error}");
        assert!(path.file().is_symlink());
    }

    #[test]
    fn the_file_of_another_user_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        let (_dir, path) = place();
        path.load_or_create().unwrap();
        std::os::unix::fs::chown(path.file(), Some(65_534), None).unwrap();
        let error = path.load_or_create().unwrap_err().to_string();
        assert!(error.contains("member.pem") && error.contains("65534"), "{error}");
        std::os::unix::fs::chown(path.directory(), Some(65_534), None).unwrap();
        let error = path.load_or_create().unwrap_err().to_string();
        assert!(error.contains("saltern: it belongs"), "{error}");
    }

    #[test]
    fn a_missing_key_directory_is_named() {
        let error = MemberKeyPath::new("/nonexistent/pki", Owner::NOBODY).load_or_create().unwrap_err().to_string();
        assert_eq!(error, "cannot make key directory /nonexistent/pki/saltern");
    }
}
