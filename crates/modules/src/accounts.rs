//! The databases of users and groups, read alike by `user`, `group` and `shadow`.

use std::ffi::CString;
use std::path::Path;

use exec::{Context, Error, Result};
use nix::unistd::{Gid, Group, User, getgrouplist};

use crate::{subprocess, util};

/// A line of passwd(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// Password field, `x` where it is in shadow(5).
    pub passwd: String,
    /// Numeric user id.
    pub uid: u32,
    /// Numeric id of the primary group.
    pub gid: u32,
    /// Full name, room and telephone numbers.
    pub gecos: String,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

impl Account {
    fn parse(line: &str) -> Option<Self> {
        // Lines of another shape are skipped, not an error: NIS leaves entries such as `+::::::` in the file.
        let [name, passwd, uid, gid, gecos, home, shell] = line.trim_end().split(':').collect::<Vec<_>>()[..] else {
            return None;
        };
        let text = str::to_owned;
        Some(Account {
            name: text(name),
            passwd: text(passwd),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            gecos: text(gecos),
            home: text(home),
            shell: text(shell),
        })
    }

    fn of(user: &User) -> Self {
        let text = |field: &CString| field.to_string_lossy().into_owned();
        Account {
            name: user.name.clone(),
            passwd: text(&user.passwd),
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            gecos: text(&user.gecos),
            home: user.dir.to_string_lossy().into_owned(),
            shell: user.shell.to_string_lossy().into_owned(),
        }
    }
}

/// A line of group(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    /// Name of the group.
    pub name: String,
    /// Password field.
    pub passwd: String,
    /// Numeric group id.
    pub gid: u32,
    /// Login names of the users who have it as a supplementary group.
    pub members: Vec<String>,
}

impl Team {
    fn parse(line: &str) -> Option<Self> {
        // A group without members ends with a colon, so an empty name would be read where there is none.
        let [name, passwd, gid, members] = line.trim_end().split(':').collect::<Vec<_>>()[..] else { return None };
        let members = members.split(',').filter(|member| !member.is_empty()).map(str::to_owned).collect();
        Some(Team { name: name.to_owned(), passwd: passwd.to_owned(), gid: gid.parse().ok()?, members })
    }
}

/// Returns the text of a user database: the file itself below another root, otherwise what `getent` prints.
fn database(ctx: &Context, name: &str, root: Option<&str>) -> Result<String> {
    let path = Path::new(root.unwrap_or("/")).join("etc").join(name);
    // The files hold local accounts only; `getent` also lists those of LDAP, SSSD and the other services in
    // nsswitch.conf(5).
    if root.is_none() && util::which("getent").is_some() {
        return Ok(subprocess::quiet(ctx, &["getent", name])?.stdout);
    }
    ctx.blocking(move || std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, &error)))
}

/// Returns all users.
pub fn accounts(ctx: &Context, root: Option<&str>) -> Result<Vec<Account>> {
    Ok(database(ctx, "passwd", root)?.lines().filter_map(Account::parse).collect())
}

/// Returns a user.
pub fn account(ctx: &Context, name: &str, root: Option<&str>) -> Result<Option<Account>> {
    // The C library only answers for the running system; an image below another root can be read from its files alone.
    if root.is_some() {
        return Ok(accounts(ctx, root)?.into_iter().find(|account| account.name == name));
    }
    let name = name.to_owned();
    Ok(ctx.blocking(move || User::from_name(&name).ok().flatten().as_ref().map(Account::of)))
}

/// Returns all groups.
pub fn teams(ctx: &Context, root: Option<&str>) -> Result<Vec<Team>> {
    Ok(database(ctx, "group", root)?.lines().filter_map(Team::parse).collect())
}

/// Returns a group.
pub fn team(ctx: &Context, name: &str, root: Option<&str>) -> Result<Option<Team>> {
    if root.is_some() {
        return Ok(teams(ctx, root)?.into_iter().find(|team| team.name == name));
    }
    let name = name.to_owned();
    let found = ctx.blocking(move || Group::from_name(&name).ok().flatten());
    Ok(found.map(|group| Team {
        passwd: group.passwd.to_string_lossy().into_owned(),
        name: group.name,
        gid: group.gid.as_raw(),
        members: group.mem,
    }))
}

/// Returns the sorted names of all groups a user is in.
pub fn group_names(name: &str) -> Vec<String> {
    let Some(user) = User::from_name(name).ok().flatten() else { return Vec::new() };
    // `getgrouplist` takes a C string, so no user can have a name with a zero byte.
    let Ok(login) = CString::new(name) else { return Vec::new() };
    let gids: Vec<Gid> = getgrouplist(&login, user.gid).unwrap_or_else(|_| vec![user.gid]);
    let mut names: Vec<String> =
        gids.into_iter().filter_map(|gid| Group::from_gid(gid).ok().flatten()).map(|group| group.name).collect();
    // Two gids may share a name, and the primary group is often listed twice.
    names.sort();
    names.dedup();
    names
}

/// Runs a program that changes accounts, below `root` if given. Returns whether it succeeded.
pub fn change(ctx: &Context, program: &str, args: &[&str], root: Option<&str>) -> Result<bool> {
    Ok(attempt(ctx, program, args, root)?.retcode == Some(0))
}

/// Runs a program like [`change`], and returns its exit code and its output.
pub fn attempt(ctx: &Context, program: &str, args: &[&str], root: Option<&str>) -> Result<subprocess::Outcome> {
    if util::which(program).is_none() {
        return Err(Error::execution(format!("Command '{program}' cannot be found")));
    }
    let mut words = vec![program];
    // `-R` comes first: the shadow tools read it before any other option and call chroot(2) at once.
    words.extend(root.into_iter().flat_map(|root| ["-R", root]));
    words.extend(args);
    subprocess::counted(ctx, &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_gets_the_return_code_of_a_change_that_failed() {
        let (ctx, _) = exec::testing::context(&[], value::map! {}, value::map! {}, value::map! {});
        assert!(!change(&ctx, "false", &[], None).unwrap());
        assert_eq!(ctx.job.retcode(), 1);
        assert!(change(&ctx, "true", &[], None).unwrap());
        assert_eq!(ctx.job.retcode(), 0);
    }

    #[test]
    fn database_lines_are_read() {
        let account = Account::parse("web:x:1000:100:Web,1,,,x:/srv:/bin/sh\n").unwrap();
        assert_eq!((account.uid, account.gid, account.gecos.as_str()), (1000, 100, "Web,1,,,x"));
        // A line for NIS, which is not an account.
        assert_eq!(Account::parse("+::::::"), None);
        assert_eq!(Account::parse("broken"), None);
        let team = Team::parse("adm:x:4:web,db").unwrap();
        assert_eq!(team.members, ["web", "db"]);
        assert!(Team::parse("adm:x:4:").unwrap().members.is_empty());
    }

    #[test]
    fn root_is_in_its_group() {
        assert!(group_names("root").contains(&"root".to_owned()));
        assert!(group_names("no-such-user-here").is_empty());
    }
}
