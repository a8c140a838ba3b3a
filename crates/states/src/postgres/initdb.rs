//! `postgres_initdb`: data directories of servers.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use super::{good, installed};
use crate::support::{call, call_with_kwargs};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("postgres_initdb", "Data directories of servers.", &[&PRESENT]).only_if(installed);

/// Makes sure that a directory holds the data of a server.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] password: Value,
    #[default("password")] auth: String,
    #[default("UTF8")] encoding: String,
    #[default(Value::Null)] locale: Value,
    #[default(Value::Null)] runas: Value,
    #[default(Value::Null)] waldir: Value,
    #[default(false)] checksums: bool,
) -> Result<Ret> {
    let ret = good(&name);
    let what = format!("Postgres data directory {name}");
    if call_with_kwargs(ctx, "postgres.datadir_exists", map! { "name" => name.as_str() })?.truthy() {
        return Ok(ret.ok(format!("{what} is already present")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("{what} is set to be initialized")));
    }
    let wishes = map! {
        "user" => user, "password" => password, "auth" => auth, "encoding" => encoding, "locale" => locale,
        "waldir" => waldir, "checksums" => checksums, "runas" => runas,
    };
    Ok(match call(ctx, "postgres.datadir_init", args![name.as_str()], wishes)?.truthy() {
        true => ret.ok(format!("{what} has been initialized")).changed(map! { name => "Present" }),
        false => ret.fail(format!("{what} initialization failed")),
    })
}
