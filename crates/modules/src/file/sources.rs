//! Selects the first existing one of several sources.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use exec::{Context, Error, Result, function};
use files::url;
use value::{Map, Value, list};

use super::address;

/// The choices of this run, by source, hash and environment.
#[derive(Default)]
struct Chosen(Mutex<HashMap<String, (Value, Value)>>);

/// Chooses the first source that exists, and its checksum. A single source is taken as it is.
///
/// # Errors
/// When none of several exists.
pub fn choose(ctx: &Context, source: &Value, hash: &Value, saltenv: &str) -> Result<(Value, Value)> {
    let Value::List(sources) = source else { return Ok((source.clone(), hash.clone())) };
    let chosen = ctx.memo.get::<Chosen>();
    // A state run uses the same list when it checks and when it acts; both must get the same source.
    let key = format!("{source}_|-{hash}_|-{saltenv}");
    if let Some(found) = chosen.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(found.clone());
    }
    let mut server = Server { ctx, known: HashMap::new() };
    for single in sources {
        let (address, own_hash) = match single {
            // Salt passes over entries of another shape without a word.
            Value::Map(map) if map.len() != 1 => continue,
            Value::Map(map) => match map.iter().next() {
                // A source may have a checksum; without one the common one counts.
                Some((address, own)) if own.truthy() => (address.to_string(), own.clone()),
                Some((address, _)) => (address.to_string(), hash.clone()),
                None => continue,
            },
            Value::Str(address) => (address.clone(), hash.clone()),
            _ => continue,
        };
        if server.has(&address, saltenv)? {
            let found = (Value::from(address), own_hash);
            chosen.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
            return Ok(found);
        }
    }
    Err(Error::execution("none of the specified sources were found"))
}

/// The file server's lists of files and directories, by environment, each fetched once.
struct Server<'a> {
    ctx: &'a Context,
    known: HashMap<String, HashSet<String>>,
}

impl Server<'_> {
    fn has(&mut self, source: &str, saltenv: &str) -> Result<bool> {
        let parsed = address::parse(source);
        match parsed.scheme {
            "salt" => {
                // `?saltenv=` in the address wins over the state's environment.
                let (path, env) = url::parse(source).unwrap_or((source, None));
                let path = path.to_owned();
                Ok(self.names(env.unwrap_or(saltenv))?.contains(path.trim_end_matches('/')))
            }
            "http" | "https" | "ftp" => Ok(crate::fileclient::exists_abroad(self.ctx, source)),
            "file" => {
                // `file://etc/hosts` has its first directory where the host stands; Salt tries all three readings.
                let joined = Path::new(parsed.host).join(parsed.path);
                Ok([Path::new(parsed.host), Path::new(parsed.path), &joined].iter().any(|path| path.exists()))
            }
            _ => Ok(source.starts_with('/') && Path::new(source).exists()),
        }
    }

    fn names(&mut self, env: &str) -> Result<&HashSet<String>> {
        if !self.known.contains_key(env) {
            let client = crate::fileclient::client(self.ctx)?;
            let mut names: HashSet<String> =
                crate::fileclient::within(self.ctx, client.file_list(env, ""))?.into_iter().collect();
            // Directories count as well, for `file.recurse`.
            names.extend(crate::fileclient::within(self.ctx, client.dir_list(env, ""))?);
            self.known.insert(env.to_owned(), names);
        }
        Ok(self.known.entry(env.to_owned()).or_default())
    }
}

/// Returns the first source that exists and its checksum.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.source_list salt://http/httpd.conf '{hash_type: 'md5', 'hsum': <md5sum>}' base
#[function]
pub fn source_list(ctx: &Context, source: Value, source_hash: Value, saltenv: Value) -> Result<Value> {
    let saltenv = saltenv.as_str().unwrap_or("base");
    let (source, hash) = choose(ctx, &source, &source_hash, saltenv)?;
    Ok(list![source, hash])
}

/// Returns the given environment, else `base`.
pub fn environment(saltenv: &Value) -> String {
    saltenv.as_str().filter(|env| !env.is_empty()).unwrap_or("base").to_owned()
}

/// Reads a map; empty if none is given.
pub fn given_map(value: &Value) -> Map {
    value.as_map().cloned().unwrap_or_default()
}
