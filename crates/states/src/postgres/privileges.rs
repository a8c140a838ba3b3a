//! `postgres_privileges`: what roles may do with objects.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use super::{good, installed};
use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("postgres_privileges", "What roles may do with objects.", &[&ABSENT, &PRESENT]).only_if(installed);

/// Makes sure that a role does not have privileges on an object.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    object_name: String,
    object_type: String,
    #[default(Value::Null)] privileges: Value,
    #[default("public")] prepend: String,
    #[default(Value::Null)] maintenance_db: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
    #[default(Value::Null)] db_user: Value,
) -> Result<Ret> {
    let db = map! { "maintenance_db" => maintenance_db, "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };

    let ret = good(&name);
    let listed = listed(&privileges);
    let shown = if object_type == "group" { object_name.as_str().into() } else { listed.clone() };
    let place = args![name.as_str(), object_name, object_type];
    let mut wishes = db;
    wishes.update(map! { "privileges" => listed, "prepend" => prepend });
    let has = call(ctx, "postgres.has_privileges", place.clone(), wishes.clone())?.truthy();

    if !has {
        return Ok(ret.ok("The requested privilege(s) are not set so cannot be revoked"));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("The privilege(s): {shown} are set to be revoked from {name}")));
    }
    Ok(match call(ctx, "postgres.privileges_revoke", place, wishes)?.truthy() {
        true => ret
            .ok(format!("The privilege(s): {shown} have been revoked from {name}"))
            .changed(map! { name => "Absent" }),
        false => ret.fail(format!("Failed to revoke privilege(s): {shown} from {name}")),
    })
}

/// Makes sure that a role has privileges on an object.
#[function]
fn present(
    ctx: &Context,
    name: String,
    object_name: String,
    object_type: String,
    #[default(Value::Null)] privileges: Value,
    #[default(Value::Null)] grant_option: Value,
    #[default("public")] prepend: String,
    #[default(Value::Null)] maintenance_db: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
    #[default(Value::Null)] db_user: Value,
) -> Result<Ret> {
    let db = map! { "maintenance_db" => maintenance_db, "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };

    let ret = good(&name);
    let listed = listed(&privileges);
    let shown = if object_type == "group" { object_name.as_str().into() } else { listed.clone() };
    let place = args![name.as_str(), object_name, object_type];
    let mut wishes = db;
    wishes.update(map! { "privileges" => listed, "grant_option" => grant_option, "prepend" => prepend });
    let has = call(ctx, "postgres.has_privileges", place.clone(), wishes.clone())?.truthy();

    if has {
        return Ok(ret.ok("The requested privilege(s) are already set"));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("The privilege(s): {shown} are set to be granted to {name}")));
    }
    Ok(match call(ctx, "postgres.privileges_grant", place, wishes)?.truthy() {
        true => {
            ret.ok(format!("The privilege(s): {shown} have been granted to {name}")).changed(map! { name => "Present" })
        }
        false => ret.fail(format!("Failed to grant privilege(s): {shown} to {name}")),
    })
}

/// Privileges as the functions take them: with commas between them.
fn listed(privileges: &Value) -> Value {
    match privileges {
        Value::List(words) if !words.is_empty() => {
            words.iter().map(Value::to_string).collect::<Vec<_>>().join(",").into()
        }
        Value::Str(words) if !words.is_empty() => words.as_str().into(),
        _ => Value::Null,
    }
}
