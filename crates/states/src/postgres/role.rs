//! Helpers that users and groups share: both are roles.

use exec::{Context, Error, Result};
use value::{Map, Value, map};

use super::good;
use crate::support::call;
use crate::{Ret, args};

/// The two kinds of roles.
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
    pub encrypted: Value,
    pub superuser: Value,
    pub replication: Value,
    pub inherit: Value,
    pub login: Value,
    pub password: Value,
    pub default_password: Value,
    pub refresh_password: bool,
    pub valid_until: Value,
    pub groups: Value,
}

impl Wish {
    /// Makes the role, or changes the settings that differ.
    pub fn carry_out(self, ctx: &Context, kind: Kind, name: &str, db: Map) -> Result<Ret> {
        let ret = good(name);
        let mut asked = db.clone();
        asked.insert("return_password", !self.refresh_password);
        let known = call(ctx, "postgres.role_get", args![name], asked)?;
        let known = known.into_map();
        let password = self.new_password(name, known.as_ref())?;
        let title = if kind == Kind::User { "User" } else { "Group" };
        let mut update = Map::new();
        if let Some(known) = &known {
            update = self.changes(ctx, known, &password, &db)?;
            if update.is_empty() {
                return Ok(ret.ok(format!("{title} {name} is already present")));
            }
        }
        let mode = if known.is_some() { "update" } else { "create" };
        if ctx.is_test() {
            let ret = ret.would(format!("{title} {name} is set to be {mode}d"));
            return Ok(if update.is_empty() { ret } else { ret.changed(map! { name => update }) });
        }
        let done = call(ctx, &function(kind, mode), Vec::new(), self.arguments(kind, name, password, db))?;
        let title = title.to_lowercase();
        if !done.truthy() {
            return Ok(ret.fail(format!("Failed to {mode} {title} {name}")));
        }
        let changes = if update.is_empty() { "Present".into() } else { Value::from(update) };
        Ok(ret.ok(format!("The {title} {name} has been {mode}d")).changed(map! { name => changes }))
    }

    /// Returns the password in its stored form, or None if it needs no change.
    fn new_password(&self, name: &str, known: Option<&Map>) -> Result<Value> {
        let given = match (&self.password, known) {
            (Value::Null, None) => &self.default_password,
            (password, _) => password,
        };
        if given.is_null() {
            return Ok(Value::Null);
        }
        let password = given.to_string();
        let kept = known.and_then(|known| known.get_str("password")).filter(|_| !self.refresh_password);
        match kept {
            Some(kept) if modules::postgres::is_password(name, &password, kept, &self.encrypted)? => Ok(Value::Null),
            _ => Ok(modules::postgres::kept_password(name, &password, &self.encrypted)?.into()),
        }
    }

    /// Returns the attributes of an existing role that must change.
    fn changes(&self, ctx: &Context, known: &Map, password: &Value, db: &Map) -> Result<Map> {
        let mut update = Map::new();
        for (wish, name, key) in [
            (&self.createdb, "createdb", "can create databases"),
            (&self.inherit, "inherit", "inherits privileges"),
            (&self.login, "login", "can login"),
            (&self.createroles, "createroles", "can create roles"),
            (&self.replication, "replication", "replication"),
            (&self.superuser, "superuser", "superuser"),
        ] {
            if !wish.is_null() && known.get(key) != Some(wish) {
                update.insert(name, wish.clone());
            }
        }
        if !password.is_null() {
            update.insert("password", true);
        }
        if !self.valid_until.is_null() && self.expiry(ctx, db)? != expiry_of(known) {
            update.insert("valid_until", self.valid_until.clone());
        }
        let has = known.get("groups").and_then(Value::as_list).unwrap_or_default();
        let wanted = match &self.groups {
            Value::Str(groups) => groups.split(',').map(Value::from).collect(),
            Value::List(groups) => groups.clone(),
            _ => Vec::new(),
        };
        let missing: Vec<Value> = wanted.into_iter().filter(|group| !has.contains(group)).collect();
        if !missing.is_empty() {
            update.insert("groups", missing);
        }
        Ok(update)
    }

    /// Returns the wanted expiry as the server reads it.
    fn expiry(&self, ctx: &Context, db: &Map) -> Result<String> {
        let text = self.valid_until.to_string().replace('\'', "''");
        let query = format!("SELECT '{text}'::timestamp(0) as dt;");
        let rows = call(ctx, "postgres.psql_query", args![query], db.clone())?;
        let row = rows.as_list().and_then(<[Value]>::first);
        let row = row.ok_or_else(|| Error::execution(format!("'{}' is not a time to the server", self.valid_until)))?;
        let text = row.get("dt").map(Value::to_string).unwrap_or_default();
        Ok(if text.starts_with(|c: char| c.is_ascii_digit()) { text } else { String::new() })
    }

    fn arguments(self, kind: Kind, name: &str, password: Value, db: Map) -> Map {
        let mut arguments = db;
        arguments.update(map! {
            if_user(kind, "username", "groupname") => name, "createdb" => self.createdb,
            "createroles" => self.createroles, "superuser" => self.superuser, "login" => self.login,
            "inherit" => self.inherit, "replication" => self.replication, "rolepassword" => password,
            "encrypted" => if self.encrypted.is_null() { "md5".into() } else { self.encrypted },
            "groups" => self.groups,
        });
        if kind == Kind::User {
            arguments.insert("valid_until", self.valid_until);
        }
        arguments
    }
}

fn if_user<'a>(kind: Kind, user: &'a str, group: &'a str) -> &'a str {
    if kind == Kind::User { user } else { group }
}

fn function(kind: Kind, mode: &str) -> String {
    format!("postgres.{}_{mode}", if_user(kind, "user", "group"))
}

/// The end of a role's time; empty when there is none.
fn expiry_of(known: &Map) -> String {
    let end = known.get("expiry time").unwrap_or(&Value::Null);
    if end.is_null() { String::new() } else { end.to_string() }
}
