//! `user` — the users of the machine.

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::accounts::{self, Account};
use crate::{subprocess, util};

/// The module.
pub static MODULE: Module = Module::new(
    "user",
    "Functions that look at users and change them.",
    &[
        &ADD,
        &CHFULLNAME,
        &CHGID,
        &CHGROUPS,
        &CHHOME,
        &CHHOMEPHONE,
        &CHLOGINCLASS,
        &CHOTHER,
        &CHROOMNUMBER,
        &CHSHELL,
        &CHUID,
        &CHWORKPHONE,
        &DELETE,
        &GET_LOGINCLASS,
        &GETENT,
        &INFO,
        &LIST_GROUPS,
        &LIST_USERS,
        &PRIMARY_GROUP,
        &RENAME,
    ],
);

/// The parts of the field with the full name, in order.
const GECOS: [&str; 5] = ["fullname", "roomnumber", "workphone", "homephone", "other"];

fn gecos_parts(gecos: &str) -> [String; 5] {
    // The last field takes the rest, commas included.
    let mut parts = gecos.splitn(5, ',').map(str::to_owned);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

fn account_map(account: &Account) -> Map {
    let mut shown = map! {
        "gid" => account.gid,
        "groups" => accounts::group_names(&account.name),
        "home" => account.home.as_str(),
        "name" => account.name.as_str(),
        "passwd" => account.passwd.as_str(),
        "shell" => account.shell.as_str(),
        "uid" => account.uid,
    };
    shown.extend(GECOS.into_iter().zip(gecos_parts(&account.gecos)));
    shown
}

/// Adds a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.add name <uid> <gid> <groups> <home> <shell>
#[function]
fn add(
    ctx: &Context,
    name: String,
    uid: Option<String>,
    gid: Option<String>,
    #[default(Value::Null)] groups: Value,
    home: Option<String>,
    shell: Option<String>,
    #[default(true)] unique: bool,
    #[default(false)] system: bool,
    #[default("")] fullname: Value,
    #[default("")] roomnumber: Value,
    #[default("")] workphone: Value,
    #[default("")] homephone: Value,
    #[default("")] other: Value,
    #[default(true)] createhome: bool,
    loginclass: Option<String>,
    #[default(false)] nologinit: bool,
    root: Option<String>,
    usergroup: Option<bool>,
    #[default(false)] local: bool,
) -> Result<bool> {
    // Login classes are a thing of OpenBSD.
    let _ = loginclass;
    let groups = util::split_input(&groups);
    // useradd fails if it should make a group that exists. That group then becomes the main one.
    let own_group = groups.contains(&name) && usergroup.is_none();
    let gid = match gid.filter(|gid| !gid.is_empty()) {
        None if own_group => accounts::team(ctx, &name, root.as_deref())?.map(|team| team.gid.to_string()),
        gid => gid,
    };
    let new = NewUser { uid, gid, home, shell, unique, system, createhome, nologinit, usergroup, local };
    let args = new.args(&name);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let program = if local { "luseradd" } else { "useradd" };
    // The programs of libuser know no other root.
    let below = root.as_deref().filter(|_| !local);
    if !accounts::change(ctx, program, &args, below)? {
        return Ok(false);
    }
    if !groups.is_empty() {
        set_groups(ctx, &name, &groups, false, root.as_deref())?;
    }
    for (part, value) in GECOS.into_iter().zip([fullname, roomnumber, workphone, homephone, other]) {
        if value.truthy() {
            set_gecos(ctx, &name, part, &value.to_string(), root.as_deref())?;
        }
    }
    Ok(true)
}

/// The arguments for `useradd`.
struct NewUser {
    uid: Option<String>,
    gid: Option<String>,
    home: Option<String>,
    shell: Option<String>,
    unique: bool,
    system: bool,
    createhome: bool,
    nologinit: bool,
    usergroup: Option<bool>,
    local: bool,
}

impl NewUser {
    fn args(&self, name: &str) -> Vec<String> {
        let mut args: Vec<String> = Vec::new();
        let filled = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        for (flag, value) in [("-s", filled(&self.shell)), ("-u", filled(&self.uid)), ("-g", filled(&self.gid))] {
            args.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
        }
        let flags = [
            ("-U", self.usergroup == Some(true) && filled(&self.gid).is_none() && !self.local),
            // luseradd spells the option in another way.
            (if self.local { "-n" } else { "-N" }, self.usergroup == Some(false)),
            // luseradd makes the home by itself.
            ("-m", self.createhome && !self.local),
            ("-M", !self.createhome),
            ("-l", self.nologinit),
            ("-o", !self.unique),
            ("-r", self.system),
        ];
        args.extend(flags.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag.to_owned()));
        args.extend(self.home.iter().flat_map(|home| ["-d".to_owned(), home.clone()]));
        args.push(name.to_owned());
        args
    }
}

/// Changes one field with `usermod` and returns whether it took effect.
fn set_field(ctx: &Context, name: &str, key: &str, value: &Value, flags: &[&str], root: Option<&str>) -> Result<bool> {
    let missing = || Error::execution(format!("User '{name}' does not exist"));
    let before = accounts::account(ctx, name, root)?.ok_or_else(missing)?;
    let same =
        |account: &Account| account_map(account).get(key).is_some_and(|found| found.to_string() == value.to_string());
    if same(&before) {
        return Ok(true);
    }
    let text = value.to_string();
    let mut args = flags.to_vec();
    args.extend([text.as_str(), name]);
    accounts::attempt(ctx, "usermod", &args, root)?;
    // After a rename the account is found under its new name only.
    let name = if key == "name" { text.as_str() } else { name };
    Ok(accounts::account(ctx, name, root)?.as_ref().is_some_and(same))
}

fn set_gecos(ctx: &Context, name: &str, part: &str, value: &str, root: Option<&str>) -> Result<bool> {
    let missing = || Error::Other(format!("getpwnam(): name not found: '{name}'"));
    let account = accounts::account(ctx, name, root)?.ok_or_else(missing)?;
    let mut parts = gecos_parts(&account.gecos);
    let Some(place) = GECOS.iter().position(|known| *known == part) else { return Ok(false) };
    if parts[place] == value {
        return Ok(true);
    }
    parts[place] = value.to_owned();
    let joined = parts.join(",");
    // The empty fields at the end are left out, as users write them.
    accounts::attempt(ctx, "usermod", &["-c", joined.trim_end_matches(','), name], root)?;
    let after = accounts::account(ctx, name, root)?;
    Ok(after.is_some_and(|account| gecos_parts(&account.gecos)[place] == value))
}

/// `None` empties the field.
fn text_of(value: &Value) -> String {
    if value.is_null() { String::new() } else { value.to_string() }
}

fn set_groups(ctx: &Context, name: &str, groups: &[String], append: bool, root: Option<&str>) -> Result<bool> {
    let mut wanted = groups.to_vec();
    wanted.sort();
    wanted.dedup();
    // Also spares a call of usermod on each run of a state.
    if accounts::group_names(name) == wanted {
        return Ok(true);
    }
    let joined = groups.join(",");
    let mut args = if append { vec!["-a"] } else { Vec::new() };
    args.extend(["-G", &joined, name]);
    let outcome = accounts::attempt(ctx, "usermod", &args, root)?;
    if outcome.retcode != Some(0) && outcome.stderr.contains("not found in") {
        // A user of a directory service: the groups can be changed, the user not.
        let mut done = true;
        for group in groups {
            done &= subprocess::quiet(ctx, &["gpasswd", "-a", name, group])?.retcode == Some(0);
        }
        return Ok(done);
    }
    Ok(outcome.retcode == Some(0))
}

/// Changes the full name of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chfullname foo "Foo Bar"
#[function]
fn chfullname(ctx: &Context, name: String, fullname: Value, root: Option<String>) -> Result<bool> {
    set_gecos(ctx, &name, "fullname", &text_of(&fullname), root.as_deref())
}

/// Changes the primary group of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chgid foo 4376
#[function]
fn chgid(ctx: &Context, name: String, gid: Value, root: Option<String>) -> Result<bool> {
    set_field(ctx, &name, "gid", &gid, &["-g"], root.as_deref())
}

/// Changes the groups of a user, or with ``append`` adds some.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chgroups foo wheel,root
///     salt '*' user.chgroups foo wheel,root append=True
#[function]
fn chgroups(
    ctx: &Context,
    name: String,
    groups: Value,
    #[default(false)] append: bool,
    root: Option<String>,
) -> Result<bool> {
    set_groups(ctx, &name, &util::split_input(&groups), append, root.as_deref())
}

/// Changes the home directory of a user; ``persist`` moves its content.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chhome foo /home/users/foo persist=True
#[function]
fn chhome(
    ctx: &Context,
    name: String,
    home: Value,
    #[default(false)] persist: bool,
    root: Option<String>,
) -> Result<bool> {
    let flags: &[&str] = if persist { &["-m", "-d"] } else { &["-d"] };
    set_field(ctx, &name, "home", &home, flags, root.as_deref())
}

/// Changes the home telephone number of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chhomephone foo 7735551234
#[function]
fn chhomephone(ctx: &Context, name: String, homephone: Value, root: Option<String>) -> Result<bool> {
    set_gecos(ctx, &name, "homephone", &text_of(&homephone), root.as_deref())
}

/// Changes the login class of a user; only OpenBSD has those, so this returns False.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chloginclass foo staff
#[function]
fn chloginclass(name: String, loginclass: String, root: Option<String>) -> Result<bool> {
    let _ = (name, loginclass, root);
    Ok(false)
}

/// Changes the comment on a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chother foobar "night shift"
#[function]
fn chother(ctx: &Context, name: String, other: Value, root: Option<String>) -> Result<bool> {
    set_gecos(ctx, &name, "other", &text_of(&other), root.as_deref())
}

/// Changes the room number of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chroomnumber foo 123
#[function]
fn chroomnumber(ctx: &Context, name: String, roomnumber: Value, root: Option<String>) -> Result<bool> {
    set_gecos(ctx, &name, "roomnumber", &text_of(&roomnumber), root.as_deref())
}

/// Changes the login shell of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chshell foo /bin/zsh
#[function]
fn chshell(ctx: &Context, name: String, shell: Value, root: Option<String>) -> Result<bool> {
    set_field(ctx, &name, "shell", &shell, &["-s"], root.as_deref())
}

/// Changes the number of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chuid foo 4376
#[function]
fn chuid(ctx: &Context, name: String, uid: Value, root: Option<String>) -> Result<bool> {
    set_field(ctx, &name, "uid", &uid, &["-u"], root.as_deref())
}

/// Changes the work telephone number of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.chworkphone foo 7735550123
#[function]
fn chworkphone(ctx: &Context, name: String, workphone: Value, root: Option<String>) -> Result<bool> {
    set_gecos(ctx, &name, "workphone", &text_of(&workphone), root.as_deref())
}

/// Removes a user, with ``remove`` the home directory too, with ``force`` even while the user is logged in.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.delete name remove=True force=True
#[function]
fn delete(
    ctx: &Context,
    name: String,
    #[default(false)] remove: bool,
    #[default(false)] force: bool,
    root: Option<String>,
    #[default(false)] local: bool,
) -> Result<bool> {
    let flags = [("-r", remove), ("-f", force && !local)];
    let mut args: Vec<&str> = flags.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag).collect();
    args.push(&name);
    let program = if local { "luserdel" } else { "userdel" };
    let outcome = accounts::attempt(ctx, program, &args, root.as_deref().filter(|_| !local))?;
    // Debian's userdel fails for a missing mailbox though the user is gone.
    let mailbox = outcome.stderr.contains("var/mail") || outcome.stderr.contains("var/spool/mail");
    let debian = ctx.grains.get_str("os_family") == Some("Debian");
    Ok(outcome.retcode == Some(0) || (outcome.retcode == Some(12) && debian && mailbox))
}

/// Returns the login class of a user; only OpenBSD has those, so this returns False.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.get_loginclass foo
#[function]
fn get_loginclass(name: String) -> Result<bool> {
    let _ = name;
    Ok(false)
}

/// Returns all users with all information about them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.getent
#[function]
fn getent(ctx: &Context, #[default(false)] refresh: bool, root: Option<String>) -> Result<Value> {
    // Nothing is kept between calls.
    let _ = refresh;
    let all = accounts::accounts(ctx, root.as_deref())?;
    Ok(ctx.blocking(move || all.iter().map(account_map).collect()))
}

/// Returns information about a user; nothing if there is no such user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.info root
#[function]
fn info(ctx: &Context, name: String, root: Option<String>) -> Result<Map> {
    let found = accounts::account(ctx, &name, root.as_deref())?;
    Ok(ctx.blocking(move || found.as_ref().map(account_map).unwrap_or_default()))
}

/// Returns the groups of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.list_groups foo
#[function]
fn list_groups(ctx: &Context, name: String) -> Result<Value> {
    Ok(ctx.blocking(move || Value::from(accounts::group_names(&name))))
}

/// Returns the names of all users.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.list_users
#[function]
fn list_users(ctx: &Context, root: Option<String>) -> Result<Value> {
    let mut names: Vec<String> =
        accounts::accounts(ctx, root.as_deref())?.into_iter().map(|account| account.name).collect();
    names.sort();
    Ok(Value::from(names))
}

/// Returns the primary group of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.primary_group saltadmin
#[function]
fn primary_group(ctx: &Context, name: String) -> Result<String> {
    let outcome = subprocess::counted(ctx, &["id", "-g", "-n", &name])?;
    let said = if outcome.retcode == Some(0) { outcome.stdout } else { outcome.stderr };
    Ok(said.trim_end().to_owned())
}

/// Changes the login name of a user.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' user.rename name new_name
#[function]
fn rename(ctx: &Context, name: String, new_name: Value, root: Option<String>) -> Result<bool> {
    if accounts::account(ctx, &new_name.to_string(), root.as_deref())?.is_some() {
        return Err(Error::execution(format!("User '{new_name}' already exists")));
    }
    set_field(ctx, &name, "name", &new_name, &["-l"], root.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_shown_as_salt_shows_them() {
        let (ctx, _) = exec::testing::context(&[&MODULE], map! {}, map! {}, map! {});
        let root = ctx.call("user.info", vec!["root".into()]).unwrap();
        assert_eq!(root.get("uid"), Some(&Value::Int(0)));
        assert_eq!(root.get("other"), Some(&"".into()));
        assert_eq!(ctx.call("user.info", vec!["no-such-user".into()]).unwrap(), Map::new().into());
        let names = ctx.call("user.list_users", vec![]).unwrap();
        assert!(names.as_list().unwrap().contains(&"root".into()));
    }

    #[test]
    fn a_new_user_becomes_arguments() {
        let new = NewUser {
            uid: Some("4000".into()),
            gid: None,
            home: Some("/srv".into()),
            shell: Some(String::new()),
            unique: false,
            system: true,
            createhome: false,
            nologinit: false,
            usergroup: Some(false),
            local: false,
        };
        assert_eq!(new.args("web"), ["-u", "4000", "-N", "-M", "-o", "-r", "-d", "/srv", "web"]);
    }

    #[test]
    fn the_full_name_has_five_parts() {
        assert_eq!(gecos_parts("A B,1,2"), ["A B", "1", "2", "", ""]);
        assert_eq!(gecos_parts("a,b,c,d,e,f")[4], "e,f");
    }
}
