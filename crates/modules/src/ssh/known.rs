//! Keys of other hosts.

use std::path::{Path, PathBuf};

use exec::{Context, Result, function};
use value::{Map, Value, map};

use super::keys::{fields, hosts};
use super::{make_folder, store};
use crate::accounts::{self, Account};
use crate::{subprocess, util};

/// Returns Salt's map for an error that is not raised.
fn refused(reason: impl Into<String>) -> Map {
    map! { "status" => "error", "error" => reason.into() }
}

fn file_of(ctx: &Context, user: Option<&str>, config: Option<&str>) -> Result<std::result::Result<PathBuf, Map>> {
    let default = if user.is_some() { ".ssh/known_hosts" } else { "/etc/ssh/ssh_known_hosts" };
    let config = Path::new(config.filter(|config| !config.is_empty()).unwrap_or(default));
    if config.is_absolute() {
        return Ok(Ok(config.to_owned()));
    }
    let Some(user) = user else { return Ok(Err(refused("Cannot determine absolute path to file."))) };
    Ok(match accounts::account(ctx, user, None)? {
        Some(account) => Ok(Path::new(&account.home).join(config)),
        None => Err(refused(format!("User {user} does not exist"))),
    })
}

fn named(hostname: &str, port: Option<i64>) -> String {
    // OpenSSH writes brackets only for another port than 22.
    match port.filter(|port| ![0, 22].contains(port)) {
        Some(port) => format!("[{hostname}]:{port}"),
        None => hostname.to_owned(),
    }
}

/// A file of known hosts and the host in question.
struct Place {
    path: PathBuf,
    host: String,
}

impl Place {
    fn entries(&self, ctx: &Context, hash: Option<&str>) -> Result<Vec<Map>> {
        let path = self.path.to_string_lossy();
        hosts(&subprocess::quiet(ctx, &["ssh-keygen", "-F", &self.host, "-f", &path])?.stdout, hash)
    }
}

fn user_of(user: &Option<String>) -> Option<&str> {
    user.as_deref().filter(|user| !user.is_empty())
}

fn owner(ctx: &Context, user: Option<&str>) -> Result<Option<Account>> {
    match user {
        Some(user) => accounts::account(ctx, user, None),
        None => Ok(None),
    }
}

fn none_if_empty(entries: Vec<Map>) -> Value {
    if entries.is_empty() { Value::Null } else { entries.into() }
}

/// Returns the known keys of a host; nothing if there are none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.get_known_host_entries <user> <hostname>
#[function]
fn get_known_host_entries(
    ctx: &Context,
    user: Value,
    hostname: String,
    config: Option<String>,
    port: Option<i64>,
    fingerprint_hash_type: Option<String>,
) -> Result<Value> {
    util::needs(ctx, "ssh-keygen")?;
    let user = user.truthy().then(|| user.to_string());
    let path = match file_of(ctx, user_of(&user), config.as_deref())? {
        Ok(path) => path,
        Err(refused) => return Ok(refused.into()),
    };
    let place = Place { path, host: named(&hostname, port) };
    Ok(none_if_empty(place.entries(ctx, fingerprint_hash_type.as_deref())?))
}

/// The arguments for `ssh-keyscan`.
struct Scan<'a> {
    hostname: &'a str,
    enc: Option<&'a str>,
    port: Option<i64>,
    hashed: bool,
    timeout: i64,
    hash: Option<&'a str>,
}

impl Scan<'_> {
    fn run(&self, ctx: &Context) -> Result<Vec<Map>> {
        let (port, timeout) = (self.port.map(|port| port.to_string()), self.timeout.to_string());
        let mut words = vec!["ssh-keyscan"];
        words.extend(port.iter().flat_map(|port| ["-p", port.as_str()]));
        words.extend(self.enc.into_iter().flat_map(|enc| ["-t", enc]));
        words.extend(self.hashed.then_some("-H"));
        // The name comes from a state and must not become an option.
        words.extend(["-T", &timeout, "--", self.hostname]);
        let mut found = Vec::new();
        // ssh-keyscan sometimes comes back empty without an error. Salt tries five times, too.
        for _ in 0..5 {
            let said = subprocess::quiet(ctx, &words)?;
            found = hosts(&said.stdout, self.hash)?;
            if !found.is_empty() || !said.stderr.trim().is_empty() {
                break;
            }
        }
        Ok(found)
    }
}

/// Asks a host for its keys; returns nothing if it does not answer.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.recv_known_host_entries <hostname> enc=<enc> port=<port>
#[function]
fn recv_known_host_entries(
    ctx: &Context,
    hostname: String,
    enc: Option<String>,
    port: Option<i64>,
    #[default(true)] hash_known_hosts: bool,
    #[default(5)] timeout: i64,
    fingerprint_hash_type: Option<String>,
) -> Result<Value> {
    util::needs(ctx, "ssh-keyscan")?;
    let scan = Scan {
        hostname: &hostname,
        enc: enc.as_deref(),
        port,
        hashed: hash_known_hosts,
        timeout,
        hash: fingerprint_hash_type.as_deref(),
    };
    Ok(none_if_empty(scan.run(ctx)?))
}

/// Returns ``add``, ``update`` or ``exists``: the effect that setting the key of a host would have.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.check_known_host <user> <hostname> key='AAAA...FAaQ=='
#[function]
fn check_known_host(
    ctx: &Context,
    user: Option<String>,
    hostname: Option<String>,
    key: Option<String>,
    fingerprint: Option<String>,
    config: Option<String>,
    port: Option<i64>,
    fingerprint_hash_type: Option<String>,
) -> Result<Value> {
    let Some(hostname) = hostname.filter(|name| !name.is_empty()) else {
        return Ok(refused("hostname argument required").into());
    };
    let path = match file_of(ctx, user_of(&user), config.as_deref())? {
        Ok(path) => path,
        Err(refused) => return Ok(refused.into()),
    };
    let place = Place { path, host: named(&hostname, port) };
    let known = place.entries(ctx, fingerprint_hash_type.as_deref())?;
    let has = |name: &str, wanted: &String| fields(&known, name, None).contains(&wanted.as_str().into());
    let fine = match (&key, &fingerprint) {
        _ if known.is_empty() => return Ok("add".into()),
        (Some(key), _) => has("key", key),
        (None, Some(fingerprint)) => has("fingerprint", fingerprint),
        // Any key will do if none was named.
        (None, None) => true,
    };
    Ok(if fine { "exists" } else { "update" }.into())
}

/// Removes the keys of a host.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.rm_known_host <user> <hostname>
#[function]
fn rm_known_host(
    ctx: &Context,
    user: Option<String>,
    hostname: Option<String>,
    config: Option<String>,
    port: Option<i64>,
) -> Result<Map> {
    let Some(hostname) = hostname.filter(|name| !name.is_empty()) else {
        return Ok(refused("hostname argument required"));
    };
    let text = match edited(ctx, user_of(&user), config.as_deref(), &["-R", &named(&hostname, port)])? {
        Ok(text) => text,
        Err(refused) => return Ok(refused),
    };
    Ok(map! { "status" => "removed", "comment" => text })
}

/// Makes `ssh-keygen` change the file; its owner is kept.
fn edited(
    ctx: &Context,
    user: Option<&str>,
    config: Option<&str>,
    action: &[&str],
) -> Result<std::result::Result<String, Map>> {
    let path = match file_of(ctx, user, config)? {
        Ok(path) if path.is_file() => path,
        Ok(path) => return Ok(Err(refused(format!("Known hosts file {} does not exist", path.display())))),
        Err(refused) => return Ok(Err(refused)),
    };
    let name = path.to_string_lossy();
    let words = [&["ssh-keygen"], action, &["-f", &name]].concat();
    let said = subprocess::quiet(ctx, &words)?;
    let content = std::fs::read(&path).map_err(|error| exec::Error::io("read", &path, &error))?;
    if let Some(owner) = owner(ctx, user)? {
        // The program writes a new file, which is root's.
        std::fs::remove_file(&path).map_err(|error| exec::Error::io("replace", &path, &error))?;
        store(&path, &content, Some(&owner))?;
    }
    Ok(Ok(format!("{}{}", said.stdout, said.stderr).trim().to_owned()))
}

/// Hashes the names in a file of hosts.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.hash_known_hosts
#[function]
fn hash_known_hosts(ctx: &Context, user: Option<String>, config: Option<String>) -> Result<Map> {
    util::needs(ctx, "ssh-keygen")?;
    Ok(match edited(ctx, user_of(&user), config.as_deref(), &["-H"])? {
        Ok(text) => map! { "status" => "updated", "comment" => text },
        Err(refused) => refused,
    })
}

/// Adds the key of a host to the known ones: the given one, or those of the host's answer. Returns a map with
/// ``status`` (``exists``, ``updated`` or ``error``) and the keys before and after.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.set_known_host <user> fingerprint='xx:xx:..:xx' enc='ssh-rsa' config='.ssh/known_hosts'
#[function]
fn set_known_host(
    ctx: &Context,
    user: Option<String>,
    hostname: Option<String>,
    fingerprint: Option<String>,
    key: Option<String>,
    port: Option<i64>,
    enc: Option<String>,
    config: Option<String>,
    #[default(true)] hash_known_hosts: bool,
    #[default(5)] timeout: i64,
    fingerprint_hash_type: Option<String>,
) -> Result<Map> {
    let Some(hostname) = hostname.filter(|name| !name.is_empty()) else {
        return Ok(refused("hostname argument required"));
    };
    // The hash covers the bare name, so the port would be lost.
    if hash_known_hosts && port.is_some_and(|port| port != 22) {
        return Ok(refused("argument port can not be used in conjunction with argument hash_known_hosts"));
    }
    let user = user_of(&user);
    let path = match file_of(ctx, user, config.as_deref())? {
        Ok(path) => path,
        Err(refused) => return Ok(refused),
    };
    let hash = fingerprint_hash_type.as_deref();
    let place = Place { path, host: named(&hostname, port) };
    let stored = place.entries(ctx, hash)?;
    let stored_keys = fields(&stored, "key", enc.as_deref());
    let exists = || map! { "status" => "exists", "keys" => stored_keys.clone() };
    let missing = |list: &[Value], wanted: &Option<String>| {
        wanted.as_ref().is_some_and(|wanted| !list.contains(&wanted.as_str().into()))
    };
    let update = stored.is_empty()
        || missing(&fields(&stored, "fingerprint", None), &fingerprint)
        || missing(&stored_keys, &key);
    if !update && (key.is_some() || fingerprint.is_some()) {
        return Ok(exists());
    }
    let remote = match &key {
        Some(key) => vec![map! { "hostname" => hostname.as_str(), "enc" => enc.clone(), "key" => key.as_str() }],
        None => {
            let scan = Scan { hostname: &hostname, enc: enc.as_deref(), port, hashed: hash_known_hosts, timeout, hash };
            let remote = scan.run(ctx)?;
            if remote.is_empty() {
                return Ok(refused("Unable to receive remote host keys"));
            }
            // The fingerprint in the state is what protects against a stranger on the line.
            if missing(&fields(&remote, "fingerprint", None), &fingerprint) {
                let text =
                    "Remote host public keys found but none of their fingerprints match the one you have provided";
                return Ok(refused(text));
            }
            let known = fields(&remote, "key", None);
            let same =
                known.iter().all(|key| stored_keys.contains(key)) && stored_keys.iter().all(|key| known.contains(key));
            if !update && same {
                return Ok(exists());
            }
            remote
        }
    };
    let owner = owner(ctx, user)?;
    let text = with_hosts(ctx, &place, enc.as_deref(), &remote, port.filter(|_| !hash_known_hosts))?;
    make_folder(&place.path, owner.as_ref())?;
    store(&place.path, text.as_bytes(), owner.as_ref())?;
    if key.is_some() && hash_known_hosts {
        let path = place.path.to_string_lossy().into_owned();
        // A key from the state is written in clear first. The scan would have hashed it itself.
        edited(ctx, user, Some(&path), &["-H"])?.ok();
    }
    Ok(map! { "status" => "updated", "old" => none_if_empty(stored), "new" => remote })
}

/// Returns the file without the old keys of the host, and with the new ones.
fn with_hosts(ctx: &Context, place: &Place, enc: Option<&str>, remote: &[Map], port: Option<i64>) -> Result<String> {
    let mut lines: Vec<String> = Vec::new();
    if place.path.is_file() {
        let path = place.path.to_string_lossy();
        let said = subprocess::quiet(ctx, &["ssh-keygen", "-F", &place.host, "-f", &path])?;
        let gone = matched_lines(&said.stdout, enc);
        let text = std::fs::read(&place.path).map_err(|error| exec::Error::io("read", &place.path, &error))?;
        let text = String::from_utf8_lossy(&text);
        let kept = text.lines().enumerate().filter(|(place, _)| !gone.contains(&(place + 1)));
        lines.extend(kept.map(|(_, line)| line.to_owned()));
    }
    for entry in remote {
        let field = |name: &str| entry.get(name).map(Value::to_string).unwrap_or_default();
        let host = field("hostname");
        let host = if host.contains(':') { host } else { named(&host, port) };
        lines.push(format!("{host} {} {}", field("enc"), field("key")));
    }
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

/// Reads pairs of lines such as "# Host x found: line 3" and the line itself.
fn matched_lines(text: &str, enc: Option<&str>) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let number = |pair: &[&str]| {
        let number = pair[0].split_whitespace().last()?.parse().ok()?;
        let kind = pair.get(1)?.split_whitespace().rev().nth(1)?;
        enc.is_none_or(|enc| enc == kind).then_some(number)
    };
    // ssh-keygen prints a remark with the line number and then the line.
    lines.chunks(2).filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_ports_are_in_brackets() {
        assert_eq!(named("h", Some(22)), "h");
        assert_eq!(named("h", None), "h");
        assert_eq!(named("h", Some(2222)), "[h]:2222");
    }

    #[test]
    fn lines_to_be_replaced_are_found() {
        let text = "# Host h found: line 3\nh ssh-rsa AAAA\n# Host h found: line 5\nh ssh-ed25519 BBBB\n";
        assert_eq!(matched_lines(text, None), [3, 5]);
        assert_eq!(matched_lines(text, Some("ssh-rsa")), [3]);
        assert!(matched_lines("", None).is_empty());
    }
}
