//! `cp` — files from the master to this machine and back.
//!
//! Fetching and the cache are the file client's ([`crate::fileclient`]); this module words its answers as Salt does.

mod push;
mod receive;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use exec::{Context, Error, KwArgs, Module, Result, function};
use files::{CachedDir, Content, GetFile, url};
use value::{Map, Value, map};

use crate::fileclient::{self, Web, cache, client, web, within};
use crate::text::{decode_error, is_binary};
use crate::{templates, util};
use push::{PUSH, PUSH_DIR};
use receive::{RECV, RECV_CHUNKED};

/// Registers the functions of `cp`.
pub static MODULE: Module = Module::new(
    "cp",
    "Files from the master to this machine and back.",
    &[
        &CACHE_DEST,
        &CACHE_DIR,
        &CACHE_FILE,
        &CACHE_FILE_SSH,
        &CACHE_FILES,
        &CACHE_LOCAL_FILE,
        &CACHE_MASTER,
        &ENVS,
        &GET_DIR,
        &GET_FILE,
        &GET_FILE_STR,
        &GET_TEMPLATE,
        &GET_URL,
        &HASH_FILE,
        &HASH_FILE_SSH,
        &IS_CACHED,
        &LIST_MASTER,
        &LIST_MASTER_DIRS,
        &LIST_MASTER_SYMLINKS,
        &LIST_MINION,
        &LIST_STATES,
        &PUSH,
        &PUSH_DIR,
        &RECV,
        &RECV_CHUNKED,
        &STAT_FILE,
    ],
);

/// Returns the given environment, else the minion's.
fn environment(ctx: &Context, saltenv: Option<String>) -> String {
    let named = saltenv.filter(|env| !env.is_empty());
    named.or_else(|| ctx.opt_str("saltenv").map(str::to_owned)).unwrap_or_else(|| "base".into())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn texts(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| text(path)).collect()
}

/// Returns a path, or False for a file that is missing.
fn path_or_false(path: Option<PathBuf>) -> Value {
    path.map_or(Value::Bool(false), |path| text(&path).into())
}

/// Fetches a file of the master to a place. A directory as place keeps the file's name; ``makedirs=True`` makes missing
/// directories; ``gzip`` (1 to 9) compresses the transfer. Returns the place, an empty text when there is no such file,
/// or False when its directory is missing.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.get_file salt://path/to/file /minion/dest
///     salt '*' cp.get_file 'salt://path/to/file?saltenv=dev' /minion/dest makedirs=True gzip=5
#[function]
fn get_file(
    ctx: &Context,
    path: String,
    dest: String,
    saltenv: Option<String>,
    #[default(false)] makedirs: bool,
    template: Option<String>,
    gzip: Option<u64>,
    kwargs: KwArgs,
) -> Result<Value> {
    let _ = kwargs;
    let saltenv = environment(ctx, saltenv);
    let [path, dest] = templates::paths(ctx, template.as_deref(), [&path, &dest], &saltenv)?;
    let client = client(ctx)?;
    let how = GetFile { dest: Some(dest), makedirs, saltenv: saltenv.clone(), gzip: level(gzip), cachedir: None };
    match within(ctx, client.get_file(&path, &how))? {
        Some(place) => Ok(text(&place).into()),
        // Salt distinguishes the two failures: False for a file that could not be written, an empty text for one that
        // does not exist.
        None if within(ctx, client.hash_file(&path, &saltenv))?.is_some() => Ok(false.into()),
        None => Ok("".into()),
    }
}

/// The length of the beginning of a file that decides whether it is binary.
const SAMPLE: usize = 2048;

fn level(gzip: Option<u64>) -> Option<u32> {
    // zlib has no level above 9; the number comes from the caller.
    gzip.filter(|level| *level > 0).map(|level| level.min(9) as u32)
}

/// Returns the content of a file of the master, or False when there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.get_file_str salt://my/file
#[function]
fn get_file_str(ctx: &Context, path: String, saltenv: Option<String>) -> Result<Value> {
    let saltenv = environment(ctx, saltenv);
    let Some(place) = cache(ctx, &path, &saltenv)? else {
        tracing::error!("Unable to cache file '{path}' from saltenv '{saltenv}'.");
        return Ok(false.into());
    };
    // A path of this machine is read where it is: templates ask so whether it is there.
    Ok(match ctx.blocking(move || std::fs::read(place)) {
        Ok(bytes) => text_of(bytes)?,
        Err(error) => {
            tracing::debug!("{path} could not be read: {error}");
            false.into()
        }
    })
}

fn content(ctx: &Context, place: PathBuf) -> Result<Value> {
    let shown = place.clone();
    match ctx.blocking(move || std::fs::read(place)) {
        Ok(bytes) => text_of(bytes),
        Err(error) => Err(Error::io("read", shown, &error)),
    }
}

/// Makes text of a file's content; bytes that are not text are an error in Python's words, as in Salt.
fn text_of(bytes: Vec<u8>) -> Result<Value> {
    let text = String::from_utf8(bytes).map_err(|error| no_text(error.as_bytes()))?;
    Ok(text.into())
}

fn no_text(bytes: &[u8]) -> Error {
    Error::Other(format!("UnicodeDecodeError: {}", decode_error(bytes).unwrap_or_default()))
}

/// Renders a template file of the master to a place and returns the place. Named arguments, and those in ``context``,
/// are variables of the template.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.get_template salt://path/to/template /minion/dest
#[function]
fn get_template(
    ctx: &Context,
    path: String,
    dest: String,
    #[default("jinja")] template: String,
    saltenv: Option<String>,
    #[default(false)] makedirs: bool,
    kwargs: KwArgs,
) -> Result<String> {
    let saltenv = environment(ctx, saltenv);
    let Some(place) = cache(ctx, &path, &saltenv)? else { return Ok(String::new()) };
    let bytes = std::fs::read(&place).map_err(|error| Error::io("read", &place, &error))?;
    let mut names = kwargs.given();
    // States hand their variables over under this name; a template sees them beside the others.
    if let Some(Value::Map(context)) = names.remove("context") {
        names.update(context);
    }
    let rendered = match String::from_utf8(bytes) {
        Ok(source) => templates::text(ctx, Some(&template), &source, Some(&place), &saltenv, names)?.into_bytes(),
        // As in Salt, a binary file is not a template and is copied as it is.
        Err(error) if is_binary(&error.as_bytes()[..error.as_bytes().len().min(SAMPLE)]) => error.into_bytes(),
        Err(error) => {
            let reason = decode_error(error.as_bytes()).unwrap_or_default();
            tracing::error!("Exception occurred while reading file {}: {reason}", place.display());
            return Err(no_text(error.as_bytes()));
        }
    };
    let folder = Path::new(&dest).parent().unwrap_or(Path::new("/"));
    // Salt answers a missing directory with an empty text, not with an error.
    if !folder.is_dir() && !makedirs {
        return Ok(String::new());
    }
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&dest, rendered));
    written.map_err(|error| Error::io("write", &dest, &error))?;
    Ok(dest)
}

/// Fetches a directory of the master with all below it to a place, and returns the files.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.get_dir salt://path/to/dir/ /minion/dest
#[function]
fn get_dir(
    ctx: &Context,
    path: String,
    dest: String,
    saltenv: Option<String>,
    template: Option<String>,
    gzip: Option<u64>,
    kwargs: KwArgs,
) -> Result<Vec<String>> {
    let _ = kwargs;
    let saltenv = environment(ctx, saltenv);
    let [path, dest] = templates::paths(ctx, template.as_deref(), [&path, &dest], &saltenv)?;
    let how = GetFile { dest: Some(dest), makedirs: true, saltenv, gzip: level(gzip), cachedir: None };
    Ok(texts(&within(ctx, client(ctx)?.get_dir(&path, &how))?))
}

/// Fetches a file of the master, of this machine or of the web: to a place, or without one into the cache. With None as
/// place its content is returned. Returns the place, or False when there is no such file.
///
/// A file in the cache whose ``source_hash`` is the given one is not fetched again.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.get_url salt://my/file /tmp/this_file_is_mine
///     salt '*' cp.get_url https://www.example.com/index.html /tmp/index.html
#[function]
fn get_url(
    ctx: &Context,
    path: String,
    #[default("")] dest: Value,
    saltenv: Option<String>,
    #[default(false)] makedirs: bool,
    source_hash: Option<String>,
) -> Result<Value> {
    let web = Web::default();
    let saltenv = environment(ctx, saltenv);
    // `dest=None` requests the content instead of a path; an empty text means the cache.
    let wants_content = dest.is_null();
    let place = Some(dest).filter(Value::truthy).map(|dest| dest.to_string());
    let found = if web::is_foreign(&path) {
        match place {
            Some(place) => Some(web::to_place(ctx, &path, Path::new(&place), makedirs, web)?),
            None => Some(web::into_cache(ctx, &path, &saltenv, source_hash.as_deref(), web)?),
        }
    } else {
        let how = GetFile { dest: place, makedirs, saltenv: saltenv.clone(), gzip: None, cachedir: None };
        match within(ctx, client(ctx)?.get_url(&path, &how))? {
            Some(Content::Path(path)) => Some(path),
            Some(Content::Bytes(bytes)) => return text_of(bytes),
            None => None,
        }
    };
    match found {
        Some(place) if wants_content => content(ctx, place),
        Some(place) => Ok(text(&place).into()),
        None => {
            tracing::error!("Unable to fetch file {path} from saltenv {saltenv}.");
            Ok(false.into())
        }
    }
}

/// Fetches a file into the cache and returns its path there, or False.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.cache_file salt://path/to/file
#[function]
fn cache_file(
    ctx: &Context,
    path: String,
    saltenv: Option<String>,
    source_hash: Option<String>,
    #[default(true)] verify_ssl: bool,
    #[default(false)] use_etag: bool,
) -> Result<Value> {
    to_cache(ctx, path, saltenv, source_hash, Web { verify_ssl, use_etag })
}

/// The same as ``cp.cache_file``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.cache_file_ssh salt://path/to/file
#[function]
fn cache_file_ssh(
    ctx: &Context,
    path: String,
    saltenv: Option<String>,
    source_hash: Option<String>,
    #[default(true)] verify_ssl: bool,
    #[default(false)] use_etag: bool,
) -> Result<Value> {
    to_cache(ctx, path, saltenv, source_hash, Web { verify_ssl, use_etag })
}

fn to_cache(
    ctx: &Context,
    path: String,
    saltenv: Option<String>,
    source_hash: Option<String>,
    web: Web,
) -> Result<Value> {
    let saltenv = environment(ctx, saltenv);
    let found = if web::is_foreign(&path) {
        Some(web::into_cache(ctx, &path, &saltenv, source_hash.as_deref(), web)?)
    } else {
        cache(ctx, &path, &saltenv)?
    };
    // A missing file is not a failure of the call: states test the result.
    if found.is_none() {
        tracing::error!("Unable to cache file '{path}' from saltenv '{saltenv}'.");
    }
    Ok(path_or_false(found))
}

/// Fetches several files into the cache and returns their paths there, with False for those that cannot be fetched.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.cache_files '[salt://pathto/file1, salt://pathto/file2]'
#[function]
fn cache_files(ctx: &Context, paths: Value, saltenv: Option<String>) -> Result<Vec<Value>> {
    let saltenv = environment(ctx, saltenv);
    let mut places = Vec::new();
    for path in util::split_input(&paths) {
        places.push(path_or_false(cache(ctx, &path, &saltenv)?));
    }
    Ok(places)
}

/// Fetches a directory of the master into the cache and returns the files. ``include_pat`` and ``exclude_pat`` are
/// globs, or regular expressions behind ``E@``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.cache_dir salt://path/to/dir
///     salt '*' cp.cache_dir salt://path/to/dir include_pat='E@*.py$'
#[function]
fn cache_dir(
    ctx: &Context,
    path: String,
    saltenv: Option<String>,
    #[default(false)] include_empty: bool,
    include_pat: Option<String>,
    exclude_pat: Option<String>,
) -> Result<Vec<String>> {
    let saltenv = environment(ctx, saltenv);
    let how = CachedDir { saltenv, include_empty, include: include_pat, exclude: exclude_pat, cachedir: None };
    Ok(texts(&within(ctx, client(ctx)?.cache_dir(&path, &how))?))
}

/// Fetches all files of an environment into the cache and returns their paths there.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.cache_master
#[function]
fn cache_master(ctx: &Context, saltenv: Option<String>) -> Result<Vec<Value>> {
    let saltenv = environment(ctx, saltenv);
    let places = within(ctx, client(ctx)?.cache_master(&saltenv))?;
    Ok(places.into_iter().map(path_or_false).collect())
}

/// Copies a file of this machine into the cache and returns its path there.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.cache_local_file /etc/hosts
#[function]
fn cache_local_file(ctx: &Context, path: String) -> Result<String> {
    if !Path::new(&path).exists() {
        return Ok(String::new());
    }
    let (client, saltenv) = (client(ctx)?, environment(ctx, None));
    if let Some(cached) = client.is_cached(&path, &saltenv) {
        let here = within(ctx, client.hash_file(&path, &saltenv))?;
        // An unchanged file is not copied again, so its time in the cache stays.
        if here == within(ctx, client.hash_file(&cached, &saltenv))? {
            return Ok(cached);
        }
    }
    Ok(text(&client.cache_local_file(Path::new(&path)).map_err(fileclient::failed)?))
}

/// Returns the path that a file would have in the cache.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.cache_dest salt://my/file
#[function]
fn cache_dest(ctx: &Context, url: String, saltenv: Option<String>) -> Result<String> {
    let dest = client(ctx)?.cache_dest(&url, &environment(ctx, saltenv));
    dest.map(|path| text(&path)).map_err(fileclient::failed)
}

/// Returns the path of a file in the cache, or an empty text if it is not cached.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.is_cached salt://path/to/file
#[function]
fn is_cached(ctx: &Context, path: String, saltenv: Option<String>) -> Result<String> {
    Ok(client(ctx)?.is_cached(&path, &environment(ctx, saltenv)).unwrap_or_default())
}

/// Returns the hash of a file of the master, or of this machine, and its kind.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.hash_file salt://path/to/file
#[function]
fn hash_file(ctx: &Context, path: String, saltenv: Option<String>) -> Result<Value> {
    hash(ctx, path, saltenv)
}

/// The same as ``cp.hash_file``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.hash_file_ssh salt://path/to/file
#[function]
fn hash_file_ssh(ctx: &Context, path: String, saltenv: Option<String>) -> Result<Value> {
    hash(ctx, path, saltenv)
}

fn hash(ctx: &Context, path: String, saltenv: Option<String>) -> Result<Value> {
    let saltenv = environment(ctx, saltenv);
    let found = within(ctx, client(ctx)?.hash_file(&path, &saltenv))?;
    // Salt returns what its two file clients return: the remote one a text, the local one a map.
    let nothing = || if url::parse(&path).is_some() { "".into() } else { map! {}.into() };
    Ok(found.map_or_else(nothing, Map::into))
}

/// Returns the mode of a file of the master, in octal digits or as a number, or None.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.stat_file salt://path/to/file octal=True
#[function]
fn stat_file(ctx: &Context, path: String, saltenv: Option<String>, #[default(true)] octal: bool) -> Result<Value> {
    let saltenv = environment(ctx, saltenv);
    let found = within(ctx, client(ctx)?.hash_and_stat(&path, &saltenv))?;
    let mode = found.and_then(|(_, stat)| stat.as_list()?.first()?.as_i64());
    Ok(mode.map_or(Value::Null, |mode| if octal { format!("{:04o}", mode & 0o7777).into() } else { mode.into() }))
}

/// Returns the files of an environment that begin with a prefix.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.list_master
///     salt '*' cp.list_master dev prefix=web
#[function]
fn list_master(ctx: &Context, saltenv: Option<String>, #[default("")] prefix: String) -> Result<Vec<String>> {
    let saltenv = environment(ctx, saltenv);
    within(ctx, client(ctx)?.file_list(&saltenv, &prefix))
}

/// Returns the directories of an environment that begin with a prefix.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.list_master_dirs
#[function]
fn list_master_dirs(ctx: &Context, saltenv: Option<String>, #[default("")] prefix: String) -> Result<Vec<String>> {
    let saltenv = environment(ctx, saltenv);
    within(ctx, client(ctx)?.dir_list(&saltenv, &prefix))
}

/// Returns the symbolic links of an environment that begin with a prefix, and their targets.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.list_master_symlinks
#[function]
fn list_master_symlinks(ctx: &Context, saltenv: Option<String>, #[default("")] prefix: String) -> Result<Map> {
    let saltenv = environment(ctx, saltenv);
    within(ctx, client(ctx)?.symlink_list(&saltenv, &prefix))
}

/// Returns the files in the cache.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.list_minion
#[function]
fn list_minion(ctx: &Context, saltenv: Option<String>) -> Result<Vec<String>> {
    let (client, saltenv) = (client(ctx)?, environment(ctx, saltenv));
    Ok(ctx.blocking(move || texts(&client.file_local_list(&saltenv))))
}

/// Returns the names of the state files of an environment.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.list_states
#[function]
fn list_states(ctx: &Context, saltenv: Option<String>) -> Result<Vec<String>> {
    let saltenv = environment(ctx, saltenv);
    within(ctx, client(ctx)?.list_states(&saltenv))
}

/// Returns the environments of the file server.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.envs
#[function]
fn envs(ctx: &Context) -> Result<Vec<String>> {
    within(ctx, client(ctx)?.envs())
}
