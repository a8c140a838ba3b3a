//! Finds SLS files in `pillar_roots`.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Roots;

use crate::Compiler;

/// The files of one request.
pub(crate) struct Files<'a> {
    compiler: &'a Compiler,
    pub roots: Roots,
    /// The names of all SLS files by environment, listed when first needed.
    listed: HashMap<String, Arc<BTreeSet<String>>>,
}

/// An SLS file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sls {
    pub path: PathBuf,
    /// True if it is the `init.sls` of a directory.
    pub is_init: bool,
}

impl<'a> Files<'a> {
    pub fn new(compiler: &'a Compiler, roots: Roots) -> Self {
        Files { compiler, roots, listed: HashMap::new() }
    }

    /// Returns all environments; `base` is first, even if it has no directory.
    pub fn envs(&self) -> Vec<String> {
        let others = self.roots.iter().map(|(env, _)| env).filter(|env| *env != "base");
        std::iter::once("base").chain(others).map(str::to_owned).collect()
    }

    /// Returns a file by its path in an environment.
    pub fn find(&self, path: &str, env: &str) -> Option<PathBuf> {
        let path = path.trim_start_matches('/');
        // Names in top files and includes may be built from grains, which the minion controls. They must not lead out
        // of the roots.
        if path.split('/').any(|part| part == "..") || path.contains('\0') {
            return None;
        }
        self.roots.get(env)?.iter().map(|directory| directory.join(path)).find(|full| full.is_file())
    }

    /// Returns the file of an SLS: `a.b` is `a/b.sls` or `a/b/init.sls`.
    pub fn sls(&self, name: &str, env: &str) -> Option<Sls> {
        let path = name.replace('.', "/");
        let plain = || Some(Sls { path: self.find(&format!("{path}.sls"), env)?, is_init: false });
        let init = || Some(Sls { path: self.find(&format!("{path}/init.sls"), env)?, is_init: true });
        plain().or_else(init)
    }

    /// Returns the names of all SLS files of an environment.
    pub fn names(&mut self, env: &str) -> Arc<BTreeSet<String>> {
        if let Some(names) = self.listed.get(env) {
            return Arc::clone(names);
        }
        let mut names = BTreeSet::new();
        for directory in self.roots.get(env).unwrap_or_default() {
            self.collect(directory, "", &mut Vec::new(), &mut names);
        }
        let names = Arc::new(names);
        self.listed.insert(env.to_owned(), Arc::clone(&names));
        names
    }

    /// Collects the names of SLS files below a directory. Follows symbolic links, except circular ones.
    fn collect(&self, directory: &Path, prefix: &str, open: &mut Vec<(u64, u64)>, names: &mut BTreeSet<String>) {
        let Ok(state) = std::fs::metadata(directory) else { return };
        let identity = (state.dev(), state.ino());
        // Compared by device and inode, because the path of a circular link is different in every round.
        if open.contains(&identity) {
            return;
        }
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return tracing::warn!("failed to list {}: {error}", directory.display()),
        };
        open.push(identity);
        for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            let full = directory.join(&name);
            if !full.is_dir() {
                names.extend(sls_name(&format!("{prefix}{name}")));
            } else if !self.compiler.is_ignored(&name) {
                self.collect(&full, &format!("{prefix}{name}/"), open, names);
            }
        }
        open.pop();
    }
}

fn sls_name(path: &str) -> Option<String> {
    let name = path.strip_suffix("/init.sls").or_else(|| path.strip_suffix(".sls"))?;
    Some(name.replace('/', "."))
}
