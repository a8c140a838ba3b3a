//! Owners and permissions.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown as raw_lchown};
use std::path::Path;

use exec::{Context, Error, Result, function};
use nix::unistd::{Group, User, chown as raw_chown, geteuid};
use value::{Map, Value, map};

use super::facts::{self, group_name, mode_text, user_name};
use super::os_error;
use super::paths::expand_user;

/// Returns the id of a user, given as a name or a number. None is this process's user.
pub fn uid_of(user: &Value) -> Option<u32> {
    match user {
        // Salt takes the minion's own user when none is named.
        Value::Null => Some(geteuid().as_raw()),
        Value::Str(name) => User::from_name(name).ok().flatten().map(|user| user.uid.as_raw()),
        other => other.as_i64().and_then(|number| u32::try_from(number).ok()),
    }
}

/// Returns the id of a group, given as a name or a number.
pub fn gid_of(group: &Value) -> Option<u32> {
    match group {
        Value::Str(name) => Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw()),
        other => other.as_i64().and_then(|number| u32::try_from(number).ok()),
    }
}

/// Reads permissions such as 644, "0644" or "0o644".
pub fn mode_of(mode: &Value) -> Option<u32> {
    let text = mode.to_string();
    // Both `0644` and `0o644` are cut to their digits, as Salt's `lstrip("0Oo")` does.
    let digits = text.trim_matches(['"', '\'']).trim_start_matches(['0', 'O', 'o']);
    u32::from_str_radix(if digits.is_empty() { "0" } else { digits }, 8).ok().filter(|mode| *mode <= 0o7777)
}

/// The new owner and group of a file; `None` keeps the present one.
#[derive(Clone, Debug, Default)]
pub struct Owner {
    uid: Option<u32>,
    gid: Option<u32>,
    wrong: String,
}

impl Owner {
    /// Looks up user and group; unknown names are remembered.
    pub fn of(user: &Value, group: &Value) -> Self {
        let mut owner = Owner { uid: uid_of(user), gid: gid_of(group), wrong: String::new() };
        // An empty name means "leave it", not "a user that does not exist".
        if owner.uid.is_none() && user.truthy() {
            owner.wrong.push_str("User does not exist\n");
        }
        if owner.gid.is_none() && group.truthy() {
            owner.wrong.push_str("Group does not exist\n");
        }
        owner
    }

    /// Changes the owner of a path. Returns None, or Salt's error message.
    pub fn give(&self, path: &str, follow: bool) -> Result<Value> {
        let (uid, gid) = (self.uid, self.gid);
        // A dangling link can still get its own owner.
        if follow && !Path::new(path).exists() {
            if self.wrong.is_empty() && raw_lchown(path, uid, gid).is_ok() {
                return Ok(Value::Null);
            }
            return Ok(Value::from(format!("{}File not found", self.wrong)));
        }
        if !self.wrong.is_empty() {
            // Salt returns mistakes as text and raises nothing.
            return Ok(Value::from(self.wrong.as_str()));
        }
        let done = if follow {
            raw_chown(path, uid.map(Into::into), gid.map(Into::into)).map_err(std::io::Error::from)
        } else {
            raw_lchown(path, uid, gid)
        };
        done.map(|()| Value::Null).map_err(|error| os_error(&error, path))
    }
}

/// Sets owner and permissions of a path. A link gets only an owner.
pub fn apply(path: &str, user: &Value, group: &Value, mode: Option<u32>) -> Result<()> {
    let meta = fs::symlink_metadata(path).map_err(|error| os_error(&error, path))?;
    let is_link = meta.file_type().is_symlink();
    let owner = Owner { uid: uid_of(user).filter(|_| user.truthy()), gid: gid_of(group), ..Owner::of(user, group) };
    if owner.uid.is_some() || owner.gid.is_some() || !owner.wrong.is_empty() {
        let wrong = owner.give(path, false)?;
        if let Some(reason) = wrong.as_str() {
            return Err(Error::execution(format!("failed to set the owner of {path}: {}", reason.trim())));
        }
    }
    match mode {
        // Linux has no mode of a link: chmod would change the file behind it.
        Some(mode) if !is_link => {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| os_error(&error, path))
        }
        _ => Ok(()),
    }
}

/// Changes the group of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.chgrp /etc/passwd root
#[function]
pub fn chgrp(ctx: &Context, path: String, group: Value) -> Result<Value> {
    ctx.blocking(move || {
        let path = expand_user(&path);
        // The owner is given back to itself, since Salt's chgrp is a chown with the present user.
        let user = facts::of(&path, None, true)?.remove("uid").unwrap_or_default();
        Owner::of(&user, &group).give(&path, true)
    })
}

/// Changes the owner and group of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.chown /etc/passwd root root
#[function]
pub fn chown(ctx: &Context, path: String, user: Value, group: Value) -> Result<Value> {
    ctx.blocking(move || Owner::of(&user, &group).give(&expand_user(&path), true))
}

/// Returns the name of a group; text that is not a group id is returned unchanged.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.gid_to_group 0
#[function]
pub fn gid_to_group(gid: Value) -> Result<Value> {
    let number = match &gid {
        // The command line may hand a number over as text.
        Value::Str(text) => text.parse().ok().or_else(|| gid_of(&gid)),
        other => gid_of(other),
    };
    Ok(number.map_or(Value::from(""), group_name))
}

/// Returns the number of a group, or nothing if there is no such group.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.group_to_gid root
#[function]
pub fn group_to_gid(group: Value) -> Result<Value> {
    Ok(gid_of(&group).map_or(Value::from(""), Value::from))
}

/// Changes the owner and group of a file; of a symbolic link the link itself.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.lchown /etc/alternatives/vi root root
#[function]
pub fn lchown(ctx: &Context, path: String, user: Value, group: Value) -> Result<Value> {
    ctx.blocking(move || Owner::of(&user, &group).give(&expand_user(&path), false))
}

/// Sets the permissions of a file and returns them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.set_mode /etc/passwd 0644
#[function]
pub fn set_mode(ctx: &Context, path: String, mode: Value) -> Result<String> {
    ctx.blocking(move || set_mode_now(&expand_user(&path), &mode))
}

/// Sets the permissions of a path and returns them, or Salt's text for an invalid mode.
pub fn set_mode_now(path: &str, mode: &Value) -> Result<String> {
    use std::os::unix::fs::MetadataExt;
    if !Path::new(path).exists() {
        return Err(Error::execution(format!("{path}: File not found")));
    }
    let wanted = mode_of(mode).map(fs::Permissions::from_mode);
    match wanted.map(|wanted| fs::set_permissions(path, wanted)) {
        Some(Ok(())) => fs::metadata(path).map(|meta| mode_text(meta.mode())).map_err(|error| os_error(&error, path)),
        // Salt returns this text in place of the mode.
        _ => Ok(format!("Invalid Mode {}", mode.to_string().trim_start_matches(['0', 'O', 'o']))),
    }
}

/// Returns the name of a user; a number without a user is returned unchanged.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.uid_to_user 0
#[function]
pub fn uid_to_user(uid: Value) -> Result<Value> {
    let number = uid.as_i64().or_else(|| uid.as_str()?.parse().ok()).and_then(|number| u32::try_from(number).ok());
    // A name that is given is returned as it is.
    Ok(number.map_or(uid, user_name))
}

/// Returns the number of a user, or nothing if there is no such user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.user_to_uid root
#[function]
pub fn user_to_uid(user: Value) -> Result<Value> {
    Ok(uid_of(&user).map_or(Value::from(""), Value::from))
}

/// Builds an empty result in the shape of Salt's `check_perms`.
pub fn report(name: &str) -> Map {
    map! { "name" => name, "changes" => Map::new(), "comment" => "", "result" => false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_in_every_form() {
        for (given, expected) in [
            (Value::from("0644"), Some(0o644)),
            (Value::from("0o1777"), Some(0o1777)),
            // YAML makes a number of 755; its decimal digits are meant as octal ones.
            (Value::Int(755), Some(0o755)),
            (Value::from("0"), Some(0)),
            (Value::from("999"), None),
            (Value::from("77777"), None),
            (Value::from("rwx"), None),
        ] {
            assert_eq!(mode_of(&given), expected, "{given:?}");
        }
    }

    #[test]
    fn users_and_groups_have_numbers() {
        assert_eq!(uid_of(&"root".into()), Some(0));
        assert_eq!(uid_of(&Value::Int(12)), Some(12));
        assert_eq!(gid_of(&"no-such-group-here".into()), None);
        assert_eq!(gid_of(&Value::Null), None);
    }

    #[test]
    fn unknown_names_are_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let owner = Owner::of(&"no-such-user".into(), &"no-such-group".into());
        let path = file.path().to_str().unwrap();
        assert_eq!(owner.give(path, true).unwrap(), "User does not exist\nGroup does not exist\n".into());
        let nobody = Owner::of(&Value::Null, &Value::Null);
        assert_eq!(nobody.give("/no/such/file", true).unwrap(), "File not found".into());
        assert_eq!(nobody.give(path, true).unwrap(), Value::Null);
    }
}
