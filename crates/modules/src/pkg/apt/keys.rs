//! The keys sources are signed with: in apt's own store where `apt-key` is, else one file each below a directory.

use std::path::{Path, PathBuf};

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::failure;
use crate::subprocess;
use crate::util;

const KEYRINGS: &str = "/etc/apt/keyrings";

fn keydir(given: &Option<String>) -> PathBuf {
    PathBuf::from(given.as_deref().filter(|path| !path.is_empty()).unwrap_or(KEYRINGS))
}

/// Reads what `gpg --with-colons --list-keys` prints.
fn parse_keys(text: &str) -> Map {
    let mut keys: Vec<Map> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let items: Vec<Value> = line.split(':').map(|item| field(item.trim())).collect();
        let item = |place: usize| items.get(place).cloned().unwrap_or_default();
        if items.len() < 2 {
            continue;
        }
        match (item(0).as_str(), keys.last_mut()) {
            (Some("pub"), _) => keys.push(properties(&item)),
            // Salt keeps only the last subkey.
            (Some("sub"), Some(key)) => drop(key.insert("subkey", properties(&item))),
            // A fingerprint belongs to the line before it, which is the subkey once there is one.
            (Some("fpr"), Some(key)) => match key.get_mut("subkey").and_then(Value::as_map_mut) {
                Some(sub) => drop(sub.insert("fingerprint", item(9))),
                None => drop(key.insert("fingerprint", item(9))),
            },
            (Some("uid"), Some(key)) => key.update(map! { "uid" => item(9), "uid_hash" => item(7) }),
            _ => {}
        }
    }
    keys.into_iter().filter_map(|key| Some((key.get("keyid")?.to_string(), key))).collect()
}

fn field(text: &str) -> Value {
    match text.parse::<i64>() {
        _ if text.is_empty() => Value::Null,
        Ok(number) => number.into(),
        Err(_) => text.into(),
    }
}

fn properties(item: &dyn Fn(usize) -> Value) -> Map {
    map! {
        "algorithm" => item(3),
        "bits" => item(2),
        "capability" => item(11),
        "date_creation" => item(5),
        "date_expiration" => item(6),
        // An ID made of digits only was read as a number above.
        "keyid" => item(4).to_string(),
        "validity" => item(1),
    }
}

/// Returns the trusted keys, by id.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.get_repo_keys
///     salt '*' pkg.get_repo_keys keydir=/etc/apt/keyrings
#[function]
fn get_repo_keys(ctx: &Context, #[default(true)] aptkey: bool, keydir: Option<String>) -> Result<Value> {
    // apt-key is deprecated and missing from newer releases. Without it each key is a file.
    if aptkey && util::which("apt-key").is_some() {
        let words = [
            "apt-key",
            "adv",
            "--batch",
            "--list-public-keys",
            "--with-fingerprint",
            "--with-fingerprint",
            "--with-colons",
            "--fixed-list-mode",
        ];
        return Ok(parse_keys(&subprocess::quiet(ctx, &words)?.stdout).into());
    }
    let folder = self::keydir(&keydir);
    if !folder.is_dir() {
        let folder = folder.display();
        tracing::error!("The directory {folder} does not exist. Please create this directory only writable by root");
        return Ok(Value::Bool(false));
    }
    Ok(keys_below(ctx, &folder)?.into_iter().map(|(_, keys)| keys).fold(Map::new(), with).into())
}

fn with(mut all: Map, more: Map) -> Map {
    all.update(more);
    all
}

/// The keys of each file of a directory.
fn keys_below(ctx: &Context, folder: &Path) -> Result<Vec<(PathBuf, Map)>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io("read", folder, &error))?;
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let words =
            ["gpg", "--no-default-keyring", "--keyring", &path.to_string_lossy(), "--list-keys", "--with-colons"];
        found.push((path.clone(), parse_keys(&subprocess::quiet(ctx, &words)?.stdout)));
    }
    Ok(found)
}

/// Adds a key from a file, a text or a key server.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.add_repo_key 'salt://apt/sources/test.key'
///     salt '*' pkg.add_repo_key keyserver='keyserver.example' keyid='0000AAAA'
#[function]
fn add_repo_key(
    ctx: &Context,
    path: Option<String>,
    text: Option<String>,
    keyserver: Option<String>,
    keyid: Option<String>,
    #[default("base")] saltenv: String,
    #[default(true)] aptkey: bool,
    keydir: Option<String>,
    keyfile: Option<String>,
) -> Result<bool> {
    let aptkey = aptkey && util::which("apt-key").is_some();
    let folder = self::keydir(&keydir);
    if !aptkey && let Err(error) = std::fs::create_dir_all(&folder) {
        tracing::error!("The directory {} could not be created: {error}", folder.display());
        return Ok(false);
    }
    if let Some(keyid) = keyid.as_deref().filter(|keyid| !keyid.is_empty()) {
        let known = get_repo_keys(ctx, aptkey, Some(folder.to_string_lossy().into_owned()))?;
        // Short IDs are the end of the long ones.
        if known.as_map().is_some_and(|known| known.text_keys().any(|known| known.ends_with(keyid))) {
            return Ok(true);
        }
    }
    let key = Key { folder, keyfile, aptkey };
    match (path, text, keyserver, keyid) {
        (Some(path), ..) => key.add_file(ctx, path, &saltenv),
        (None, Some(text), ..) => key.add_text(ctx, text),
        (None, None, Some(server), Some(keyid)) => key.add_from_server(ctx, &server, &keyid),
        (None, None, Some(server), None) => {
            Err(Error::invocation(format!("No keyid or keyid too short for keyserver: {server}")))
        }
        (None, None, None, Some(keyid)) => Err(Error::invocation(format!("No keyserver specified for keyid: {keyid}"))),
        _ => Err(Error::Arguments("add_repo_key() takes at least 1 argument (0 given)".into())),
    }
}

struct Key {
    folder: PathBuf,
    keyfile: Option<String>,
    aptkey: bool,
}

impl Key {
    fn add_file(self, ctx: &Context, path: String, saltenv: &str) -> Result<bool> {
        let cached = ctx.call("cp.cache_file", vec![path.as_str().into(), saltenv.into()])?;
        let Some(cached) = cached.as_str().filter(|path| !path.is_empty()) else {
            tracing::error!("Unable to get cached copy of file: {path}");
            return Ok(false);
        };
        if self.aptkey {
            return done(subprocess::quiet(ctx, &["apt-key", "add", cached])?);
        }
        let name = Path::new(cached).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = self.keyfile.unwrap_or(name);
        let content = std::fs::read(cached).map_err(|error| Error::io("read", cached, &error))?;
        let armored =
            // Only the beginning is examined; a key can be large.
            String::from_utf8_lossy(&content[..content.len().min(64)]).trim_matches('-').starts_with("BEGIN PGP");
        // apt reads armored keys only from files that end in .asc.
        let content = match armored && !name.ends_with(".asc") {
            true => match dearmored(ctx, cached)? {
                Some(content) => content,
                None => return Ok(false),
            },
            false => content,
        };
        let target = self.folder.join(name);
        // Readable for all: apt checks signatures as the user _apt.
        util::replace_file(&target, &content, 0o644).map_err(|error| Error::io("write", &target, &error))?;
        Ok(true)
    }

    fn add_text(self, ctx: &Context, text: String) -> Result<bool> {
        if !self.aptkey {
            return Err(Error::execution("not supported: a key as text where apt-key is missing; use a file"));
        }
        done(subprocess::fed(ctx, &["apt-key", "add", "-"], text.into_bytes())?)
    }

    fn add_from_server(self, ctx: &Context, server: &str, keyid: &str) -> Result<bool> {
        if self.aptkey {
            let words = ["apt-key", "adv", "--batch", "--keyserver", server, "--recv", keyid];
            return done(subprocess::quiet(ctx, &words)?);
        }
        let Some(name) = self.keyfile else {
            tracing::error!("You must define the name of the key file to save the key. See keyfile argument");
            return Ok(false);
        };
        let file = self.folder.join(name);
        let path = file.to_string_lossy();
        let words = ["gpg", "--no-default-keyring", "--keyring", &path, "--keyserver", server, "--recv-keys", keyid];
        let fetched = done(subprocess::quiet(ctx, &words)?)?;
        if fetched {
            let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(&file, readable).map_err(|error| Error::io("change", &file, &error))?;
        }
        Ok(fetched)
    }
}

fn done(said: subprocess::Outcome) -> Result<bool> {
    if let Some(why) = failure(&said) {
        tracing::error!("Unable to add repo key: {why}");
        return Ok(false);
    }
    Ok(true)
}

fn dearmored(ctx: &Context, path: &str) -> Result<Option<Vec<u8>>> {
    if util::which("gpg").is_none() {
        tracing::error!(
            "Detected an ASCII armored key {path} and the gpg binary is not available. Not decrypting the key."
        );
        return Ok(None);
    }
    let plain = format!("{path}.decrypted");
    let said = subprocess::quiet(ctx, &["gpg", "--yes", "--output", &plain, "--dearmor", path])?;
    if let Some(why) = failure(&said) {
        tracing::error!("Failed to decrypt the key {path}: {why}");
        return Ok(None);
    }
    std::fs::read(&plain).map(Some).map_err(|error| Error::io("read", &plain, &error))
}

/// Removes a key by its id, and returns the id.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.del_repo_key keyid=0123ABCD
#[function]
fn del_repo_key(
    ctx: &Context,
    name: Option<String>,
    #[default(true)] aptkey: bool,
    keydir: Option<String>,
    kwargs: KwArgs,
) -> Result<Value> {
    let _ = name;
    if kwargs.0.get("keyid_ppa").is_some_and(Value::truthy) {
        return Err(Error::execution("not supported: keyid_ppa; use keyid"));
    }
    let Some(keyid) = kwargs.0.get("keyid").map(Value::to_string) else {
        return Err(Error::invocation("keyid or keyid_ppa and PPA name must be passed"));
    };
    if aptkey && util::which("apt-key").is_some() {
        let said = subprocess::quiet(ctx, &["apt-key", "del", &keyid])?;
        return match said.retcode {
            Some(0) => Ok(keyid.into()),
            _ => Err(Error::execution(format!("Failed to remove keyid {keyid}: {}", said.stderr.trim_end()))),
        };
    }
    let folder = self::keydir(&keydir);
    // Anything shorter could match a key of another owner.
    if ![8, 16].contains(&keyid.len()) {
        tracing::error!("The keyid needs to be either 8 or 16 characters");
        return Ok(Value::Bool(false));
    }
    let files = keys_below(ctx, &folder)?;
    let own = |(_, keys): &&(PathBuf, Map)| keys.text_keys().any(|known| known.ends_with(&keyid));
    let Some((path, _)) = files.iter().find(own) else {
        tracing::error!("Could not find the key file for keyid: {keyid}");
        return Ok(Value::Bool(false));
    };
    std::fs::remove_file(path).map_err(|error| Error::io("remove", path, &error))?;
    Ok(keyid.into())
}

/// Brings the key of a source here, as the settings of the source say.
pub(super) fn fetch(ctx: &Context, settings: &mut Map, signedby: &str, saltenv: &str, aptkey: bool) -> Result<()> {
    let signedby = (!signedby.is_empty()).then(|| PathBuf::from(signedby));
    let folder = signedby.as_deref().and_then(Path::parent).map(|folder| folder.to_string_lossy().into_owned());
    // Of the three ways to name a key the first one given counts.
    if let Some(ids) = settings.remove("keyid") {
        let server = settings.remove("keyserver").filter(Value::truthy).map(|server| server.to_string());
        let (true, Some(server)) = (ids.truthy(), server) else {
            return Err(Error::Other("both keyserver and keyid options required.".into()));
        };
        for id in ids.as_list().map_or(vec![ids.clone()], <[Value]>::to_vec) {
            // YAML reads an ID without letters as a number.
            let id = id.as_i64().filter(|_| id.as_str().is_none()).map_or(id.to_string(), |id| format!("0x{id:x}"));
            let name = signedby.as_ref().map(|path| path.to_string_lossy().into_owned());
            let env = "base".to_owned();
            let added = add_repo_key(
                ctx,
                None,
                None,
                Some(server.clone()),
                Some(id.clone()),
                env,
                aptkey,
                folder.clone(),
                name,
            );
            if !added? {
                return Err(Error::execution(format!("Error: Could not add key: {id}")));
            }
        }
    } else if let Some(url) = settings.get("key_url").map(Value::to_string) {
        let cached = ctx.call("cp.cache_file", vec![url.as_str().into(), saltenv.into()])?;
        let Some(cached) = cached.as_str().filter(|path| !path.is_empty()) else {
            return Err(Error::execution(format!("Error: file not found: {url}")));
        };
        let name = signedby.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let env = saltenv.to_owned();
        let path = Some(cached.to_owned());
        if !add_repo_key(ctx, path, None, None, None, env, aptkey, folder, name)? {
            let text =
                if aptkey { format!("failed to add key from {url}") } else { format!("Could not add key: {cached}") };
            return Err(Error::execution(format!("Error: {text}")));
        }
    } else if let Some(text) = settings.get("key_text").map(Value::to_string) {
        let env = saltenv.to_owned();
        if !add_repo_key(ctx, None, Some(text.clone()), None, None, env, aptkey, None, None)? {
            return Err(Error::execution(format!("Error: failed to add key:\n{text}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read() {
        let text = "tru::1:1::\npub:u:4096:1:ABCDEF0123456789:1500000000:::-:::scESC:\nfpr:::::::::FF01:\n\
                    uid:u::::1500000000::HASH::Someone <s@x>::\nsub:u:4096:1:1111222233334444:1500000000::::::e:\nfpr:::::::::FF02:\n";
        let keys = parse_keys(text);
        let key = keys.get("ABCDEF0123456789").unwrap();
        assert_eq!(key.get("fingerprint"), Some(&"FF01".into()));
        assert_eq!(key.get("bits"), Some(&4096.into()));
        assert_eq!(key.get("uid"), Some(&"Someone <s@x>".into()));
        assert_eq!(key.get("subkey").unwrap().get("fingerprint"), Some(&"FF02".into()));
    }
}
