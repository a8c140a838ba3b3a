//! `postgres_schema`: schemas of a database.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use super::{good, installed};
use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("postgres_schema", "Schemas of a database.", &[&ABSENT, &PRESENT]).only_if(installed);

/// Makes sure that a schema does not exist.
#[function]
fn absent(
    ctx: &Context,
    dbname: String,
    name: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] db_user: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
) -> Result<Ret> {
    let db = map! { "db_user" => db_user, "db_password" => db_password, "db_host" => db_host, "db_port" => db_port, "user" => user };

    let ret = start(&dbname, &name);
    let place = args![dbname.as_str(), name.as_str()];
    if !call(ctx, "postgres.schema_exists", place.clone(), db.clone())?.truthy() {
        let text = format!("Schema {name} is not present in database {dbname}, so it cannot be removed");
        return Ok(ret.ok(text));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Schema {name} is set to be removed from database {dbname}")));
    }
    Ok(match call(ctx, "postgres.schema_remove", place, db)?.truthy() {
        true => {
            ret.ok(format!("Schema {name} has been removed from database {dbname}")).changed(map! { name => "Absent" })
        }
        false => ret.fail(format!("Schema {name} failed to be removed")),
    })
}

/// Makes sure that a schema exists.
#[function]
fn present(
    ctx: &Context,
    dbname: String,
    name: String,
    #[default(Value::Null)] owner: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] db_user: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
) -> Result<Ret> {
    let db = map! { "db_user" => db_user, "db_password" => db_password, "db_host" => db_host, "db_port" => db_port, "user" => user };

    let ret = start(&dbname, &name);
    let place = args![dbname.as_str(), name.as_str()];
    if !call(ctx, "postgres.schema_get", place.clone(), db.clone())?.is_null() {
        return Ok(ret.ok(format!("Schema {name} already exists in database {dbname}")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Schema {name} is set to be created in database {dbname}.")));
    }
    let mut wishes = db;
    wishes.insert("owner", owner);
    Ok(match call(ctx, "postgres.schema_create", place, wishes)?.truthy() {
        true => {
            ret.ok(format!("Schema {name} has been created in database {dbname}")).changed(map! { name => "Present" })
        }
        false => ret.fail(format!("Failed to create schema {name} in database {dbname}")),
    })
}

fn start(dbname: &str, name: &str) -> Ret {
    Ret { more: map! { "dbname" => dbname }, ..good(name) }
}
