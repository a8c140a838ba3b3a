//! `postgres_extension`: extensions of a database.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use super::{good, installed};
use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("postgres_extension", "Extensions of a database.", &[&ABSENT, &PRESENT]).only_if(installed);

/// Makes sure that an extension is not installed.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] if_exists: Value,
    #[default(Value::Null)] restrict: Value,
    #[default(Value::Null)] cascade: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] maintenance_db: Value,
    #[default(Value::Null)] db_user: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
) -> Result<Ret> {
    let db = map! { "maintenance_db" => maintenance_db, "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };

    let ret = good(&name);
    if !call(ctx, "postgres.is_installed_extension", args![name.as_str()], db.clone())?.truthy() {
        return Ok(ret.ok(format!("Extension {name} is not present, so it cannot be removed")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Extension {name} is set to be removed")));
    }
    let mut wishes = db;
    wishes.update(map! { "if_exists" => if_exists, "restrict" => restrict, "cascade" => cascade });
    Ok(match call(ctx, "postgres.drop_extension", args![name.as_str()], wishes)?.truthy() {
        true => ret.ok(format!("Extension {name} has been removed")).changed(map! { name => "Absent" }),
        false => ret.fail(format!("Extension {name} failed to be removed")),
    })
}

/// Makes sure that an extension is installed, in a version and in a schema.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] if_not_exists: Value,
    #[default(Value::Null)] schema: Value,
    #[default(Value::Null)] ext_version: Value,
    #[default(Value::Null)] from_version: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] maintenance_db: Value,
    #[default(Value::Null)] db_user: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
) -> Result<Ret> {
    let db = map! { "maintenance_db" => maintenance_db, "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };

    let ret = good(&name);
    let mut wishes = db;
    wishes.update(map! { "schema" => schema, "ext_version" => ext_version });
    let facts = call(ctx, "postgres.create_metadata", args![name.as_str()], wishes.clone())?;
    let is = |fact: &str| facts.as_list().is_some_and(|facts| facts.contains(&fact.into()));
    let mode = match is("EXTENSION NOT INSTALLED") {
        true => "install",
        false if is("EXTENSION TO MOVE") || is("EXTENSION TO UPGRADE") => "upgrade",
        false => return Ok(ret.ok(format!("Extension {name} is already present"))),
    };
    let done = if mode == "upgrade" { "upgraded" } else { "installed" };
    if ctx.is_test() {
        return Ok(ret.would(format!("Extension {name} is set to be {done}")));
    }
    wishes.update(map! { "name" => name.as_str(), "if_not_exists" => if_not_exists, "from_version" => from_version });
    Ok(match call(ctx, "postgres.create_extension", Vec::new(), wishes)?.truthy() {
        true => {
            let change = if mode == "upgrade" { "Upgraded" } else { "Installed" };
            ret.ok(format!("The extension {name} has been {done}")).changed(map! { name => change })
        }
        false => ret.fail(format!("Failed to {mode} extension {name}")),
    })
}
