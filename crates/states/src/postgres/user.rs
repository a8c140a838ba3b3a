//! `postgres_user`: users of a server.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use super::role::{Kind, Wish};
use super::{Removal, installed};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("postgres_user", "Users of a server.", &[&ABSENT, &PRESENT]).only_if(installed);

/// Makes sure that a user does not exist.
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
    let what = format!("User {name}");
    let (name, args) = (name.as_str(), args![name.as_str()]);
    Removal { what: &what, name, exists: "postgres.user_exists", remove: "postgres.user_remove", args, kwargs: db }
        .carry_out(ctx)
}

/// Makes sure that a user exists, with its privileges.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] createdb: Value,
    #[default(Value::Null)] createroles: Value,
    #[default(Value::Null)] encrypted: Value,
    #[default(Value::Null)] superuser: Value,
    #[default(Value::Null)] replication: Value,
    #[default(Value::Null)] inherit: Value,
    #[default(Value::Null)] login: Value,
    #[default(Value::Null)] password: Value,
    #[default(Value::Null)] default_password: Value,
    #[default(Value::Null)] refresh_password: Value,
    #[default(Value::Null)] valid_until: Value,
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
        default_password,
        valid_until,
    };
    wish.carry_out(ctx, Kind::User, &name, db)
}
