//! The user of a daemon.

use std::ffi::CString;

use nix::unistd::{User, geteuid, initgroups, setgid, setuid};

use crate::Error;

/// Returns the name of this process's user, or its number.
pub fn current_user() -> String {
    let uid = geteuid();
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// Switches to the user, with all groups, permanently. Does nothing for the current user.
///
/// `HOME`, `SHELL`, `USER` and `LOGNAME` are changed where they are set. Must be called before any thread is started, because
/// the environment belongs to the whole process.
pub fn switch_user(name: &str) -> Result<(), Error> {
    if name.is_empty() || name == current_user() {
        return Ok(());
    }
    let user = find(name)?;
    let fail = |source: nix::Error| Error::Switch { user: name.to_owned(), source };
    let c_name = CString::new(name).map_err(|_| fail(nix::Error::EINVAL))?;
    // Groups before the user: afterwards the process has no right to change them.
    initgroups(&c_name, user.gid).map_err(fail)?;
    setgid(user.gid).map_err(fail)?;
    setuid(user.uid).map_err(fail)?;
    follow_environment(&user);
    Ok(())
}

pub(crate) fn find(name: &str) -> Result<User, Error> {
    User::from_name(name).ok().flatten().ok_or_else(|| Error::NoUser { user: name.to_owned() })
}

#[expect(unsafe_code, reason = "the environment belongs to the whole process; here it has one thread")]
fn follow_environment(user: &User) {
    let values = [
        ("HOME", user.dir.as_os_str()),
        ("SHELL", user.shell.as_os_str()),
        ("USER", user.name.as_ref()),
        ("LOGNAME", user.name.as_ref()),
    ];
    for (name, value) in values {
        if std::env::var_os(name).is_some() {
            // SAFETY: the process has one thread, as the caller of `switch_user` promises.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switching_to_the_current_user_does_nothing() {
        switch_user(&current_user()).unwrap();
        switch_user("").unwrap();
    }

    #[test]
    fn an_unknown_user_is_named() {
        let error = switch_user("no-such-user-here").unwrap_err();
        assert_eq!(error.exit_status(), crate::EXIT_NO_USER);
        assert!(error.to_string().contains("user no-such-user-here. The user is not available."), "{error}");
    }
}
