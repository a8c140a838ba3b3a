//! Keys users may sign in with.

use std::path::{Path, PathBuf};

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value};

use super::keys::{self, Key, expanded, kind, listed};
use super::{KeyFileError, account, make_folder, store};
use crate::accounts;

fn file_of(ctx: &Context, user: &str, config: &str) -> Result<PathBuf> {
    let account = account(ctx, user)?;
    let path = expanded(config, user, &account.home)?;
    // An absolute path replaces the home directory, as sshd reads its option.
    Ok(Path::new(&account.home).join(path))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|_| Error::execution(format!("Problem reading ssh key file {}", path.display())))
}

fn current(ctx: &Context, user: &str, config: &str, hash: Option<&str>) -> Result<Map> {
    match file_of(ctx, user, config) {
        Ok(path) if path.is_file() => listed(&read(&path)?, hash),
        // A missing file or user has no keys.
        Ok(_) | Err(Error::Execution(_)) => Ok(Map::new()),
        Err(error) => Err(error),
    }
}

/// Returns the authorized keys of a user; of several users, by user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.auth_keys root
///     salt '*' ssh.auth_keys user='[user1, user2]'
#[function]
fn auth_keys(
    ctx: &Context,
    #[default(Value::Null)] user: Value,
    #[default(".ssh/authorized_keys")] config: String,
    fingerprint_hash_type: Option<String>,
) -> Result<Map> {
    let hash = fingerprint_hash_type.as_deref();
    let users: Vec<String> = match &user {
        Value::List(users) if !users.is_empty() => users.iter().map(Value::to_string).collect(),
        single if single.truthy() => return current(ctx, &single.to_string(), &config, hash),
        _ => accounts::accounts(ctx, None)?.into_iter().map(|account| account.name).collect(),
    };
    let mut found = Map::new();
    for user in users {
        if file_of(ctx, &user, &config).is_ok_and(|path| path.is_file()) {
            let keys = current(ctx, &user, &config, hash)?;
            found.insert(user, keys);
        }
    }
    Ok(found)
}

/// Compares a key with the file. Returns `exists`, `update` or `add`.
fn status(ctx: &Context, user: &str, key: &Key, config: &str, hash: Option<&str>) -> Result<&'static str> {
    let current = current(ctx, user, config, hash)?;
    let Some(known) = current.get(&key.key) else { return Ok("add") };
    let text = |name: &str| known.get(name).map(Value::to_string).unwrap_or_default();
    let options = known.get("options").and_then(Value::as_list).unwrap_or_default();
    let known = Key {
        key: key.key.clone(),
        enc: text("enc"),
        comment: text("comment"),
        options: options.iter().map(Value::to_string).collect(),
    };
    // Compared as lines, so a changed comment or option is an update.
    Ok(if known.line() == key.line() { "exists" } else { "update" })
}

/// Returns ``add``, ``update`` or ``exists``: the effect that setting a key would have.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.check_key <user> <key> <enc> <comment> <options>
#[function]
fn check_key(
    ctx: &Context,
    user: String,
    key: String,
    enc: String,
    comment: String,
    options: Vec<String>,
    #[default(".ssh/authorized_keys")] config: String,
    #[default(Value::Null)] cache_keys: Value,
    fingerprint_hash_type: Option<String>,
) -> Result<String> {
    let _ = cache_keys;
    let key = Key { key, enc: kind(&enc)?, comment, options };
    status(ctx, &user, &key, &config, fingerprint_hash_type.as_deref()).map(str::to_owned)
}

/// Fetches a file with keys and reads it; why there are none is remembered.
fn from_file(ctx: &Context, source: &str, saltenv: &str) -> Result<Option<Vec<Key>>> {
    let cached = ctx.call("cp.cache_file", vec![source.into(), saltenv.into()])?;
    let Some(path) = cached.as_str().filter(|path| !path.is_empty()) else { return Ok(None) };
    let found: Vec<Key> = read(Path::new(path))?.lines().filter_map(Key::parse).collect();
    let found: Vec<Key> =
        // A line without a real key is skipped and does not spoil the others.
        found.into_iter().filter(|key| keys::fingerprint(&key.key, None).is_ok_and(|sum| sum.is_some())).collect();
    if found.is_empty() {
        let text = format!("No keys detected in {source}. Is file properly formatted?");
        tracing::error!("{text}");
        *ctx.memo.get::<KeyFileError>().0.lock().expect("no one panics holding this") = Some(text);
    }
    Ok(Some(found))
}

/// Returns for each key of a file the effect that setting it would have.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.check_key_file root salt://ssh/keyfile
#[function]
fn check_key_file(
    ctx: &Context,
    user: String,
    source: String,
    #[default(".ssh/authorized_keys")] config: String,
    #[default("base")] saltenv: String,
    fingerprint_hash_type: Option<String>,
) -> Result<Map> {
    let mut found = Map::new();
    for mut key in from_file(ctx, &source, &saltenv)?.unwrap_or_default() {
        key.enc = kind(&key.enc)?;
        let status = status(ctx, &user, &key, &config, fingerprint_hash_type.as_deref())?;
        found.insert(key.key, status);
    }
    Ok(found)
}

fn remove(ctx: &Context, user: &str, key: &str, config: &str) -> Result<&'static str> {
    if !current(ctx, user, config, None)?.contains_key(key) {
        return Ok("Key not present");
    }
    let path = file_of(ctx, user, config)?;
    let text = read(&path)?;
    // Lines that cannot be read are dropped together with the key, as in Salt. Comments stay.
    let keep =
        |line: &&str| line.trim_start().starts_with('#') || Key::parse(line).is_some_and(|known| known.key != key);
    let lines: String = text.lines().filter(keep).map(|line| format!("{}\n", line.trim())).collect();
    match store(&path, lines.as_bytes(), None) {
        Ok(()) => Ok("Key removed"),
        Err(error) => {
            tracing::warn!("Could not read/write key file: {error}");
            Ok("Key not removed")
        }
    }
}

/// Removes an authorized key from a user; returns a message.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.rm_auth_key <user> <key>
#[function]
fn rm_auth_key(
    ctx: &Context,
    user: String,
    key: String,
    #[default(".ssh/authorized_keys")] config: String,
    fingerprint_hash_type: Option<String>,
) -> Result<String> {
    let _ = fingerprint_hash_type;
    remove(ctx, &user, &key, &config).map(str::to_owned)
}

/// Removes the authorized keys of a file from a user; returns a message.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.rm_auth_key_from_file <user> salt://ssh_keys/<user>.id_rsa.pub
#[function]
fn rm_auth_key_from_file(
    ctx: &Context,
    user: String,
    source: String,
    #[default(".ssh/authorized_keys")] config: String,
    #[default("base")] saltenv: String,
    fingerprint_hash_type: Option<String>,
) -> Result<String> {
    let _ = fingerprint_hash_type;
    let keys = from_file(ctx, &source, &saltenv)?;
    let keys = keys.ok_or_else(|| Error::execution("Failed to pull key file from salt file server"))?;
    if keys.is_empty() {
        return Ok("fail".into());
    }
    let mut done = Vec::new();
    for key in &keys {
        done.push(remove(ctx, &user, &key.key, &config)?);
    }
    // The worst answer of all keys is the answer of the call.
    let said = ["Key not removed", "Key removed"].into_iter().find(|text| done.contains(text));
    Ok(said.unwrap_or("Key not present").to_owned())
}

fn set(ctx: &Context, user: &str, mut key: Key, config: &str, hash: Option<&str>) -> Result<&'static str> {
    // A key with a blank would put a second field into the file.
    if key.key.split_whitespace().count() > 1 {
        return Ok("invalid");
    }
    key.enc = kind(&key.enc)?;
    let Some(owner) = accounts::account(ctx, user, None)? else { return Ok("fail") };
    if keys::fingerprint(&key.key, hash)?.is_none() {
        return Ok("Invalid public key");
    }
    let status = status(ctx, user, &key, config, hash)?;
    let path = file_of(ctx, user, config)?;
    match status {
        "exists" => Ok("no change"),
        "update" => {
            let text = read(&path)?;
            let same = |line: &str| Key::parse(line).is_some_and(|known| known.key == key.key);
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let lines: String = lines.map(|line| if same(line) { key.line() } else { format!("{line}\n") }).collect();
            store(&path, lines.as_bytes(), None)?;
            Ok("replace")
        }
        _ => {
            // A home that does not exist yet, for instance because it is not mounted, must not be created by this.
            if path.starts_with(&owner.home) && !Path::new(&owner.home).is_dir() {
                return Ok("fail");
            }
            make_folder(&path, Some(&owner))?;
            let mut text = if path.is_file() { read(&path)? } else { String::new() };
            // Otherwise the new key would be glued to the last one.
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&key.line());
            store(&path, text.as_bytes(), Some(&owner))?;
            Ok("new")
        }
    }
}

/// Adds an authorized key to a user; returns ``new``, ``replace``, ``no change``, ``fail`` or that it is not a key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.set_auth_key <user> '<key>' enc='dsa'
#[function]
fn set_auth_key(
    ctx: &Context,
    user: String,
    key: String,
    #[default("ssh-rsa")] enc: String,
    #[default("")] comment: String,
    #[default(Value::Null)] options: Vec<String>,
    #[default(".ssh/authorized_keys")] config: String,
    #[default(Value::Null)] cache_keys: Value,
    fingerprint_hash_type: Option<String>,
) -> Result<String> {
    let _ = cache_keys;
    let key = Key { key, enc, comment, options };
    set(ctx, &user, key, &config, fingerprint_hash_type.as_deref()).map(str::to_owned)
}

/// Adds the authorized keys of a file to a user; returns ``new``, ``replace``, ``no change`` or ``fail``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.set_auth_key_from_file <user> salt://ssh_keys/<user>.id_rsa.pub
#[function]
fn set_auth_key_from_file(
    ctx: &Context,
    user: String,
    source: String,
    #[default(".ssh/authorized_keys")] config: String,
    #[default("base")] saltenv: String,
    fingerprint_hash_type: Option<String>,
    kwargs: KwArgs,
) -> Result<String> {
    let keys = from_file(ctx, &source, &saltenv)?;
    let keys = keys.ok_or_else(|| Error::execution("Failed to pull key file from salt file server"))?;
    if keys.is_empty() {
        return Ok("fail".into());
    }
    let options = kwargs.0.get("options").filter(|options| options.truthy()).and_then(Value::as_list);
    let mut done = Vec::new();
    for mut key in keys {
        if let Some(options) = options {
            key.options = options.iter().map(Value::to_string).collect();
        }
        done.push(set(ctx, &user, key, &config, fingerprint_hash_type.as_deref())?);
    }
    let said = ["fail", "replace", "new"].into_iter().find(|text| done.contains(text));
    Ok(said.unwrap_or("no change").to_owned())
}
