//! Custom plug-ins of the master: copied to `extension_modules`, as Salt does, for programs of Salt that share the
//! directory. They are Python, which Saltern does not run.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use exec::Result;
use files::{ChunkRequest, FileServer};
use store::disk::{self, Writing};
use value::Value;

use crate::RunnerContext;
use crate::context::failed;
use crate::texts::split_input;

/// The wanted plug-ins: names, or a map from kind to names.
#[derive(Clone, Default)]
pub struct Chosen {
    /// Only these.
    pub whitelist: Option<Value>,
    /// All but these.
    pub blacklist: Option<Value>,
}

impl Chosen {
    fn allows(&self, kind: &str, name: &str) -> bool {
        let listed = |list: &Option<Value>| match list.as_ref().filter(|list| list.truthy()) {
            // A map that does not mention this kind says nothing about it: the `?` leaves the list out of the
            // decision.
            Some(Value::Map(kinds)) => Some(split_input(kinds.get(kind)?).iter().any(|known| known == name)),
            Some(names) => Some(split_input(names).iter().any(|known| known == name)),
            None => None,
        };
        listed(&self.whitelist) != Some(false) && listed(&self.blacklist) != Some(true)
    }
}

/// Copies the plug-ins of one kind from the environments and returns the names of those that changed. Plug-ins that
/// no environment has any more are removed.
pub fn sync(ctx: &RunnerContext, envs: &Value, kind: &str, chosen: &Chosen) -> Result<Vec<Value>> {
    let (server, folder) = (ctx.files()?, ctx.config.paths.extension_modules.join(kind));
    let prefix = format!("_{kind}/");
    let (mut changed, mut wanted) = (Vec::new(), BTreeSet::new());
    for env in split_input(envs) {
        for file in server.lists(&env).map_err(failed)?.files {
            let Some(inside) = file.strip_prefix(&prefix).filter(|inside| is_plug_in(inside)) else { continue };
            // Salt names a plug-in in a subdirectory like a Python module: `sub/other.py` is `sub.other`.
            let name = Path::new(inside).with_extension("").to_string_lossy().replace('/', ".");
            if !chosen.allows(kind, &name) {
                continue;
            }
            let place = folder.join(inside);
            // Noted before the comparison: an unchanged plug-in must survive the clean-up below.
            wanted.insert(place.clone());
            let content = read(&server, &file, &env)?;
            if disk::read(&place).map_err(failed)?.is_none_or(|known| known != content) {
                disk::make_directory(place.parent().unwrap_or(&folder)).map_err(failed)?;
                // The files are code that Salt's programs load as root.
                disk::write(&place, &content, Writing::PRIVATE).map_err(failed)?;
                changed.push(Value::from(format!("{kind}.{name}")));
            }
        }
    }
    for gone in files_below(&folder).into_iter().filter(|file| !wanted.contains(file)) {
        disk::remove(&gone).map_err(failed)?;
    }
    // Operators who sync plug-ins expect them to run.
    if !changed.is_empty() {
        let names = Value::List(changed.clone());
        tracing::warn!("{names} were synced to {}; Saltern does not run Python yet", folder.display());
    }
    Ok(changed)
}

fn is_plug_in(inside: &str) -> bool {
    // A file server's path should have no `..`; this is where it becomes a path on the master's disk.
    Path::new(inside).components().all(|part| matches!(part, Component::Normal(_)))
        && [".py", ".pyx", ".so", ".zip"].iter().any(|end| inside.ends_with(end))
}

fn read(server: &FileServer, path: &str, env: &str) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let wanted = ChunkRequest { path, env, offset: content.len() as u64, gzip: None, reader: None };
        let chunk = server.serve(&wanted).map_err(failed)?;
        // The file server sends chunks; an empty one marks the end of the file.
        if chunk.data.is_empty() {
            return Ok(content);
        }
        content.extend_from_slice(&chunk.data);
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => files.push(entry.path()),
            }
        }
    }
    files
}
