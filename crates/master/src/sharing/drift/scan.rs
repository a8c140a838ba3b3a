//! Trees of directories. Files are read only if they have changed since they were read before.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use config::{FileSettings, Roots};
use crypto::HashType;
use share::Digest;
use share::drift::{Dir, DirBuilder, Entry, Leaf, entry_name};
use targeting::{Glob, PyRegex};
use tokio_util::sync::CancellationToken;

use super::environments::environments;

/// The maximum number of files of a tree, and how deep directories are looked into.
const MOST_FILES: usize = 1_000_000;
const MOST_DEPTH: usize = 60;

/// A file that was changed this few seconds before it is read may change once more in the same tick of the clock of the disk.
const UNSETTLED: i64 = 2;

/// Directories and files that tools keep beside what they manage, and that differ on each host.
const OF_TOOLS: [&str; 4] = [".git", ".hg", ".svn", "__pycache__"];
const ENDINGS_OF_TOOLS: [&str; 3] = [".pyc", ".swp", "~"];

/// Why there is no tree.
#[derive(Debug)]
pub struct Unscanned(pub String);

/// Which files count.
#[derive(Default)]
pub struct Rules {
    regex: Vec<PyRegex>,
    glob: Vec<Glob>,
    ignore_links: bool,
}

impl Rules {
    /// Those of the file server.
    pub fn of_files(settings: &FileSettings) -> Rules {
        Rules {
            // The file server has refused others at the start.
            regex: settings.file_ignore_regex.iter().filter_map(|pattern| PyRegex::search(pattern).ok()).collect(),
            glob: settings.file_ignore_glob.iter().map(|pattern| Glob::new(pattern)).collect(),
            ignore_links: settings.fileserver_ignoresymlinks || !settings.fileserver_followsymlinks,
        }
    }

    fn ignore(&self, path: &str) -> bool {
        self.regex.iter().any(|regex| regex.is_match(path)) || self.glob.iter().any(|glob| glob.matches(path))
    }
}

/// A look at all files of a tree.
pub struct Scan<'a> {
    rules: &'a Rules,
    before: Option<&'a Dir>,
    /// Seconds since 1970.
    now: i64,
    stop: &'a CancellationToken,
    files: usize,
}

impl<'a> Scan<'a> {
    /// `before` is the tree of the last time.
    pub fn new(rules: &'a Rules, before: Option<&'a Dir>, now: i64, stop: &'a CancellationToken) -> Self {
        Scan { rules, before, now, stop, files: 0 }
    }

    /// Returns the tree of environments. Of files with one path the one in the first directory counts.
    pub fn environments(mut self, roots: &Roots) -> Result<Dir, Unscanned> {
        let mut all = DirBuilder::default();
        for (env, directories) in environments(roots) {
            let env = entry_name(env.as_bytes());
            let before = self.before.and_then(|before| inside(before, &env));
            let Some(tree) = all.dir(&env) else { continue };
            for directory in directories {
                self.walk(&directory, "", before, tree, &mut Vec::new())?;
            }
        }
        Ok(all.finish())
    }

    /// Returns the tree of one directory.
    pub fn directory(mut self, directory: &Path) -> Result<Dir, Unscanned> {
        let mut tree = DirBuilder::default();
        self.walk(directory, "", self.before, &mut tree, &mut Vec::new())?;
        Ok(tree.finish())
    }

    /// `open` are the device and inode of the directories on the way: a link to one of them would be walked for ever.
    fn walk(
        &mut self,
        directory: &Path,
        prefix: &str,
        before: Option<&Dir>,
        tree: &mut DirBuilder,
        open: &mut Vec<(u64, u64)>,
    ) -> Result<(), Unscanned> {
        let Ok(state) = std::fs::metadata(directory) else { return Ok(()) };
        let identity = (state.dev(), state.ino());
        if open.contains(&identity) || open.len() >= MOST_DEPTH {
            return Ok(());
        }
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            // It cannot be served either, or has just been removed.
            Err(error) => {
                tracing::debug!("{} is not compared: {error}", directory.display());
                return Ok(());
            }
        };
        open.push(identity);
        for entry in entries.filter_map(Result::ok) {
            if self.stop.is_cancelled() {
                return Err(Unscanned("the master stops".to_owned()));
            }
            let (raw, full) = (entry.file_name(), entry.path());
            let name = entry_name(raw.as_bytes());
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if of_tools(&name) || is_link && self.rules.ignore_links {
                continue;
            }
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            if full.is_dir() {
                // Ignored directories may contain files that are not ignored, as in the file server.
                if let Some(tree) = tree.dir(&name) {
                    self.walk(&full, &path, before.and_then(|before| inside(before, &name)), tree, open)?;
                }
            } else if !self.rules.ignore(&path) {
                let known = before.and_then(|before| before.get(&name));
                if let Some(leaf) = self.file(&full, known)? {
                    tree.leaf(&name, leaf);
                }
            }
        }
        open.pop();
        Ok(())
    }

    /// Returns a file; `None` if there is none, or if it is none.
    pub fn file(&mut self, path: &Path, known: Option<&Entry>) -> Result<Option<Leaf>, Unscanned> {
        let Ok(state) = std::fs::metadata(path) else { return Ok(None) };
        if !state.is_file() {
            return Ok(None);
        }
        self.files += 1;
        if self.files > MOST_FILES {
            return Err(Unscanned(format!("there are more than {MOST_FILES} files")));
        }
        let (stamp, mode) = (stamp(&state), state.mode() & 0o777);
        if let Some(Entry::Leaf(leaf)) = known
            && leaf.stamp == stamp
        {
            return Ok(Some(Leaf { mode, ..*leaf }));
        }
        let stamp = if state.ctime().max(state.mtime()) > self.now - UNSETTLED { 0 } else { stamp };
        match store::disk::hash_file(path, HashType::Sha256) {
            Ok(hash) => Ok(Some(Leaf { digest: Digest::of(&[hash.as_bytes()]), mode, stamp })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => {
                tracing::debug!("{}", crate::chain(&error));
                Ok(Some(Leaf { digest: Digest::of(&[b"unreadable"]), mode, stamp: 0 }))
            }
        }
    }
}

fn inside<'a>(dir: &'a Dir, name: &str) -> Option<&'a Dir> {
    match dir.get(name)? {
        Entry::Dir(dir) => Some(dir),
        Entry::Leaf(_) => None,
    }
}

fn of_tools(name: &str) -> bool {
    OF_TOOLS.contains(&name) || ENDINGS_OF_TOOLS.iter().any(|ending| name.ends_with(ending))
}

/// Returns by what a change of a file is noticed. Never 0, which is the stamp of files that must be read again.
fn stamp(state: &std::fs::Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    let times = (state.mtime(), state.mtime_nsec(), state.ctime(), state.ctime_nsec());
    (state.dev(), state.ino(), state.size(), times).hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A time at which all files are settled.
    const LATER: i64 = i64::MAX / 2;

    fn scan(roots: &[(&str, Vec<PathBuf>)], before: Option<&Dir>, now: i64) -> Dir {
        let roots = Roots::new(roots.iter().map(|(env, directories)| ((*env).to_owned(), directories.clone())));
        let rules = Rules { glob: vec![Glob::new("*.bak")], ..Rules::default() };
        Scan::new(&rules, before, now, &CancellationToken::new()).environments(&roots).unwrap()
    }

    fn put(directory: &Path, path: &str, content: &str) {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn leaf<'a>(tree: &'a Dir, path: &[&str]) -> Option<&'a Leaf> {
        let (name, inside) = path.split_last().unwrap();
        let inside: Vec<String> = inside.iter().map(|name| (*name).to_owned()).collect();
        match tree.at(&inside)?.get(name)? {
            Entry::Leaf(leaf) => Some(leaf),
            Entry::Dir(_) => None,
        }
    }

    #[test]
    fn the_first_directory_of_an_environment_counts() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(first.path(), "web/init.sls", "first");
        put(second.path(), "web/init.sls", "second");
        put(second.path(), "web/more.sls", "second");
        put(second.path(), "web/old.bak", "ignored");
        put(second.path(), ".git/index", "of a tool");
        put(second.path(), "empty/.git/index", "of a tool");
        let roots = vec![first.path().to_owned(), second.path().to_owned(), PathBuf::from("/no/such/directory")];
        let both = scan(&[("base", roots)], None, LATER);
        put(first.path(), "web/more.sls", "second");
        let one = scan(&[("base", vec![first.path().to_owned()])], None, LATER);
        assert_eq!(both.digest(), one.digest());
        assert!(leaf(&one, &["base", "web", "more.sls"]).is_some());
    }

    #[test]
    fn environments_of_a_template_are_compared() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tree = |at: &Path| scan(&[("__env__", vec![at.join("__env__/salt")])], None, LATER).digest();
        for at in [one.path(), two.path()] {
            put(at, "prod/salt/web.sls", "content");
        }
        assert_eq!(tree(one.path()), tree(two.path()));
        put(two.path(), "prod/salt/web.sls", "other");
        assert_ne!(tree(one.path()), tree(two.path()));
    }

    #[test]
    fn a_file_is_read_only_if_it_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), "a/b.sls", "content");
        let roots = [("base", vec![directory.path().to_owned()])];
        let (path, first) = (["base", "a", "b.sls"], scan(&roots, None, LATER));
        let read = leaf(&first, &path).unwrap();
        // What is remembered of it, and is not what a reader would find.
        let mut known = DirBuilder::default();
        let inside = known.dir("base").and_then(|base| base.dir("a")).unwrap();
        inside.leaf("b.sls", Leaf { digest: Digest([7; 16]), ..*read });
        let known = known.finish();
        assert_eq!(leaf(&scan(&roots, Some(&known), LATER), &path).unwrap().digest, Digest([7; 16]), "not read");
        put(directory.path(), "a/b.sls", "other");
        let changed = scan(&roots, Some(&known), LATER);
        assert!(![Digest([7; 16]), read.digest].contains(&leaf(&changed, &path).unwrap().digest));
        // It may change again without another time.
        assert_eq!(leaf(&scan(&roots, None, 0), &path).unwrap().stamp, 0);
    }

    #[test]
    fn a_link_to_a_directory_above_ends() {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), "a/b", "content");
        std::os::unix::fs::symlink(directory.path(), directory.path().join("a/up")).unwrap();
        std::os::unix::fs::symlink("b", directory.path().join("a/c")).unwrap();
        let tree = scan(&[("base", vec![directory.path().to_owned()])], None, LATER);
        assert_eq!(leaf(&tree, &["base", "a", "c"]).unwrap().digest, leaf(&tree, &["base", "a", "b"]).unwrap().digest);
        let entries = tree.at(&["base".to_owned(), "a".to_owned()]).unwrap().listing(None).entries;
        assert_eq!(entries.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    }
}
