//! The sources of names.

use std::path::{Path, PathBuf};

use config::{LoadOptions, Role, Source};
use runners::{Kind, RUNNERS, TABLES};
use store::jobs::{Embedded, JobCache};
use value::{Map, Value};

use crate::args::Program;
use crate::hint;

/// The configuration, which is read when first needed.
pub struct Sources {
    program: Option<Program>,
    config_dir: Option<PathBuf>,
}

/// How deep SLS files are searched, and among how many files.
const DEPTH: usize = 8;
const FILES: usize = 20_000;

impl Sources {
    /// Returns the sources of a program with this configuration directory; nothing is read yet.
    pub fn new(program: Option<Program>, config_dir: Option<&Path>) -> Self {
        Sources { program, config_dir: config_dir.map(Path::to_owned) }
    }

    fn master(&self) -> Option<config::Master> {
        let source = Source::from_env(Role::Master, self.config_dir.as_deref());
        // Without the file there are only defaults, for a master that is not set up.
        config::Master::load(&source, &LoadOptions::default()).ok().filter(|_| source.path.exists())
    }

    fn minion(&self) -> Option<config::Minion> {
        let source = Source::from_env(Role::Minion, self.config_dir.as_deref());
        // The search for a name of this host could ask name servers.
        let options = LoadOptions { minion_id: Some("any".into()), ..LoadOptions::default() };
        config::Minion::load(&source, &options).ok().filter(|_| source.path.exists())
    }

    /// Returns the ids with a key in this directory of the master's keys.
    pub fn keys(&self, bank: &str) -> Vec<String> {
        let Some(master) = self.master() else { return Vec::new() };
        let entries = std::fs::read_dir(master.paths.pki_dir.join(bank));
        let names = entries.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        // A file that is being written has a name with a dot first.
        names.filter(|name| wire::MinionId::new(name.as_str()).is_ok() && !name.starts_with('.')).collect()
    }

    /// Returns the names of node groups.
    pub fn nodegroups(&self) -> Vec<String> {
        let groups = self.master().map(|master| master.nodegroups).unwrap_or_default();
        groups.keys().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns the SLS files of the environment `base`, by the names that `state.apply` uses.
    pub fn sls(&self) -> Vec<String> {
        let mut found = self.git_sls().unwrap_or_default();
        for root in self.roots() {
            let mut left = FILES;
            collect(&root, "", DEPTH, &mut left, &mut found);
        }
        found
    }

    /// Returns the SLS files in the git repositories that the master has fetched; `None` without such repositories.
    fn git_sls(&self) -> Option<Vec<String>> {
        if self.program == Some(Program::SaltCall) {
            return None;
        }
        let master = self.master()?;
        let mut backends = master.files.fileserver_backend.iter();
        backends.find(|name| matches!(name.as_str(), "git" | "gitfs"))?;
        let git = files::GitFs::new(&master.files, &master.raw, &master.paths.cachedir).ok()?;
        let listed = git.lists("base").ok()?.files;
        Some(listed.iter().take(FILES).filter_map(|path| sls_name(path)).collect())
    }

    /// Returns the jobs in the master's own job cache, each with its function.
    pub fn jobs(&self) -> Vec<(String, String)> {
        let found = self.master().and_then(|master| {
            let hash = master.keys.hash_type.parse().ok()?;
            let cachedir = &master.paths.cachedir;
            // The single file is not made for a question.
            let cache = match Embedded::exists(cachedir) {
                true => JobCache::beside_master(cachedir, hash, &master.jobs.master_job_cache),
                false => JobCache::new(cachedir, hash),
            };
            cache.heads().ok()
        });
        let function = |load: &Map| load.get_str("fun").unwrap_or_default().to_owned();
        found.into_iter().flatten().map(|(jid, load)| (jid, function(&load))).collect()
    }

    fn roots(&self) -> Vec<PathBuf> {
        if self.program != Some(Program::SaltCall) {
            return self.master().map(|master| base(&master.raw)).unwrap_or_default();
        }
        let Some(minion) = self.minion() else { return Vec::new() };
        let mut roots = base(&minion.raw);
        // The files that were fetched from the master.
        roots.push(minion.paths.cachedir.join("files/base"));
        roots
    }

    /// Returns all functions that a program calls.
    pub fn functions(&self, program: Program) -> Vec<String> {
        match program {
            Program::SaltRun => runners::docs(RUNNERS, "").keys().map(Value::to_string).collect(),
            _ => hint::functions(modules::ALL),
        }
    }

    /// Returns all state functions.
    pub fn states(&self) -> Vec<String> {
        hint::functions(states::ALL)
    }

    /// Returns the names of a function's parameters.
    pub fn parameters(&self, program: Program, function: &str) -> Vec<&'static str> {
        let Some((module, name)) = function.split_once('.') else { return Vec::new() };
        match program {
            Program::SaltRun => TABLES
                .find(Kind::Runner, function)
                .map(|function| function.params.iter().map(|param| param.name).collect())
                .unwrap_or_default(),
            _ => {
                let mut tables = modules::ALL.iter().filter(|table| table.name == module);
                let function = tables.find_map(|table| table.function(name));
                function.map(|function| function.params.iter().map(|param| param.name).collect()).unwrap_or_default()
            }
        }
    }
}

fn base(options: &Map) -> Vec<PathBuf> {
    let roots = options.get("file_roots").and_then(|roots| roots.get("base")).and_then(Value::as_list);
    roots.into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from).collect()
}

fn collect(directory: &Path, before: &str, depth: usize, left: &mut usize, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth > 0 && !name.starts_with('.') {
                collect(&entry.path(), &format!("{before}{name}."), depth - 1, left, found);
            }
        } else {
            found.extend(sls_name(&format!("{}{name}", before.replace('.', "/"))));
        }
    }
}

/// Returns the name under which `state.apply` takes a file; `None` for other files and for `top.sls`, which is for highstates.
fn sls_name(path: &str) -> Option<String> {
    let name = path.strip_suffix(".sls").filter(|name| *name != "top")?;
    let name = name.strip_suffix("/init").unwrap_or(name);
    Some(name.replace('/', ".")).filter(|name| name != "init")
}
