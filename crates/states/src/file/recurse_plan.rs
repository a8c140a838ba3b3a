//! The plan of `file.recurse` for a directory of the file server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use exec::{Context, Result};
use files::url;
use modules::file::paths::normalize;
use value::Value;

use super::common::{environment, join, parent, text_list};
use super::walk::is_meant;

/// The sources that exist, by those given, found once in a run.
#[derive(Default)]
struct SourceCache(Mutex<HashMap<String, Vec<String>>>);

/// Returns those sources that are directories of the file server, or why there are none.
pub fn sources(ctx: &Context, given: &Value) -> Result<std::result::Result<Vec<String>, String>> {
    let env = environment(ctx);
    let list: Vec<String> = text_list(given).iter().map(|source| source.trim_end_matches('/').to_owned()).collect();
    if let Some(wrong) = list.iter().find(|source| !source.starts_with("salt://")) {
        return Ok(Err(format!("Invalid source '{wrong}' (must be a salt:// URI)")));
    }
    // `clean` plans the recurse states it requires again, so each source would be looked up several
    // times. A failure is not remembered.
    let known = ctx.memo.get::<SourceCache>();
    let key = format!("{list:?} {env}");
    // The lock is released before the file server is asked. Two threads may ask twice, which does
    // no harm.
    if let Some(found) = known.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(Ok(found.clone()));
    }
    let mut directories: HashMap<String, Vec<String>> = HashMap::new();
    let mut found = Vec::new();
    for source in &list {
        let (path, own) = split(source, &env);
        if !directories.contains_key(&own) {
            let names = modules::fileclient::within(ctx, modules::fileclient::client(ctx)?.dir_list(&own, ""))?;
            directories.insert(own.clone(), names);
        }
        if directories.get(&own).is_some_and(|names| names.contains(&path)) {
            found.push(source.clone());
        }
    }
    if found.is_empty() {
        return Ok(Err("none of the specified sources were found".into()));
    }
    known.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
    Ok(Ok(found))
}

/// Path and environment of a source.
fn split(source: &str, env: &str) -> (String, String) {
    let (path, own) = url::parse(source).unwrap_or((source, None));
    (path.to_owned(), own.unwrap_or(env).to_owned())
}

/// The arguments that decide which files are made from which sources.
pub struct Plan {
    /// The directory on this machine.
    pub name: String,
    /// The sources, the first one counting most.
    pub sources: Vec<String>,
    /// True if links of the file server become links.
    pub keep_symlinks: bool,
    /// The patterns of wanted paths.
    pub include: Value,
    /// The patterns of unwanted paths.
    pub exclude: Value,
    /// The argument `maxdepth`.
    pub depth: Option<i64>,
    /// True if empty directories are made.
    pub include_empty: bool,
    /// True if all sources count, otherwise the first only.
    pub merge: bool,
}

/// All that is to be made, by its path.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Files, and the address of each.
    pub files: BTreeMap<String, String>,
    /// Directories.
    pub directories: BTreeSet<String>,
    /// Links: where they lead, and to which path.
    pub links: BTreeMap<String, (String, String)>,
    /// All that stays when the directory is cleaned.
    pub keep: BTreeSet<String>,
    above: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

impl Made {
    fn is_occupied(&self, dest: &str) -> bool {
        let taken = |path: &str| self.files.contains_key(path) || self.links.contains_key(path);
        // A path is also taken if one of its parents is a file or a link of a source with higher
        // priority.
        self.above.contains(dest) || Path::new(dest).ancestors().any(|path| taken(&path.to_string_lossy()))
    }
}

impl Plan {
    /// Queries the file server and decides.
    pub fn make(&self, ctx: &Context) -> Result<Made> {
        let client = modules::fileclient::client(ctx)?;
        let env = environment(ctx);
        // Sources are taken in order, and what an earlier one provides is never replaced by a later
        // one.
        let mut made = Made::default();
        let count = if self.merge { self.sources.len() } else { 1 };
        for source in self.sources.iter().take(count) {
            let (path, own) = split(source, &env);
            let root = if path.ends_with('/') { path } else { format!("{path}/") };
            let mut files = modules::fileclient::within(ctx, client.file_list(&own, &root))?;
            // The file server lists files behind links as if they were plain files. Links are handled first, to remove
            // those entries again.
            if self.keep_symlinks {
                let links = modules::fileclient::within(ctx, client.symlink_list(&own, &root))?;
                for (link, target) in &links {
                    self.link(&mut made, &root, &link.to_string(), &target.to_string(), &mut files);
                }
            }
            for file in &files {
                self.file(&mut made, &root, &own, file);
            }
            if self.include_empty || self.keep_symlinks {
                let directories = modules::fileclient::within(ctx, client.dir_list(&own, &root))?;
                if self.include_empty {
                    directories.iter().for_each(|directory| self.directory(&mut made, &root, directory));
                } else {
                    // Empty directories are not made, so links to them would dangle.
                    self.drop_links(&mut made, &root, &directories);
                }
            }
        }
        Ok(made)
    }

    /// Returns the path below the root unless the patterns exclude it.
    fn relative(&self, path: &str, root: &str) -> Option<String> {
        if path.trim().is_empty() {
            return None;
        }
        let base = root.trim_matches('/');
        let path = path.trim_matches('/');
        let relative =
            match path.strip_prefix(base).filter(|rest| base.is_empty() || rest.is_empty() || rest.starts_with('/')) {
                Some(rest) => rest.trim_start_matches('/').to_owned(),
                None => return None,
            };
        let relative = if relative.is_empty() { ".".to_owned() } else { relative };
        // The list comes from the master. It must not lead outside the target directory.
        if format!("/{relative}/").contains("/../") {
            return None;
        }
        let depth = i64::try_from(relative.matches('/').count()).unwrap_or(i64::MAX);
        let deep = self.depth.is_some_and(|most| depth > most);
        (!deep && is_meant(&relative, &self.include, &self.exclude)).then_some(relative)
    }

    fn place(&self, relative: &str) -> String {
        join(&self.name, &normalize(relative))
    }

    fn link(&self, made: &mut Made, root: &str, link: &str, target: &str, files: &mut Vec<String>) {
        let below = format!("{link}/");
        let was_directory = files.iter().any(|file| file.starts_with(&below));
        // Removed even if the link itself is not wanted below. Otherwise an excluded link would
        // leave a copy of its target.
        files.retain(|file| file != link && !file.starts_with(&below));
        let Some(relative) = self.relative(link, root) else { return };
        let dest = self.place(&relative);
        if made.is_occupied(&dest) {
            return;
        }
        let leads_to = normalize(&join(parent(&dest), target));
        // A source of higher priority has put a file where the link expects a directory. Such a
        // link would change its type, so it is dropped.
        if was_directory && made.files.contains_key(&leads_to) {
            made.ignored.insert(dest);
            return;
        }
        // The reverse case: the link led to a file, and the target is now a directory.
        if !was_directory && made.directories.contains(&leads_to) {
            return;
        }
        made.keep.insert(dest.clone());
        made.links.insert(dest, (target.to_owned(), leads_to));
    }

    fn file(&self, made: &mut Made, root: &str, env: &str, file: &str) {
        let Some(relative) = self.relative(file, root) else { return };
        let dest = self.place(&relative);
        if made.is_occupied(&dest) {
            return;
        }
        made.keep.insert(dest.clone());
        made.directories.insert(parent(&dest).to_owned());
        let above = Path::new(&dest).ancestors().skip(1).map(|path| path.to_string_lossy().into_owned());
        made.above.extend(above);
        made.files.insert(dest, url::create(file, Some(env)));
    }

    fn directory(&self, made: &mut Made, root: &str, directory: &str) {
        let Some(relative) = self.relative(directory, root) else { return };
        let dest = self.place(&relative);
        if made.ignored.contains(&dest) || made.is_occupied(&dest) {
            return;
        }
        made.directories.insert(dest.clone());
        made.above.insert(dest.clone());
        made.keep.insert(dest);
    }

    /// Links to directories that are not made are not made either.
    fn drop_links(&self, made: &mut Made, root: &str, directories: &[String]) {
        // Removing one link can make another dangle, so the search starts over until it finds
        // nothing.
        loop {
            let gone = made.links.iter().find(|(_, (target, _))| {
                let on_server = normalize(&join(root, target));
                let here = normalize(&self.place(target));
                let is_made =
                    made.files.contains_key(&here) || made.above.contains(&here) || made.links.contains_key(&here);
                directories.contains(&on_server) && !is_made
            });
            let Some(gone) = gone.map(|(link, _)| link.clone()) else { return };
            made.links.remove(&gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            name: "/d".into(),
            sources: Vec::new(),
            keep_symlinks: true,
            include: Value::Null,
            exclude: Value::Null,
            depth: Some(1),
            include_empty: false,
            merge: false,
        }
    }

    #[test]
    fn paths_lie_below_the_root() {
        assert_eq!(plan().relative("a/b/c", "a/"), Some("b/c".into()));
        assert_eq!(plan().relative("a/b/c/d", "a/"), None);
        assert_eq!(plan().relative("ab/c", "a/"), None);
        assert_eq!(plan().relative("a/../c", "a/"), None);
    }

    #[test]
    fn links_take_the_place_of_what_is_behind_them() {
        let mut made = Made::default();
        let mut files = vec!["a/l/x".to_owned(), "a/r/x".to_owned()];
        plan().link(&mut made, "a/", "a/l", "r", &mut files);
        assert_eq!(files, ["a/r/x"]);
        assert_eq!(made.links["/d/l"], ("r".to_owned(), "/d/r".to_owned()));
    }
}
