//! `postgres_group`: groups of a server.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use super::role::{Kind, Wish};
use super::{Removal, installed};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("postgres_group", "Groups of a server.", &[&ABSENT, &PRESENT]).only_if(installed);

/// Makes sure that a group does not exist.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] maintenance_db: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
    #[default(Value::Null)] db_user: Value,
) -> Result<Ret> {
    let db = map! { "maintenance_db" => maintenance_db, "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };
    let what = format!("Group {name}");
    let (name, args) = (name.as_str(), args![name.as_str()]);
    Removal { what: &what, name, exists: "postgres.user_exists", remove: "postgres.group_remove", args, kwargs: db }
        .carry_out(ctx)
}

/// Makes sure that a group exists, with its privileges.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] createdb: Value,
    #[default(Value::Null)] createroles: Value,
    #[default(Value::Null)] encrypted: Value,
    #[default(Value::Null)] superuser: Value,
    #[default(Value::Null)] inherit: Value,
    #[default(Value::Null)] login: Value,
    #[default(Value::Null)] replication: Value,
    #[default(Value::Null)] password: Value,
    #[default(Value::Null)] refresh_password: Value,
    #[default(Value::Null)] groups: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] maintenance_db: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
    #[default(Value::Null)] db_user: Value,
) -> Result<Ret> {
    let db = map! { "maintenance_db" => maintenance_db, "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };

    let wish = Wish {
        createdb,
        createroles,
        encrypted,
        superuser,
        replication,
        inherit,
        login,
        password,
        groups,
        refresh_password: refresh_password.truthy(),
        ..Wish::default()
    };
    wish.carry_out(ctx, Kind::Group, &name, db)
}
