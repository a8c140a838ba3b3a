//! Lists of files, and downloads of whole directories.

use std::path::{Path, PathBuf};

use futures_util::{StreamExt, TryStreamExt, stream};
use targeting::{PyRegex, fnmatch};
use value::{Map, Value};
use wire::loads::{DirList, FileEnvs, FileList, FileListEmptyDirs, SymlinkList};

use super::{FileClient, GetFile};
use crate::{Error, Result, path, url};

/// The number of files that are downloaded at once.
const FILES_AT_ONCE: usize = 4;

/// The files of a directory to cache.
#[derive(Clone, Debug, Default)]
pub struct CachedDir {
    /// The environment.
    pub saltenv: String,
    /// Make empty directories too.
    pub include_empty: bool,
    /// Only files that match a glob, or a regular expression after `E@`.
    pub include: Option<String>,
    /// Not files that match.
    pub exclude: Option<String>,
    /// A cache other than the minion's.
    pub cachedir: Option<PathBuf>,
}

impl FileClient {
    /// Returns the names of the environments.
    pub async fn envs(&self) -> Result<Vec<String>> {
        Ok(texts(self.ask(FileEnvs { extra: Map::new() }.into_map(), "the environments").await?))
    }

    /// Returns the files of an environment whose path begins with a prefix.
    pub async fn file_list(&self, saltenv: &str, prefix: &str) -> Result<Vec<String>> {
        self.list(FileList::new(saltenv, prefix).into_map()).await
    }

    /// Returns the directories of an environment.
    pub async fn dir_list(&self, saltenv: &str, prefix: &str) -> Result<Vec<String>> {
        self.list(DirList::new(saltenv, prefix).into_map()).await
    }

    /// Returns the empty directories of an environment.
    pub async fn empty_dirs(&self, saltenv: &str, prefix: &str) -> Result<Vec<String>> {
        self.list(FileListEmptyDirs::new(saltenv, prefix).into_map()).await
    }

    /// Returns the links of an environment with their targets.
    pub async fn symlink_list(&self, saltenv: &str, prefix: &str) -> Result<Map> {
        Ok(self.ask(SymlinkList::new(saltenv, prefix).into_map(), "the links").await?.into_map().unwrap_or_default())
    }

    /// Returns the names of all states of an environment: `a/b.sls` and `a/b/init.sls` are `a.b`.
    pub async fn list_states(&self, saltenv: &str) -> Result<Vec<String>> {
        let files = self.file_list(saltenv, "").await?;
        let name = |file: &String| {
            let name = file.strip_suffix("/init.sls").or_else(|| file.strip_suffix(".sls"))?;
            Some(name.replace('/', "."))
        };
        let mut states: Vec<String> = files.iter().filter_map(name).collect();
        states.sort();
        states.dedup();
        Ok(states)
    }

    /// Downloads several files into the cache; the result of a missing one is `None`.
    pub async fn cache_files(&self, addresses: &[String], saltenv: &str) -> Result<Vec<Option<PathBuf>>> {
        // Owned addresses, so that the future can move between threads.
        let owned = addresses.iter().cloned();
        let fetches = owned.map(|address| async move { self.cache_file(&address, saltenv, None).await });
        stream::iter(fetches).buffered(FILES_AT_ONCE).try_collect().await
    }

    /// Downloads a whole environment into the cache.
    pub async fn cache_master(&self, saltenv: &str) -> Result<Vec<Option<PathBuf>>> {
        let files = self.file_list(saltenv, "").await?;
        let addresses: Vec<String> = files.iter().map(|file| address(file)).collect();
        self.cache_files(&addresses, saltenv).await
    }

    /// Downloads the files of a directory into the cache and returns their paths.
    pub async fn cache_dir(&self, address_of_dir: &str, how: &CachedDir) -> Result<Vec<PathBuf>> {
        let (directory, env) = self.salt_path(address_of_dir, &how.saltenv)?;
        // With the slash, or `salt://a` would also cache `ab/x`.
        let prefix = format!("{}/", directory.trim_end_matches('/'));
        tracing::info!("Caching directory '{prefix}' for environment '{env}'");
        let mut files = self.file_list(&env, &prefix).await?;
        // The server's filter is a text prefix without the slash, so the list is filtered once more.
        files.retain(|file| file.starts_with(&prefix) && is_chosen(file, how));
        let addresses: Vec<String> = files.iter().map(|file| address(file)).collect();
        let (env, other) = (env.as_str(), how.cachedir.as_deref());
        let fetches = addresses.into_iter().map(|address| async move { self.cache_file(&address, env, other).await });
        let fetched: Vec<Option<PathBuf>> = stream::iter(fetches).buffered(FILES_AT_ONCE).try_collect().await?;
        let mut cached: Vec<PathBuf> = fetched.into_iter().flatten().collect();
        if how.include_empty {
            cached.extend(self.make_empty(env, &prefix, &self.files(env, other)).await?);
        }
        Ok(cached)
    }

    /// Downloads a directory with its contents to a path: `salt://a/b` to `/x` becomes `/x/b`.
    pub async fn get_dir(&self, address_of_dir: &str, how: &GetFile) -> Result<Vec<PathBuf>> {
        let (directory, env) = self.salt_path(address_of_dir, &how.saltenv)?;
        let directory = directory.trim_end_matches('/');
        let cut = directory.rfind('/').map_or(0, |slash| slash + 1);
        let below = format!("{directory}/");
        let dest = how.dest.clone().unwrap_or_default();
        let place = |name: &str| format!("{dest}/{}", name[cut..].trim_start_matches('/'));
        let inside =
            // The names come from a server and become paths below `dest`.
            |names: Vec<String>| names.into_iter().filter(|name| path::is_plain(name) && name.starts_with(&below));
        let files: Vec<String> = inside(self.file_list(&env, directory).await?).collect();
        let fetches = files.into_iter().map(|file| {
            let how = GetFile { dest: Some(place(&file)), makedirs: true, saltenv: env.clone(), ..how.clone() };
            async move { self.get_file(&address(&file), &how).await }
        });
        let fetched: Vec<Option<PathBuf>> = stream::iter(fetches).buffered(FILES_AT_ONCE).try_collect().await?;
        let mut paths: Vec<PathBuf> = fetched.into_iter().flatten().collect();
        for empty in inside(self.empty_dirs(&env, directory).await?) {
            let empty = PathBuf::from(place(&empty));
            // The path is the operator's, so it is not closed to other users like directories of the cache.
            std::fs::create_dir_all(&empty).map_err(Error::io("make", &empty))?;
            paths.push(empty);
        }
        paths.sort();
        Ok(paths)
    }

    /// Returns all files in the cache of an environment and among the cached local files.
    pub fn file_local_list(&self, saltenv: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for directory in [self.files(saltenv, None), self.cachedir.join("localfiles")] {
            // As in Salt: for a missing directory, its parent is listed.
            let start =
                if directory.is_dir() { directory } else { directory.parent().unwrap_or(&directory).to_owned() };
            collect(&start, &mut files);
        }
        files.sort();
        files.dedup();
        files
    }

    async fn make_empty(&self, env: &str, prefix: &str, base: &Path) -> Result<Vec<PathBuf>> {
        let mut made = Vec::new();
        for name in self.empty_dirs(env, prefix).await? {
            if name.starts_with(prefix) {
                let place = path::join(base, &name)?;
                store::disk::make_directory(&place)?;
                made.push(place);
            }
        }
        Ok(made)
    }

    async fn list(&self, load: Map) -> Result<Vec<String>> {
        Ok(texts(self.ask(load, "a list").await?))
    }
}

/// A listed name is taken literally, whatever characters it contains.
fn address(file: &str) -> String {
    if file.contains('?') { url::create(&format!("|{file}"), None) } else { url::create(file, None) }
}

fn texts(list: Value) -> Vec<String> {
    list.into_list().unwrap_or_default().into_iter().filter_map(Value::into_string).collect()
}

/// Salt's rule for `include_pat` and `exclude_pat`: a file must be included, if anything is, and must not be excluded.
fn is_chosen(file: &str, how: &CachedDir) -> bool {
    let matches = |pattern: &String| match pattern.strip_prefix("E@") {
        // An invalid expression chooses nothing.
        Some(regex) => PyRegex::search(regex).is_ok_and(|regex| regex.is_match(file)),
        None => fnmatch(file, pattern),
    };
    let (include, exclude) =
        (how.include.as_ref().filter(|text| !text.is_empty()), how.exclude.as_ref().filter(|text| !text.is_empty()));
    include.is_none_or(matches) && !exclude.is_some_and(matches)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for name in store::disk::names(directory).unwrap_or_default() {
        let full = directory.join(name);
        match full.symlink_metadata() {
            // `symlink_metadata`: links to directories are listed, not followed, so circles end.
            Ok(state) if state.is_dir() => collect(&full, files),
            Ok(_) => files.push(full),
            Err(_) => {}
        }
    }
}
