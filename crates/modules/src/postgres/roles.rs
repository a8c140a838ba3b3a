//! Roles: users, who may log in, and groups, which may not.

use exec::{Context, Result};
use value::{DateTime, Map, Value};

use super::csv;
use super::password::{self, Method};
use super::server::{Server, identifier, literal};

/// The two kinds of roles. Only users may log in by default.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    User,
    Group,
}

/// The wanted attributes of a role. None leaves an attribute alone.
#[derive(Default)]
pub(super) struct Wish {
    pub createdb: Value,
    pub createroles: Value,
    pub inherit: Value,
    pub login: Value,
    pub connlimit: Value,
    pub encrypted: Value,
    pub superuser: Value,
    pub replication: Value,
    pub rolepassword: Value,
    pub valid_until: Value,
    pub groups: Value,
}

/// The flags that roles are listed with.
const FLAGS: [&str; 8] = [
    "superuser",
    "inherits privileges",
    "can create roles",
    "can create databases",
    "can update system catalogs",
    "can login",
    "replication",
    "connections",
];

/// Reads the numbers a version begins with.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next().and_then(|part| part.parse().ok()).unwrap_or(0)))
}

fn listing(version: (u32, u32), with_password: bool) -> String {
    // Columns that older servers lack, or newer ones do no longer have, are NULL.
    let catalogs = if version >= (9, 5) { "NULL" } else { "pg_roles.rolcatupdate" };
    let replication = if version >= (9, 1) { "pg_roles.rolreplication" } else { "NULL" };
    let secret = |text| if with_password { text } else { "" };
    format!(
        "SELECT pg_roles.rolname as \"name\",pg_roles.rolsuper as \"superuser\", pg_roles.rolinherit as \"inherits \
         privileges\", pg_roles.rolcreaterole as \"can create roles\", pg_roles.rolcreatedb as \"can create databases\", \
         {catalogs} as \"can update system catalogs\", pg_roles.rolcanlogin as \"can login\", {replication} as \
         \"replication\", pg_roles.rolconnlimit as \"connections\", (SELECT array_agg(pg_roles2.rolname)    FROM \
         pg_catalog.pg_auth_members    JOIN pg_catalog.pg_roles pg_roles2 ON (pg_auth_members.roleid = pg_roles2.oid)    \
         WHERE pg_auth_members.member = pg_roles.oid) as \"groups\",pg_roles.rolvaliduntil::timestamp(0) as \"expiry \
         time\", pg_roles.rolconfig  as \"defaults variables\" {}FROM pg_roles {}{}",
        secret(", COALESCE(pg_shadow.passwd, pg_authid.rolpassword) as \"password\" "),
        secret("LEFT JOIN pg_authid ON pg_roles.oid = pg_authid.oid "),
        secret("LEFT JOIN pg_shadow ON pg_roles.oid = pg_shadow.usesysid"),
    )
}

/// Reads a time such as `2030-01-31 12:00:00`.
fn time(text: &str) -> Option<DateTime> {
    let parts: Vec<u32> = text.split(['-', ' ', ':']).map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    let &[year, month, day, hour, minute, second] = parts.as_slice() else { return None };
    let small = |number: u32| u8::try_from(number).ok();
    Some(DateTime {
        year: u16::try_from(year).ok()?,
        month: small(month)?,
        day: small(day)?,
        hour: small(hour)?,
        minute: small(minute)?,
        second: small(second)?,
        micros: 0,
    })
}

fn described(row: &Map, with_password: bool) -> Map {
    let text = |key: &str| row.get_str(key).unwrap_or_default();
    let flag = |key: &str| match text(key) {
        "t" => Value::Bool(true),
        "f" => Value::Bool(false),
        _ => Value::Null,
    };
    let mut role: Map = FLAGS.iter().map(|key| (*key, flag(key))).collect();
    role.insert("expiry time", time(text("expiry time")).map_or(Value::Null, Value::DateTime));
    role.insert("defaults variables", text("defaults variables"));
    if with_password {
        role.insert("password", text("password"));
    }
    // The text form of a PostgreSQL array quotes like CSV.
    let groups = csv::rows(text("groups").trim_matches(['{', '}'])).into_iter().next();
    role.insert("groups", groups.unwrap_or_default());
    role
}

/// Returns all roles by name. Returns None if the server does not answer.
pub(super) fn list(ctx: &Context, server: &Server, with_password: bool) -> Result<Option<Map>> {
    // The query depends on the version, so without one there is nothing to ask.
    let Some(version) = numbers(&server.version(ctx)?) else {
        tracing::error!("Could not retrieve Postgres version. Is Postgresql server running?");
        return Ok(None);
    };
    let rows = server.query(ctx, &listing(version, with_password))?;
    let named = |row: &Map| Some((row.get_str("name")?.to_owned(), described(row, with_password)));
    Ok(Some(rows.iter().filter_map(named).collect()))
}

fn get(ctx: &Context, server: &Server, name: &str) -> Result<Option<Map>> {
    let all = list(ctx, server, false)?;
    Ok(all.and_then(|all| all.get(name).cloned()).and_then(Value::into_map))
}

impl Wish {
    /// The clauses of a statement, each with a blank before it, and what follows the statement.
    fn clauses(&self, name: &str, kind: Option<Kind>, known: Option<&Map>) -> Result<(String, String)> {
        let usual = |wish: &Value, value: Option<bool>| match wish {
            Value::Null => value.map_or(Value::Null, Value::Bool),
            wish => wish.clone(),
        };
        let same = known.and_then(|known| known.get("superuser"));
        // Salt does not name the flag when it does not change. On managed servers only a superuser
        // may mention it.
        let superuser = match same.is_some_and(|has| has.truthy() == self.superuser.truthy()) {
            true => Value::Null,
            false => self.superuser.clone(),
        };
        // A new user may log in and a new group may not. On a change only what was given counts.
        let login = usual(&self.login, kind.map(|kind| kind == Kind::User));
        let mut text = String::new();
        for (word, wish) in [
            ("INHERIT", &usual(&self.inherit, kind.map(|_| true))),
            ("CREATEDB", &self.createdb),
            ("CREATEROLE", &self.createroles),
            ("SUPERUSER", &superuser),
            ("REPLICATION", &self.replication),
            ("LOGIN", &login),
        ] {
            if !wish.is_null() {
                text.push_str(if wish.truthy() { " " } else { " NO" });
                text.push_str(word);
            }
        }
        if !self.connlimit.is_null() {
            text.push_str(&format!(" CONNECTION LIMIT {}", self.connlimit));
        }
        text.push_str(&self.password(name)?);
        if let Some(until) = self.valid_until.as_str().filter(|until| !until.is_empty()) {
            text.push_str(&format!(" VALID UNTIL {}", literal(until)));
        }
        let groups = match &self.groups {
            Value::List(groups) => groups.iter().map(Value::to_string).collect(),
            Value::Null => Vec::new(),
            other => other.to_string().split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect(),
        };
        let name = identifier(name);
        let grants = groups.iter().map(|group| format!("; GRANT {} TO {name}", identifier(group))).collect();
        Ok((text, grants))
    }

    fn password(&self, name: &str) -> Result<String> {
        if self.rolepassword == Value::Bool(false) {
            // `False` takes the password away, None leaves it alone.
            return Ok(" PASSWORD NULL".to_owned());
        }
        let Some(password) = self.secret() else { return Ok(String::new()) };
        let method = Method::of(&self.encrypted)?;
        let word = if method == Method::Plain { "UNENCRYPTED" } else { "ENCRYPTED" };
        Ok(format!(" {word} PASSWORD {}", literal(&password::kept(name, &password, method)?)))
    }

    fn secret(&self) -> Option<String> {
        let given = !matches!(self.rolepassword, Value::Null | Value::Bool(_));
        given.then(|| self.rolepassword.to_string()).filter(|password| !password.is_empty())
    }

    /// Runs the statement with its clauses.
    fn carry_out(&self, ctx: &Context, server: &Server, statement: &str) -> Result<bool> {
        match self.secret() {
            // A statement with a password must stay out of the arguments and of the log.
            Some(_) => server.run_secret(ctx, &format!("{statement};\n")),
            None => server.run(ctx, statement),
        }
    }
}

/// Makes a role, and returns whether it was made.
pub(super) fn create(ctx: &Context, server: &Server, name: &str, kind: Kind, wish: &Wish) -> Result<bool> {
    if get(ctx, server, name)?.is_some() {
        tracing::info!("the role '{name}' already exists");
        return Ok(false);
    }
    let (clauses, grants) = wish.clauses(name, Some(kind), None)?;
    wish.carry_out(ctx, server, &format!("CREATE ROLE {} WITH {clauses}{grants}", identifier(name)))
}

/// Changes a role, and returns whether it was changed.
pub(super) fn update(ctx: &Context, server: &Server, name: &str, wish: &Wish) -> Result<bool> {
    let Some(known) = get(ctx, server, name)? else {
        tracing::info!("there is no role '{name}'");
        return Ok(false);
    };
    let (clauses, grants) = wish.clauses(name, None, Some(&known))?;
    wish.carry_out(ctx, server, &format!("ALTER ROLE {} WITH {clauses}{grants}", identifier(name)))
}

/// Removes a role, and returns whether it is gone.
pub(super) fn remove(ctx: &Context, server: &Server, name: &str) -> Result<bool> {
    if get(ctx, server, name)?.is_none() {
        tracing::info!("there is no role '{name}'");
        return Ok(false);
    }
    server.run(ctx, &format!("DROP ROLE {}", identifier(name)))?;
    Ok(get(ctx, server, name)?.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_become_clauses() {
        let wish = Wish { createdb: true.into(), superuser: false.into(), groups: "a,b".into(), ..Wish::default() };
        let (clauses, grants) = wish.clauses("ann", Some(Kind::User), None).unwrap();
        assert_eq!(clauses, " INHERIT CREATEDB NOSUPERUSER LOGIN");
        assert_eq!(grants, "; GRANT \"a\" TO \"ann\"; GRANT \"b\" TO \"ann\"");
        let secret = Wish { rolepassword: "o'x".into(), encrypted: false.into(), ..Wish::default() };
        let known = value::map! { "superuser" => false };
        assert_eq!(secret.clauses("ann", None, Some(&known)).unwrap().0, " UNENCRYPTED PASSWORD 'o''x'");
        assert!(secret.secret().is_some());
    }

    #[test]
    fn rows_describe_roles() {
        let row = value::map! { "superuser" => "t", "can login" => "f", "groups" => "{a,\"b c\"}",
        "expiry time" => "2030-01-31 12:00:00" };
        let role = described(&row, false);
        assert_eq!(role.get("superuser"), Some(&true.into()));
        assert_eq!(role.get("groups"), Some(&value::list!["a", "b c"]));
        assert!(matches!(role.get("expiry time"), Some(Value::DateTime(time)) if time.year == 2030));
        assert_eq!(numbers("15.14 (Debian)"), Some((15, 14)));
    }
}
