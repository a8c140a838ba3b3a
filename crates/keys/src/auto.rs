//! Automatic acceptance and rejection of keys.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::unistd::{Gid, User, geteuid, getgrouplist};
use tracing::warn;
use value::Map;
use wire::MinionId;

/// The options that decide about new keys, with Salt's names.
#[derive(Clone, Debug)]
pub struct AutoKeyOptions {
    /// Accept every new key.
    pub auto_accept: bool,
    /// New keys are accepted or rejected by these options. A master that leaves it to others has all of them wait.
    pub decides: bool,
    /// Ids that are accepted: globs or regular expressions, one per line.
    pub autosign_file: Option<PathBuf>,
    /// Ids that are rejected.
    pub autoreject_file: Option<PathBuf>,
    /// A directory with a file per grain, whose lines are the values that are accepted.
    pub autosign_grains_dir: Option<PathBuf>,
    /// The lifetime of a stub in `minions_autosign`; `None` if unlimited. Salt's option is in minutes, with 0 for
    /// unlimited.
    pub autosign_timeout: Option<Duration>,
    /// Trust control files that a group may write, if the daemon's account belongs to that group.
    pub permissive_pki_access: bool,
    /// The account of the daemon.
    pub user: String,
}

impl Default for AutoKeyOptions {
    /// Salt's defaults: nothing is accepted automatically, and stubs are valid for two hours.
    fn default() -> Self {
        AutoKeyOptions {
            auto_accept: false,
            decides: true,
            autosign_file: None,
            autoreject_file: None,
            autosign_grains_dir: None,
            autosign_timeout: Some(Duration::from_secs(120 * 60)),
            permissive_pki_access: false,
            user: String::new(),
        }
    }
}

/// Decides by control files which keys are accepted or rejected.
#[derive(Debug)]
pub struct AutoKey {
    options: AutoKeyOptions,
    stubs: PathBuf,
    trust: Trust,
    lists: Mutex<HashMap<PathBuf, List>>,
}

/// The cached lines of a file.
#[derive(Clone, Debug)]
struct List {
    version: Version,
    lines: Arc<[String]>,
}

/// The version of a file: modification time, size and inode number.
type Version = (i64, i64, u64, u64);

fn version(file: &Metadata) -> Version {
    (file.mtime(), file.mtime_nsec(), file.size(), file.ino())
}

impl AutoKey {
    /// Returns the rules for a key directory (`pki_dir`, in clusters `cluster_pki_dir`).
    pub fn new(options: AutoKeyOptions, pki_dir: &Path) -> Self {
        let trust = Trust::new(options.permissive_pki_access, &options.user);
        AutoKey { stubs: pki_dir.join("minions_autosign"), options, trust, lists: Mutex::default() }
    }

    /// Returns whether the id matches `autoreject_file`.
    pub fn rejects(&self, id: &MinionId) -> bool {
        self.options.decides && self.listed(id, self.options.autoreject_file.as_deref())
    }

    /// Returns whether a key is accepted automatically: with `auto_accept`, by the id, by a stub (which this removes),
    /// or by the grains that the minion sent.
    pub fn signs(&self, id: &MinionId, autosign_grains: Option<&Map>, now: SystemTime) -> bool {
        // The stub comes after the tests that use nothing up.
        self.options.decides
            && (self.options.auto_accept
                || self.listed(id, self.options.autosign_file.as_deref())
                || self.takes_stub(id, now)
                || autosign_grains.is_some_and(|grains| self.grains_match(grains)))
    }

    fn listed(&self, id: &MinionId, file: Option<&Path>) -> bool {
        let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) else { return false };
        self.lines(file).iter().any(|line| targeting::expr_match(id.as_str(), line))
    }

    /// Returns the lines of a control file, read again if it has changed. None if it is missing or other users may
    /// write it.
    fn lines(&self, file: &Path) -> Arc<[String]> {
        let Ok(metadata) = fs::metadata(file) else { return Arc::default() };
        // Checked at each use, not only when the file has changed: the mode may change alone.
        if !self.trust.allows(&metadata) {
            warn!("Wrong permissions for {}, ignoring content", file.display());
            return Arc::default();
        }
        let version = version(&metadata);
        if let Some(known) = self.lists().get(file).filter(|known| known.version == version) {
            return Arc::clone(&known.lines);
        }
        let Ok(lines) = read_lines(file) else { return Arc::default() };
        self.lists().insert(file.to_owned(), List { version, lines: Arc::clone(&lines) });
        lines
    }

    fn lists(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, List>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn takes_stub(&self, id: &MinionId, now: SystemTime) -> bool {
        self.remove_old_stubs(now);
        let stub = self.stubs.join(id.as_str());
        // Removing decides between several sign-ins at once: only one of them gets the stub.
        match fs::remove_file(&stub) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                // A stub that stays would accept any number of keys.
                warn!("cannot remove autosign stub {}, ignoring it: {error}", stub.display());
                false
            }
        }
    }

    fn remove_old_stubs(&self, now: SystemTime) {
        let Some(timeout) = self.options.autosign_timeout else { return };
        let Ok(stubs) = fs::read_dir(&self.stubs) else { return };
        for stub in stubs.flatten() {
            let modified = stub.metadata().and_then(|stub| stub.modified());
            let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
            if age.is_some_and(|age| age > timeout) && fs::remove_file(stub.path()).is_ok() {
                warn!("Autosign keyid expired {}", stub.path().display());
            }
        }
    }

    fn grains_match(&self, grains: &Map) -> bool {
        let Some(directory) = &self.options.autosign_grains_dir else { return false };
        let Ok(files) = fs::read_dir(directory) else { return false };
        files.flatten().any(|file| {
            // The names come from the directory, never from the minion, so a grain cannot lead to another file.
            let name = file.file_name();
            let Some(value) = name.to_str().and_then(|name| grains.get(name)) else { return false };
            // As Python prints it: a list matches only its exact text.
            let text = value.to_string();
            self.lines(&file.path()).contains(&text)
        })
    }
}

fn read_lines(file: &Path) -> io::Result<Arc<[String]>> {
    let text = fs::read(file).inspect_err(|error| warn!("cannot read {}: {error}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    // Stripped first, as in Salt: an indented `#` begins a comment too.
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// Decides which control files are trusted.
#[derive(Clone, Debug)]
struct Trust {
    permissive: bool,
    is_root: bool,
    /// The groups of the daemon's account, without its main one.
    groups: Vec<u32>,
}

impl Trust {
    fn new(permissive: bool, user: &str) -> Self {
        Trust { permissive, is_root: geteuid().is_root(), groups: supplementary_groups(user) }
    }

    /// Returns whether the permissions of a control file make it trustworthy. No other user may write it. A group may
    /// with `permissive_pki_access`; if the process runs as root, only a group to which the daemon's account belongs.
    fn allows(&self, file: &Metadata) -> bool {
        let mode = file.mode();
        if mode & 0o002 != 0 {
            return false;
        }
        if mode & 0o020 != 0 {
            return self.permissive && (!self.is_root || self.groups.contains(&file.gid()));
        }
        true
    }
}

fn supplementary_groups(user: &str) -> Vec<u32> {
    let Ok(Some(account)) = User::from_name(user) else { return Vec::new() };
    let Ok(name) = std::ffi::CString::new(user) else { return Vec::new() };
    let groups = getgrouplist(&name, account.gid).unwrap_or_default();
    // The main group does not count, as in Salt.
    groups.into_iter().filter(|group| *group != account.gid).map(Gid::as_raw).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use value::{list, map};

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        options: AutoKeyOptions,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("minions_autosign")).unwrap();
            Place { dir, options: AutoKeyOptions::default() }
        }

        fn file(&self, name: &str, content: &str, mode: u32) -> PathBuf {
            let path = self.dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn judge(&self) -> AutoKey {
            AutoKey::new(self.options.clone(), self.dir.path())
        }
    }

    fn id(text: &str) -> MinionId {
        MinionId::new(text).unwrap()
    }

    fn signs(judge: &AutoKey, who: &str) -> bool {
        judge.signs(&id(who), None, SystemTime::now())
    }

    #[test]
    fn nothing_is_signed_by_itself() {
        let judge = Place::new().judge();
        assert!(!signs(&judge, "web1"));
        assert!(!judge.rejects(&id("web1")));
    }

    #[test]
    fn files_hold_globs_and_expressions() {
        let mut place = Place::new();
        place.options.autosign_file = Some(place.file("sign", "# web9\n web*\n\ndb[0-9]+\\.example\n", 0o644));
        place.options.autoreject_file = Some(place.file("reject", "evil\n", 0o644));
        let judge = place.judge();
        let signed: Vec<_> =
            ["web1", "db12.example", "db12xexample", "mydb1.example", "#"].map(|who| signs(&judge, who)).into();
        assert_eq!(signed, [true, true, false, false, false]);
        assert!(judge.rejects(&id("evil")) && !judge.rejects(&id("web1")));
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let mut place = Place::new();
        let path = place.file("sign", "web1", 0o644);
        place.options.autosign_file = Some(path.clone());
        let judge = place.judge();
        assert!(signs(&judge, "web1"));
        fs::write(&path, "web22").unwrap();
        assert!(!signs(&judge, "web1") && signs(&judge, "web22"));
        fs::remove_file(&path).unwrap();
        assert!(!signs(&judge, "web22"));
    }

    #[test]
    fn files_others_may_write_are_ignored() {
        let mut place = Place::new();
        place.options.autosign_file = Some(place.file("sign", "*", 0o646));
        assert!(!signs(&place.judge(), "web1"));
        place.file("sign", "*", 0o664);
        assert!(!signs(&place.judge(), "web1"));
        let file = fs::metadata(place.dir.path().join("sign")).unwrap();
        let group = file.gid();
        for (permissive, is_root, groups, expected) in [
            (false, false, vec![group], false),
            (true, false, vec![], true),
            (true, true, vec![], false),
            (true, true, vec![group], true),
        ] {
            assert_eq!(Trust { permissive, is_root, groups }.allows(&file), expected);
        }
    }

    #[test]
    fn a_stub_is_good_once_and_not_for_ever() {
        let place = Place::new();
        place.file("minions_autosign/web1", "", 0o644);
        let judge = place.judge();
        assert!(signs(&judge, "web1"));
        assert!(!signs(&judge, "web1"));
        let stub = place.file("minions_autosign/web2", "", 0o644);
        let later = SystemTime::now() + Duration::from_secs(121 * 60);
        assert!(!judge.signs(&id("web2"), None, later));
        assert!(!stub.exists());
    }

    #[test]
    fn stubs_may_be_kept_for_ever() {
        let mut place = Place::new();
        place.options.autosign_timeout = None;
        place.file("minions_autosign/web2", "", 0o644);
        let later = SystemTime::now() + Duration::from_secs(1_000_000);
        assert!(place.judge().signs(&id("web2"), None, later));
    }

    #[test]
    fn grains_are_compared_as_python_prints_them() {
        let mut place = Place::new();
        place.options.autosign_grains_dir = Some(place.dir.path().join("grains"));
        place.file("grains/serial", "# comment\nA1\n True \n", 0o644);
        place.file("grains/roles", "['web', 'db']\n", 0o644);
        place.file("grains/open", "yes\n", 0o666);
        let judge = place.judge();
        let signed = |grains: Map| judge.signs(&id("web1"), Some(&grains), SystemTime::now());
        assert!(signed(map! { "serial" => "A1" }));
        assert!(signed(map! { "serial" => true }));
        assert!(signed(map! { "roles" => list!["web", "db"] }));
        assert!(!signed(map! { "roles" => list!["db"] }));
        assert!(!signed(map! { "open" => "yes" }));
        assert!(!signed(map! { "../grains/serial" => "A1" }));
        assert!(!signed(map! { "serial" => "# comment" }));
    }
}
