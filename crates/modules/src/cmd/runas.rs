//! The user that a command runs as: the user's ids and the environment a login would give.

use std::collections::BTreeMap;
use std::time::Duration;

use exec::{Context, Error, Result};
use nix::unistd::{Group, Uid, User, getegid, geteuid, getgrouplist};

use crate::subprocess::process::{Ended, Identity, Launch, run};

/// The time limit for the login that prints its environment.
const LOGIN_LIMIT: Duration = Duration::from_secs(10);

/// Looks up a user.
///
/// # Errors
/// In Salt's words, when there is none.
pub fn user(name: &str) -> Result<User> {
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err(Error::execution(format!("User '{name}' is not available"))),
        Err(error) => Err(Error::execution(format!("failed to look up user '{name}': {error}"))),
    }
}

/// Returns the home directory that `~` means: the named user's, or our own.
pub fn home(name: Option<&str>) -> Option<String> {
    let from_database = |user: User| user.dir.to_string_lossy().into_owned();
    match name {
        Some(name) => User::from_name(name).ok().flatten().map(from_database),
        // Python's `expanduser("~")` asks the variable first and the user database only then.
        None => std::env::var("HOME")
            .ok()
            .filter(|home| !home.is_empty())
            .or_else(|| User::from_uid(geteuid()).ok().flatten().map(from_database)),
    }
}

/// Returns what must change for a process to run as the user and in the group, if anything.
pub fn identity(runas: Option<&str>, group: Option<&str>) -> Result<Option<Identity>> {
    if runas.is_none() && group.is_none() {
        return Ok(None);
    }
    let user = match runas {
        Some(name) => user(name)?,
        None => current_user()?,
    };
    let gid = match group {
        Some(name) => self::group(name)?.gid,
        None => user.gid,
    };
    // An unprivileged minion may run commands as itself, but has no right to call setgroups.
    if user.uid == geteuid() && gid == getegid() {
        return Ok(None);
    }
    let name = std::ffi::CString::new(user.name.clone())
        .map_err(|_| Error::invocation(format!("user name {:?} holds a zero byte", user.name)))?;
    let groups = getgrouplist(&name, gid)
        .map_err(|error| Error::execution(format!("failed to list the groups of user '{}': {error}", user.name)))?;
    Ok(Some(Identity { uid: user.uid, gid, groups }))
}

fn group(name: &str) -> Result<Group> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group),
        Ok(None) => Err(Error::execution(format!("Group '{name}' is not available"))),
        Err(error) => Err(Error::execution(format!("failed to look up group '{name}': {error}"))),
    }
}

fn current_user() -> Result<User> {
    let uid: Uid = geteuid();
    let found = User::from_uid(uid).ok().flatten();
    found.ok_or_else(|| Error::execution(format!("failed to find the user with id {uid}")))
}

/// Returns the environment of a login shell of the user. A marker separates it from what profile scripts print. When
/// the login fails, only USER and HOME are set.
pub fn login_environment(ctx: &Context, name: &str, shell: Option<&str>) -> Result<BTreeMap<String, String>> {
    let user = user(name)?;
    let mut env = match told_by_login(ctx, name, shell)? {
        Some(env) => env,
        None => {
            tracing::error!("Environment could not be retrieved for user '{name}'");
            BTreeMap::new()
        }
    };
    // Some systems leave `USER` out or keep the old `HOME` in a login; Salt sets both by hand.
    env.insert("USER".into(), name.to_owned());
    env.insert("HOME".into(), user.dir.to_string_lossy().into_owned());
    Ok(env)
}

fn told_by_login(ctx: &Context, name: &str, shell: Option<&str>) -> Result<Option<BTreeMap<String, String>>> {
    if !geteuid().is_root() {
        // `su` would prompt for a password without a terminal to type it.
        return Ok(None);
    }
    // Random, so that no profile script can print it by accident or on purpose.
    let marker = format!("<<<{:032x}>>>", rand::random::<u128>());
    let mut words = vec!["su".to_owned()];
    words.extend(shell.into_iter().flat_map(|shell| ["-s".to_owned(), shell.to_owned()]));
    // `env -0` because values may hold line breaks. Salt runs Python for this, which a machine need not have here.
    let script = format!("printf %s '{marker}'; env -0; printf %s '{marker}'");
    words.extend(["-".to_owned(), name.to_owned(), "-c".to_owned(), script]);
    let launch = Launch { words, cwd: "/".into(), env: std::env::vars().collect(), ..Launch::default() };
    match run(ctx, &launch, Some(LOGIN_LIMIT)) {
        Ok(Ended::Exited { out, .. }) => Ok(parse(&String::from_utf8_lossy(&out), &marker)),
        Ok(Ended::TimedOut { .. }) => Ok(None),
        Err(error) => {
            tracing::debug!("failed to run su for the environment of '{name}': {error}");
            Ok(None)
        }
    }
}

fn parse(out: &str, marker: &str) -> Option<BTreeMap<String, String>> {
    let text = out.split(marker).nth(1)?;
    let pairs = text.split('\0').filter_map(|entry| entry.split_once('='));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_of_profiles_is_left_out_of_the_environment() {
        let env = parse("Welcome!\nA=x\nMARKHOME=/h\0B=1=2\nmore\0MARK bye", "MARK").unwrap();
        assert_eq!(
            env.into_iter().collect::<Vec<_>>(),
            [("B".into(), "1=2\nmore".into()), ("HOME".to_owned(), "/h".to_owned())]
        );
        assert_eq!(parse("refused", "MARK"), None);
    }

    #[test]
    fn nothing_changes_for_the_user_we_are() {
        assert!(identity(None, None).unwrap().is_none());
        assert_eq!(
            identity(Some("no-such-user"), None).unwrap_err().to_string(),
            "User 'no-such-user' is not available"
        );
    }
}
