//! `shadow` — passwords and their ages.

pub(crate) mod hash;

use std::path::{Path, PathBuf};

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::{accounts, subprocess, util};
use hash::GEN_PASSWORD;

/// The module.
pub static MODULE: Module = Module::new(
    "shadow",
    "Functions that look at passwords and their ages, and change them.",
    &[
        &DEFAULT_HASH,
        &DEL_PASSWORD,
        &GEN_PASSWORD,
        &INFO,
        &LIST_USERS,
        &LOCK_PASSWORD,
        &SET_DATE,
        &SET_EXPIRE,
        &SET_INACTDAYS,
        &SET_MAXDAYS,
        &SET_MINDAYS,
        &SET_PASSWORD,
        &SET_WARNDAYS,
        &UNLOCK_PASSWORD,
    ],
);

/// The numbers of a line of shadow(5), in order.
const NUMBERS: [&str; 6] = ["lstchg", "min", "max", "warn", "inact", "expire"];

fn path(root: Option<&str>) -> PathBuf {
    Path::new(root.unwrap_or("/")).join("etc/shadow")
}

fn entry_map(line: &str) -> Map {
    let fields: Vec<&str> = line.trim().split(':').collect();
    let mut shown = map! { "name" => fields[0], "passwd" => fields.get(1).copied().unwrap_or_default() };
    for (place, key) in NUMBERS.into_iter().enumerate() {
        let number = fields.get(place + 2).filter(|text| !text.is_empty());
        // -1 means an empty field, as in Python's `spwd`.
        shown.insert(key, number.map_or(-1, |text| text.parse().unwrap_or(-1)));
    }
    shown
}

fn nothing() -> Map {
    ["name", "passwd"].into_iter().chain(NUMBERS).map(|key| (key, "")).collect()
}

/// The entry of a user; empty texts if there is none or we may not look.
fn entry(name: &str, root: Option<&str>) -> Map {
    // Only root may read the file. Without the right the answer looks like that for an unknown
    // user, as in Salt.
    let text = std::fs::read_to_string(path(root)).unwrap_or_default();
    let own = text.lines().find(|line| line.split(':').next() == Some(name));
    own.map_or_else(nothing, entry_map)
}

/// Returns the entry of a user.
fn look(ctx: &Context, name: &str, root: Option<&str>) -> Result<Map> {
    let (name, root) = (name.to_owned(), root.map(str::to_owned));
    Ok(ctx.blocking(move || entry(&name, root.as_deref())))
}

/// Returns the hash that matches no password: `!`.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.default_hash
#[function]
fn default_hash() -> Result<String> {
    Ok("!".into())
}

/// Removes the password, so that none is required.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.del_password username
#[function]
fn del_password(ctx: &Context, name: String, root: Option<String>) -> Result<bool> {
    accounts::attempt(ctx, "passwd", &["-d", &name], root.as_deref())?;
    // The program's exit code is ignored. What counts is the file.
    let after = look(ctx, &name, root.as_deref())?;
    Ok(after.get_str("passwd") == Some("") && after.get_str("name") == Some(&name))
}

/// Returns the password hash of a user and its ages in days; empty texts if there is no such user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.info root
#[function]
fn info(ctx: &Context, name: String, root: Option<String>) -> Result<Map> {
    look(ctx, &name, root.as_deref())
}

/// Returns the names of all users with an entry.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.list_users
#[function]
fn list_users(ctx: &Context, root: Option<String>) -> Result<Value> {
    let path = path(root.as_deref());
    let text =
        ctx.blocking(move || std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, &error)))?;
    let mut names: Vec<&str> =
        text.lines().filter_map(|line| line.split(':').next()).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    Ok(Value::from(names))
}

/// Locks a password, so that it is not accepted any more.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.lock_password username
#[function]
fn lock_password(ctx: &Context, name: String, root: Option<String>) -> Result<bool> {
    set_lock(ctx, &name, true, root.as_deref())
}

/// Unlocks a password.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.unlock_password username
#[function]
fn unlock_password(ctx: &Context, name: String, root: Option<String>) -> Result<bool> {
    set_lock(ctx, &name, false, root.as_deref())
}

fn set_lock(ctx: &Context, name: &str, locked: bool, root: Option<&str>) -> Result<bool> {
    let is_locked = |entry: &Map| entry.get_str("passwd").is_some_and(|hash| hash.starts_with('!'));
    let before = look(ctx, name, root)?;
    // No such user.
    if before.get_str("name") == Some("") {
        return Ok(false);
    }
    if is_locked(&before) == locked {
        return Ok(true);
    }
    accounts::attempt(ctx, "passwd", &[if locked { "-l" } else { "-u" }, name], root)?;
    Ok(is_locked(&look(ctx, name, root)?) == locked)
}

/// Changes one of the ages and returns whether it took effect.
fn set_age(ctx: &Context, name: &str, key: &str, value: &Value, flag: &str, root: Option<&str>) -> Result<bool> {
    let before = look(ctx, name, root)?;
    if before.get_str("name") == Some("") {
        return Ok(false);
    }
    if before.get(key) == Some(value) {
        return Ok(true);
    }
    let done = accounts::change(ctx, "chage", &[flag, &value.to_string(), name], root)?;
    let after = look(ctx, name, root)?;
    // Dates are given as text and kept as a number of days.
    Ok(done && (after.get(key) == Some(value) || value.as_i64().is_none()))
}

/// Sets the day of the last change of the password: days since 1970, or YYYY-MM-DD.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.set_date username 0
#[function]
fn set_date(ctx: &Context, name: String, date: Value, root: Option<String>) -> Result<bool> {
    set_age(ctx, &name, "lstchg", &date, "-d", root.as_deref())
}

/// Sets the day on which the account expires: days since 1970, or YYYY-MM-DD; -1 for never.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.set_expire username -1
#[function]
fn set_expire(ctx: &Context, name: String, expire: Value, root: Option<String>) -> Result<bool> {
    set_age(ctx, &name, "expire", &expire, "-E", root.as_deref())
}

/// Sets the number of days after the expiry of the password until the account is locked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.set_inactdays username 7
#[function]
fn set_inactdays(ctx: &Context, name: String, inactdays: Value, root: Option<String>) -> Result<bool> {
    set_age(ctx, &name, "inact", &inactdays, "-I", root.as_deref())
}

/// Sets the number of days after which the password must be changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.set_maxdays username 90
#[function]
fn set_maxdays(ctx: &Context, name: String, maxdays: Value, root: Option<String>) -> Result<bool> {
    set_age(ctx, &name, "max", &maxdays, "-M", root.as_deref())
}

/// Sets the number of days during which the password may not be changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.set_mindays username 7
#[function]
fn set_mindays(ctx: &Context, name: String, mindays: Value, root: Option<String>) -> Result<bool> {
    set_age(ctx, &name, "min", &mindays, "-m", root.as_deref())
}

/// Sets the password hash of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.set_password root '$1$UYCIxa628.9qXjpQCjM4a..'
#[function]
fn set_password(
    ctx: &Context,
    name: String,
    password: String,
    #[default(false)] use_usermod: bool,
    root: Option<String>,
) -> Result<Value> {
    // The file is always changed here and no program called, since a program's arguments can be read by everyone.
    let _ = use_usermod;
    if subprocess::quiet(ctx, &["id", &name])?.retcode != Some(0) {
        tracing::warn!("user {name} does not exist, cannot set password");
        return Ok(Value::Bool(false));
    }
    // Either of them would end the field or the line, and could add an account without a password.
    if password.contains([':', '\n']) {
        return Err(Error::invocation("a password hash holds no colon and no line end"));
    }
    ctx.blocking(move || {
        let path = path(root.as_deref());
        if !path.is_file() {
            return Ok(Value::Map(Map::new()));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, &error))?;
        store(&path, &with_password(&text, &name, &password, today()))?;
        Ok(Value::Bool(entry(&name, root.as_deref()).get_str("passwd") == Some(&password)))
    })
}

fn today() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_secs() / 86_400
}

/// Replaces the file in one step, with its owner and permissions.
fn store(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let failed = |error: std::io::Error| Error::io("write", path, &error);
    let meta = std::fs::metadata(path).map_err(failed)?;
    util::replace_file(path, text.as_bytes(), meta.mode() & 0o7777).map_err(failed)?;
    std::os::unix::fs::chown(path, Some(meta.uid()), Some(meta.gid())).map_err(failed)
}

fn with_password(text: &str, name: &str, hash: &str, today: u64) -> String {
    let mut found = false;
    let mut out = String::new();
    for line in text.lines() {
        let mut fields: Vec<&str> = line.trim().split(':').take(9).collect();
        if fields[0] != name {
            out.push_str(&format!("{line}\n"));
            continue;
        }
        found = true;
        fields.resize(9, "");
        let changed = today.to_string();
        // The day of the change goes with the password, as passwd does it.
        (fields[1], fields[2]) = (hash, &changed);
        out.push_str(&format!("{}\n", fields.join(":")));
    }
    if !found {
        tracing::warn!("shadow entry not present for user {name}, adding");
        out.push_str(&format!("{name}:{hash}:{today}::::::\n"));
    }
    out
}

/// Sets the number of days before the password expires from which the user is warned.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.set_warndays username 7
#[function]
fn set_warndays(ctx: &Context, name: String, warndays: Value, root: Option<String>) -> Result<bool> {
    set_age(ctx, &name, "warn", &warndays, "-W", root.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_numbers_or_minus_one() {
        let expected = map! {
            "name" => "root", "passwd" => "*", "lstchg" => 20228, "min" => 0, "max" => 99999, "warn" => 7,
            "inact" => -1, "expire" => -1,
        };
        assert_eq!(entry_map("root:*:20228:0:99999:7:::\n"), expected);
        assert_eq!(entry("no-such-user", Some("/no/such/root")).get_str("name"), Some(""));
    }

    #[test]
    fn a_password_is_set_in_its_line() {
        let text = "root:*:1:0:99999:7:::\nweb:!:2\n";
        let changed = with_password(text, "web", "$6$x", 20000);
        assert_eq!(changed, "root:*:1:0:99999:7:::\nweb:$6$x:20000::::::\n");
        assert!(with_password(text, "new", "h", 1).ends_with("\nnew:h:1::::::\n"));
    }
}
