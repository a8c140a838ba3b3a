//! The client of the file server, and its cache.
//!
//! Downloaded files are in `files/<env>/<path>` below the minion's `cachedir`, cached local files in `localfiles/`. A file with
//! the server's hash is not downloaded again. Several chunks of a file are requested at a time. Only requests are waited for as
//! futures; the disk is read and written in place, because the functions that call this have separate threads.

mod download;
mod listing;
mod remote;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crypto::HashType;
use value::{Map, Value, map};
use wire::loads::{FileFind, FileFound, FileHash, FileHashAndStat, FileSum};

use crate::{Error, Result, path, url};

pub use listing::CachedDir;
pub use remote::{LocalRemote, Remote, Reply};

/// Downloads and caches files.
#[derive(Clone)]
pub struct FileClient {
    remote: Arc<dyn Remote>,
    cachedir: PathBuf,
    hash: HashType,
}

/// Options of a download.
#[derive(Clone, Debug, Default)]
pub struct GetFile {
    /// The destination; `None` for the cache. A directory, or a path that ends in `/`, gets the file's name appended.
    pub dest: Option<String>,
    /// Make missing directories of `dest`.
    pub makedirs: bool,
    /// The environment; one in the URL takes precedence.
    pub saltenv: String,
    /// The gzip level of the transfer, 1 to 9.
    pub gzip: Option<u32>,
    /// A cache other than the minion's; a relative path is below it.
    pub cachedir: Option<PathBuf>,
}

impl GetFile {
    /// Returns the options for a download into the cache.
    pub fn cached(saltenv: &str) -> Self {
        GetFile { saltenv: saltenv.to_owned(), ..GetFile::default() }
    }
}

/// The target of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A file on this machine.
    Path(PathBuf),
    /// The content, if no destination was given.
    Bytes(Vec<u8>),
}

/// A file on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RemoteFile {
    /// In bytes; `None` if the server did not send it.
    size: Option<u64>,
}

impl FileClient {
    /// Returns a client that caches files below `cachedir` and hashes local ones with `hash_type`.
    pub fn new(remote: Arc<dyn Remote>, cachedir: &Path, hash_type: &str) -> Result<Self> {
        Ok(FileClient { remote, cachedir: cachedir.to_owned(), hash: hash_type.parse()? })
    }

    /// Downloads a file and returns its path; `None` if the server has none, or if a directory of the destination is
    /// missing.
    pub async fn get_file(&self, address: &str, how: &GetFile) -> Result<Option<PathBuf>> {
        let (name, env) = self.salt_path(address, &how.saltenv)?;
        let Some(remote) = self.remote_file(&name, &env).await? else {
            tracing::debug!("Could not find file '{address}' in saltenv '{env}'");
            return Ok(None);
        };
        let target = self.target(&name, &env, how)?;
        // Before the directories are made: most files are unchanged at each state run.
        if self.is_same(target.path(), &remote, (&name, &env)).await? {
            return Ok(Some(target.path().to_owned()));
        }
        if !target.prepare(how.makedirs)? {
            return Ok(None);
        }
        tracing::debug!("Fetching file from saltenv '{env}', ** attempting ** '{address}'");
        let wanted = download::FileRequest { name: &name, env: &env, gzip: how.gzip, size: remote.size };
        self.download(&wanted, &target).await?;
        tracing::info!("Fetching file from saltenv '{env}', ** done ** '{name}'");
        Ok(Some(target.path().to_owned()))
    }

    /// Downloads a file into the cache, from the place in the URL.
    pub async fn cache_file(&self, address: &str, saltenv: &str, cachedir: Option<&Path>) -> Result<Option<PathBuf>> {
        let how = GetFile { cachedir: cachedir.map(Path::to_owned), ..GetFile::cached(saltenv) };
        match self.get_url(address, &how).await? {
            Some(Content::Path(path)) => Ok(Some(path)),
            _ => Ok(None),
        }
    }

    /// Returns the local path of a URL's file, and downloads it if necessary.
    ///
    /// A local file (absolute path or `file://`) stays where it is. Web and other URLs are refused.
    pub async fn get_url(&self, address: &str, how: &GetFile) -> Result<Option<Content>> {
        if let Some(local) = local_path(address)? {
            return Ok(Some(Content::Path(local)));
        }
        Ok(self.get_file(address, how).await?.map(Content::Path))
    }

    /// Returns the hash and its type of a file on the server or, for an absolute path, of a local file.
    pub async fn hash_file(&self, address: &str, saltenv: &str) -> Result<Option<Map>> {
        Ok(self.hash_and_stat(address, saltenv).await?.map(|(hash, _)| hash))
    }

    /// Like [`FileClient::hash_file`], with the ten numbers of `stat`.
    pub async fn hash_and_stat(&self, address: &str, saltenv: &str) -> Result<Option<(Map, Value)>> {
        if url::parse(address).is_some() {
            let (name, env) = self.salt_path(address, saltenv)?;
            let request = FileHashAndStat::new(&name, &env);
            let answer = self.ask(request.into_map(), &name).await?.into_list().unwrap_or_default();
            let mut answer = answer.into_iter();
            let (hash, stat) = (answer.next().and_then(Value::into_map), answer.next().unwrap_or_default());
            return Ok(hash.filter(|hash| !hash.is_empty()).map(|hash| (hash, stat)));
        }
        let (path, kind) = (PathBuf::from(address), self.hash);
        if !path.is_file() {
            tracing::warn!("specified file {address} is not present to generate hash");
            return Ok(None);
        }
        let stat = crate::server::stat(&path)?;
        let hash = store::disk::hash_file(&path, kind)?;
        Ok(Some((map! { "hsum" => hash, "hash_type" => kind.name() }, stat)))
    }

    /// Returns the path of a file in the cache, if it is there. If the URL has the mark `|`, so has the result.
    pub fn is_cached(&self, address: &str, saltenv: &str) -> Option<String> {
        let (name, env) = match url::parse(address) {
            Some((name, env)) => (name, env.unwrap_or(saltenv)),
            None => (address, saltenv),
        };
        let plain = name.trim_start_matches(['|', '/']);
        // Downloaded files come before cached local ones, as in Salt.
        let places = [self.files(env, None).join(plain), self.cachedir.join("localfiles").join(plain)];
        if let Some(found) = places.iter().find(|place| path::is_plain(plain) && place.exists()) {
            let found = found.to_string_lossy();
            return Some(if url::is_escaped(name) { url::escape(&found) } else { found.into_owned() });
        }
        let other = self.foreign_path(name, env, None)?;
        other.exists().then(|| other.to_string_lossy().into_owned())
    }

    /// Returns the path a file would have in the cache; a local path stays.
    pub fn cache_dest(&self, address: &str, saltenv: &str) -> Result<PathBuf> {
        if let Some((name, env)) = url::parse(address) {
            return path::join(&self.files(env.unwrap_or(saltenv), None), name.trim_start_matches(['|', '/']));
        }
        if url::split(address).scheme.is_none() {
            return Ok(PathBuf::from(address));
        }
        self.foreign_path(address, saltenv, None).ok_or_else(|| Error::UnsafePath(address.to_owned()))
    }

    /// Copies a local file into the cache.
    pub fn cache_local_file(&self, file: &Path) -> Result<PathBuf> {
        let name = file.to_string_lossy().trim_start_matches('/').to_owned();
        let dest = path::join(&self.cachedir.join("localfiles"), &name)?;
        store::disk::make_directory(dest.parent().unwrap_or(&dest))?;
        std::fs::copy(file, &dest).map_err(Error::io("copy", file))?;
        let mode = std::fs::metadata(&dest).map_err(Error::io("look at", &dest))?.permissions().mode();
        let closed = std::fs::set_permissions(&dest, std::fs::Permissions::from_mode(mode & 0o7750));
        closed.map_err(Error::io("close to other users", &dest))?;
        Ok(dest)
    }

    /// Returns the directory of an environment in the cache.
    pub(crate) fn files(&self, env: &str, cachedir: Option<&Path>) -> PathBuf {
        self.base(cachedir).join("files").join(env)
    }

    /// Returns the directory of the cache; a relative one is below the minion's.
    fn base(&self, cachedir: Option<&Path>) -> PathBuf {
        cachedir.map_or_else(|| self.cachedir.clone(), |other| self.cachedir.join(other))
    }

    /// Returns path and environment of a file server URL.
    pub(crate) fn salt_path(&self, address: &str, saltenv: &str) -> Result<(String, String)> {
        let (name, env) = url::parse(address).ok_or_else(|| Error::NotSalt(address.to_owned()))?;
        Ok((name.to_owned(), env.unwrap_or(saltenv).to_owned()))
    }

    /// Returns the path of files from elsewhere: `extrn_files/<env>/<host>/<path>`, without user, password and the port's colon.
    fn foreign_path(&self, address: &str, env: &str, cachedir: Option<&Path>) -> Option<PathBuf> {
        const LONGEST: usize = 255;
        let parts = url::split(address);
        let host = parts.host.rsplit('@').next().unwrap_or_default().replace(':', "");
        let mut file = parts.path.to_owned();
        if !parts.query.is_empty() {
            file = format!("{file}-{}", parts.query);
        }
        let environment = path::join(&self.base(cachedir).join("extrn_files"), env).ok()?;
        let root = if host.is_empty() { environment } else { path::join(&environment, &host).ok()? };
        // A path with `..` in a web address must not lead out of the cache.
        if !path::is_inside(&root, &root.join(file.trim_start_matches('/')), true) {
            return None;
        }
        // Query strings can be long; Salt hashes the name in the same case.
        if file.len() > LONGEST {
            file = HashType::Sha256.hex(file.as_bytes());
        }
        Some(root.join(file.trim_start_matches('/')))
    }

    /// Asks whether a file exists, and its size. Unlike its hash, that costs the server nothing.
    async fn remote_file(&self, name: &str, env: &str) -> Result<Option<RemoteFile>> {
        let answer = self.ask(FileFind::new(name, env).into_map(), name).await?;
        let Some(found) = FileFound::from_value(answer).ok().filter(|found| found.path.truthy()) else {
            return Ok(None);
        };
        let size = found.stat.as_ref().and_then(Value::as_list).and_then(|stat| stat.get(6)?.as_i64());
        Ok(Some(RemoteFile { size: size.and_then(|size| u64::try_from(size).ok()) }))
    }

    pub(crate) async fn ask(&self, load: Map, what: &str) -> Result<Value> {
        let asked = self.remote.call(load, Reply::Text).await;
        asked.map_err(|source| Error::Remote { what: what.to_owned(), source })
    }

    fn target(&self, name: &str, env: &str, how: &GetFile) -> Result<download::Target> {
        match how.dest.as_deref().filter(|dest| !dest.is_empty()) {
            Some(dest) => {
                let base = name.rsplit('/').next().unwrap_or(name);
                let is_dir = dest.ends_with('/') || Path::new(dest).is_dir();
                Ok(download::Target::Place(if is_dir { Path::new(dest).join(base) } else { dest.into() }))
            }
            None => {
                let environment = path::join(&self.base(how.cachedir.as_deref()).join("files"), env)?;
                Ok(download::Target::Cache(path::join(&environment, name.trim_start_matches('|'))?))
            }
        }
    }

    /// Compares the local file with the server's: by size, then by the type of hash that the server uses.
    async fn is_same(&self, place: &Path, remote: &RemoteFile, (name, env): (&str, &str)) -> Result<bool> {
        let size = std::fs::metadata(place).ok().filter(|state| state.is_file()).map(|state| state.len());
        // Different sizes settle it without a hash on either side.
        if size.is_none() || remote.size.is_some_and(|wanted| Some(wanted) != size) {
            return Ok(false);
        }
        let answer = self.ask(FileHash::new(name, env).into_map(), name).await?;
        let Ok(sum) = FileSum::from_value(answer) else { return Ok(false) };
        // The server's type of hash, not the minion's: Salt's client downloads the file again if the two differ.
        let Ok(kind) = sum.hash_type.parse::<HashType>() else { return Ok(false) };
        let hash = store::disk::hash_file(place, kind)?;
        Ok(sum.hsum == hash)
    }
}

/// Returns the local path of a URL; `None` for one of the file server.
fn local_path(address: &str) -> Result<Option<PathBuf>> {
    let parts = url::split(address);
    match parts.scheme.map(str::to_ascii_lowercase).as_deref() {
        Some("salt") => Ok(None),
        None | Some("file") => {
            // In `file://a/b` the parser sees a host. Joined again, it is a relative path, which is refused below.
            let path = format!("{}{}", parts.host, parts.path);
            let path = path.trim_end_matches('/');
            if path.starts_with('/') { Ok(Some(path.into())) } else { Err(Error::NotAbsolute(path.to_owned())) }
        }
        Some(other) => Err(Error::NotSupported(format!("fetching files by {other}"))),
    }
}

#[cfg(test)]
mod tests;
