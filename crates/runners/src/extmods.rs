//! Custom plug-ins of the master: brought to `extension_modules` as Salt does, for programs of Salt beside this master. They
//! are in Python, which nothing here runs.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use exec::Result;
use files::{ChunkRequest, FileServer};
use store::disk::{self, Writing};
use value::Value;

use crate::RunnerContext;
use crate::context::failed;
use crate::texts::split_input;

/// Which plug-ins are wanted: names, or a map from kind to names.
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
            Some(Value::Map(kinds)) => Some(split_input(kinds.get(kind)?).iter().any(|known| known == name)),
            Some(names) => Some(split_input(names).iter().any(|known| known == name)),
            None => None,
        };
        listed(&self.whitelist) != Some(false) && listed(&self.blacklist) != Some(true)
    }
}

/// Brings the plug-ins of one kind from some environments and returns the names of those that changed. What no environment
/// has any more is removed.
pub fn sync(ctx: &RunnerContext, envs: &Value, kind: &str, chosen: &Chosen) -> Result<Vec<Value>> {
    let (server, folder) = (ctx.files()?, ctx.config.paths.extension_modules.join(kind));
    let prefix = format!("_{kind}/");
    let (mut changed, mut wanted) = (Vec::new(), BTreeSet::new());
    for env in split_input(envs) {
        for file in server.lists(&env).map_err(failed)?.files {
            let Some(inside) = file.strip_prefix(&prefix).filter(|inside| is_plug_in(inside)) else { continue };
            let name = Path::new(inside).with_extension("").to_string_lossy().replace('/', ".");
            if !chosen.allows(kind, &name) {
                continue;
            }
            let place = folder.join(inside);
            wanted.insert(place.clone());
            let content = read(&server, &file, &env)?;
            if disk::read(&place).map_err(failed)?.is_none_or(|known| known != content) {
                disk::make_directory(place.parent().unwrap_or(&folder)).map_err(failed)?;
                disk::write(&place, &content, Writing::PRIVATE).map_err(failed)?;
                changed.push(Value::from(format!("{kind}.{name}")));
            }
        }
    }
    for gone in files_below(&folder).into_iter().filter(|file| !wanted.contains(file)) {
        disk::remove(&gone).map_err(failed)?;
    }
    if !changed.is_empty() {
        let names = Value::List(changed.clone());
        tracing::warn!("{names} were synced to {}; Saltern does not run Python yet", folder.display());
    }
    Ok(changed)
}

fn is_plug_in(inside: &str) -> bool {
    Path::new(inside).components().all(|part| matches!(part, Component::Normal(_)))
        && [".py", ".pyx", ".so", ".zip"].iter().any(|end| inside.ends_with(end))
}

fn read(server: &FileServer, path: &str, env: &str) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let wanted = ChunkRequest { path, env, offset: content.len() as u64, gzip: None, reader: None };
        let chunk = server.serve(&wanted).map_err(failed)?;
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
