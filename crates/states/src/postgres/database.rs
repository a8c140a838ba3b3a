//! `postgres_database`: databases of a server.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use super::{Removal, good, installed};
use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("postgres_database", "Databases of a server.", &[&ABSENT, &PRESENT]).only_if(installed);

/// Makes sure that a database does not exist.
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
    let what = format!("Database {name}");
    let (name, args) = (name.as_str(), args![name.as_str()]);
    Removal { what: &what, name, exists: "postgres.db_exists", remove: "postgres.db_remove", args, kwargs: db }
        .carry_out(ctx)
}

/// Makes sure that a database exists, with an owner and a tablespace.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] tablespace: Value,
    #[default(Value::Null)] encoding: Value,
    #[default(Value::Null)] lc_collate: Value,
    #[default(Value::Null)] lc_ctype: Value,
    #[default(Value::Null)] owner: Value,
    #[default(false)] owner_recurse: bool,
    #[default(Value::Null)] template: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] maintenance_db: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
    #[default(Value::Null)] db_user: Value,
) -> Result<Ret> {
    let db = map! { "maintenance_db" => maintenance_db, "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };

    let ret = good(&name);
    let all = call(ctx, "postgres.db_list", Vec::new(), db.clone())?;
    let known = all.get(&name).cloned();
    if let Some(known) = &known {
        let wishes = [("Encoding", &encoding), ("Collate", &lc_collate), ("Ctype", &lc_ctype)];
        if wishes.iter().any(|(key, wish)| differs(known, key, wish)) {
            let text = format!("Database {name} has wrong parameters which couldn't be changed on fly.");
            return Ok(ret.fail(text));
        }
        if !differs(known, "Tablespace", &tablespace) && !differs(known, "Owner", &owner) {
            return Ok(ret.ok(format!("Database {name} is already present")));
        }
    }
    if ctx.is_test() {
        return Ok(ret.would(match known {
            None => format!("Database {name} is set to be created"),
            Some(_) => format!("Database {name} exists, but parameters need to be changed"),
        }));
    }
    let mut wishes = db;
    wishes.update(map! { "tablespace" => tablespace, "owner" => owner });
    if known.is_some() {
        wishes.insert("owner_recurse", owner_recurse);
        return Ok(match call(ctx, "postgres.db_alter", args![name.as_str()], wishes)?.truthy() {
            true => ret
                .ok(format!("Parameters for database {name} have been changed"))
                .changed(map! { name => "Parameters changed" }),
            false => ret.fail(format!("Failed to change parameters for database {name}")),
        });
    }
    wishes.update(map! {
        "encoding" => encoding, "lc_collate" => lc_collate, "lc_ctype" => lc_ctype, "template" => template,
    });
    Ok(match call(ctx, "postgres.db_create", args![name.as_str()], wishes)?.truthy() {
        true => ret.ok(format!("The database {name} has been created")).changed(map! { name => "Present" }),
        false => ret.fail(format!("Failed to create database {name}")),
    })
}

/// Returns whether a setting differs from the wanted value; names of encodings are compared without case.
fn differs(known: &Value, key: &str, wish: &Value) -> bool {
    let has = known.get(key).map(Value::to_string).unwrap_or_default();
    let wanted = wish.to_string();
    let same = if key == "Encoding" { has.eq_ignore_ascii_case(&wanted) } else { has == wanted };
    wish.truthy() && !same
}
