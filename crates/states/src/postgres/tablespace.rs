//! `postgres_tablespace`: places of tables.

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use super::{Removal, good, installed};
use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("postgres_tablespace", "Places of tables.", &[&ABSENT, &PRESENT]).only_if(installed);

/// Makes sure that a tablespace does not exist.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] maintenance_db: Value,
    #[default(Value::Null)] db_user: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
) -> Result<Ret> {
    let db = map! { "maintenance_db" => maintenance_db, "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };
    let what = format!("Tablespace {name}");
    let (name, args) = (name.as_str(), args![name.as_str()]);
    let (exists, remove) = ("postgres.tablespace_exists", "postgres.tablespace_remove");
    Removal { what: &what, name, exists, remove, args, kwargs: db }.carry_out(ctx)
}

/// Makes sure that a tablespace exists, with an owner and options.
#[function]
fn present(
    ctx: &Context,
    name: String,
    directory: String,
    options: Option<Map>,
    #[default(Value::Null)] owner: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] maintenance_db: Value,
    #[default(Value::Null)] db_password: Value,
    #[default(Value::Null)] db_host: Value,
    #[default(Value::Null)] db_port: Value,
    #[default(Value::Null)] db_user: Value,
) -> Result<Ret> {
    let db = map! { "maintenance_db" => maintenance_db, "runas" => user, "host" => db_host, "user" => db_user, "port" => db_port, "password" => db_password };

    let ret = good(&name);
    let all = call(ctx, "postgres.tablespace_list", Vec::new(), db.clone())?;
    let Some(known) = all.get(&name).cloned() else {
        if ctx.is_test() {
            return Ok(ret.would(format!("Tablespace {name} is set to be created")));
        }
        let place = args![name.as_str(), directory, options, owner];
        return Ok(match call(ctx, "postgres.tablespace_create", place, db)?.truthy() {
            true => ret.ok(format!("The tablespace {name} has been created")).changed(map! { name => "Present" }),
            false => ret.fail(format!("Failed to create tablespace {name}")),
        });
    };
    let has = |key: &str| known.get(key).map(Value::to_string).unwrap_or_default();
    if has("Location") != directory && !ctx.is_test() {
        return Ok(ret.fail(format!(
            "Tablespace {name} is not at the right location. This is unfixable without dropping and recreating the tablespace."
        )));
    }
    let owner = owner.truthy().then(|| owner.to_string()).filter(|owner| *owner != has("Owner"));
    let opts = has("Opts");
    let options: Map = options
        .unwrap_or_default()
        .into_iter()
        .filter(|(option, value)| !opts.contains(&format!("{option}={value}")))
        .collect();
    alter(ctx, ret, &name, db, owner, options)
}

fn alter(ctx: &Context, ret: Ret, name: &str, db: Map, owner: Option<String>, options: Map) -> Result<Ret> {
    if owner.is_none() && options.is_empty() {
        return Ok(ret.ok(format!("Tablespace {name} is already present")));
    }
    let what = if options.is_empty() { "owner" } else { "options" };
    if ctx.is_test() {
        return Ok(ret.would(format!("Tablespace {name} {what} to be altered")));
    }
    let mut changes = Map::new();
    if let Some(owner) = owner {
        let mut wish = db.clone();
        wish.insert("new_owner", owner.as_str());
        if !call(ctx, "postgres.tablespace_alter", args![name], wish)?.truthy() {
            return Ok(ret.fail(format!("Failed to change the owner of tablespace {name}")));
        }
        changes.insert("owner", owner);
    }
    let mut done = Map::new();
    for (option, value) in options {
        let mut wish = db.clone();
        wish.insert("set_option", [(option.clone(), value.clone())].into_iter().collect::<Map>());
        if !call(ctx, "postgres.tablespace_alter", args![name], wish)?.truthy() {
            let text = format!("Failed to change the option {option} of tablespace {name}");
            return Ok(ret.fail(text).changed(map! { name => changes }));
        }
        done.insert(option, value);
    }
    if !done.is_empty() {
        changes.insert("options", done);
    }
    let text = if what == "owner" { "owner changed" } else { "opts changed" };
    Ok(ret.ok(format!("Tablespace {name} {text}")).changed(map! { name => changes }))
}
