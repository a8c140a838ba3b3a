//! `postgres_language`: languages that functions are written in.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use super::{good, installed};
use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("postgres_language", "Languages that functions are written in.", &[&ABSENT, &PRESENT])
        .only_if(installed);

/// Makes sure that a database does not have a language.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    maintenance_db: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
    #[default(Value::Null)] db_user: Value,
) -> Result<Ret> {
    let db =
        map! { "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };

    let ret = good(&name);
    let place = args![name.as_str(), maintenance_db.as_str()];
    if !call(ctx, "postgres.language_exists", place.clone(), db.clone())?.truthy() {
        return Ok(ret.ok(format!("Language {name} is not present so it cannot be removed")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Language {name} is set to be removed")));
    }
    Ok(match call(ctx, "postgres.language_remove", place, db)?.truthy() {
        true => ret.ok(format!("Language {name} has been removed")).changed(map! { name => "Absent" }),
        false => ret.fail(format!("Failed to remove language {name}")),
    })
}

/// Makes sure that a database has a language.
#[function]
fn present(
    ctx: &Context,
    name: String,
    maintenance_db: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
    #[default(Value::Null)] db_user: Value,
) -> Result<Ret> {
    let db =
        map! { "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };

    let ret = good(&name);
    let all = call(ctx, "postgres.language_list", args![maintenance_db.as_str()], db.clone())?;
    if all.get(&name).is_some() {
        return Ok(ret.ok(format!("Language {name} is already installed")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Language {name} is set to be installed")));
    }
    let place = args![name.as_str(), maintenance_db.as_str()];
    Ok(match call(ctx, "postgres.language_create", place, db)?.truthy() {
        true => ret.ok(format!("Language {name} has been installed")).changed(map! { name => "Present" }),
        false => ret.fail(format!("Failed to install language {name}")),
    })
}
