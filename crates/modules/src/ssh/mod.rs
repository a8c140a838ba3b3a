//! `ssh` — keys of users and hosts.

mod authorized;
pub mod keys;
mod known;

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Mutex;

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value};

use crate::accounts::{self, Account};
use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "ssh",
    "Functions that look at keys of users and hosts, and change them.",
    &[
        &authorized::AUTH_KEYS,
        &authorized::CHECK_KEY,
        &authorized::CHECK_KEY_FILE,
        &known::CHECK_KNOWN_HOST,
        &known::GET_KNOWN_HOST_ENTRIES,
        &known::HASH_KNOWN_HOSTS,
        &HOST_KEYS,
        &keys::KEY_IS_ENCRYPTED,
        &known::RECV_KNOWN_HOST_ENTRIES,
        &authorized::RM_AUTH_KEY,
        &authorized::RM_AUTH_KEY_FROM_FILE,
        &known::RM_KNOWN_HOST,
        &authorized::SET_AUTH_KEY,
        &authorized::SET_AUTH_KEY_FROM_FILE,
        &known::SET_KNOWN_HOST,
        &USER_KEYS,
    ],
)
.only_if(|_| match util::which("ssh") {
    Some(_) => Ok(()),
    None => Err("The module requires the ssh binary.".into()),
});

/// The reason why the keys of a file could not be used, for the calling state.
#[derive(Default)]
pub struct KeyFileError(pub Mutex<Option<String>>);

fn account(ctx: &Context, user: &str) -> Result<Account> {
    let missing = || Error::execution(format!("User '{user}' does not exist"));
    accounts::account(ctx, user, None)?.ok_or_else(missing)
}

/// Writes a file in one step; a new one belongs to the user, an old one keeps owner and mode.
fn store(path: &Path, content: &[u8], owner: Option<&Account>) -> Result<()> {
    let before = std::fs::metadata(path).ok();
    // sshd ignores a file that others may write to.
    let mode = before.as_ref().map_or(0o600, |meta| meta.permissions().mode() & 0o7777);
    util::replace_file(path, content, mode).map_err(|error| Error::io("write", path, &error))?;
    // A file that exists keeps its owner.
    let ids = before.map(|meta| (meta.uid(), meta.gid())).or_else(|| owner.and_then(ids));
    if let Some((uid, gid)) = ids.filter(|_| nix::unistd::geteuid().is_root()) {
        chown(path, Some(uid), Some(gid)).map_err(|error| Error::io("change", path, &error))?;
    }
    Ok(())
}

fn ids(account: &Account) -> Option<(u32, u32)> {
    Some((account.uid, account.gid))
}

/// Makes the directory of a file for a user.
fn make_folder(path: &Path, owner: Option<&Account>) -> Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|error| Error::io("make", folder, &error))?;
    if let Some((uid, gid)) = owner.and_then(ids).filter(|_| nix::unistd::geteuid().is_root()) {
        chown(folder, Some(uid), Some(gid)).map_err(|error| Error::io("change", folder, &error))?;
    }
    if owner.is_some() {
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder, private).map_err(|error| Error::io("change", folder, &error))?;
    }
    Ok(())
}

/// Returns the keys of this host, by kind.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.host_keys
///     salt '*' ssh.host_keys private=False certs=False
#[function]
fn host_keys(
    ctx: &Context,
    keydir: Option<String>,
    #[default(true)] private: bool,
    #[default(true)] certs: bool,
) -> Result<Map> {
    let folder = keydir.unwrap_or_else(|| "/etc/ssh".into());
    ctx.blocking(move || {
        let entries = std::fs::read_dir(&folder).map_err(|error| Error::io("read", &folder, &error))?;
        let mut found: Vec<(String, String)> = Vec::new();
        for entry in entries.flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some((kind, end)) = file.strip_prefix("ssh_host_").and_then(|rest| rest.rsplit_once("_key")) else {
                continue;
            };
            let wanted = match end {
                "-cert.pub" => certs,
                ".pub" => true,
                // Private keys are only returned on request: returns go to the master.
                _ => private,
            };
            if wanted {
                let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                let end = if end.ends_with(".pub") { end } else { "" };
                found.push((format!("{kind}{end}"), text.trim().to_owned()));
            }
        }
        found.sort();
        Ok(found.into_iter().collect())
    })
}

/// Returns the keys in the homes of users, by user and file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.user_keys
///     salt '*' ssh.user_keys user=user1 pubfile=/home/user1/.ssh/id_rsa.pub prvfile=False
#[function]
fn user_keys(
    ctx: &Context,
    #[default(Value::Null)] user: Vec<String>,
    #[default(Value::Null)] pubfile: Value,
    #[default(Value::Null)] prvfile: Value,
) -> Result<Map> {
    let names = match user.is_empty() {
        true => accounts::accounts(ctx, None)?.into_iter().map(|account| account.name).collect(),
        false => user,
    };
    let kinds = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"];
    let files = |given: &Value, end: &str| match given {
        given if given.truthy() => vec![given.to_string()],
        // `prvfile=False` leaves private keys out, while None means the usual names.
        Value::Bool(false) => Vec::new(),
        _ => kinds.iter().map(|kind| format!("{kind}{end}")).collect(),
    };
    let files = [files(&pubfile, ".pub"), files(&prvfile, "")].concat();
    let mut found = Map::new();
    for name in names {
        let Some(account) = accounts::account(ctx, &name, None)? else { continue };
        let path =
            |file: &String| if file.starts_with('/') { file.clone() } else { format!("{}/.ssh/{file}", account.home) };
        let read = |file: &String| {
            let text = std::fs::read_to_string(path(file)).ok()?;
            Some((file.rsplit('/').next().unwrap_or(file).to_owned(), text.trim().to_owned()))
        };
        let keys: Map = files.iter().filter_map(read).collect();
        if !keys.is_empty() {
            found.insert(name, keys);
        }
    }
    Ok(found)
}
