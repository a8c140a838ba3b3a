//! `rabbitmq_vhost`: virtual hosts.

use exec::{Context, Module, Result, function};
use value::{Map, map};

use super::{installed, with_answer};
use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("rabbitmq_vhost", "Virtual hosts of the broker.", &[&ABSENT, &PRESENT]).only_if(installed);

fn exists(ctx: &Context, name: &str) -> Result<bool> {
    Ok(call(ctx, "rabbitmq.vhost_exists", args![name], Map::new())?.truthy())
}

/// Makes sure that a virtual host exists.
#[function]
fn present(ctx: &Context, name: String) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if exists(ctx, &name)? {
        return Ok(ret.ok(format!("Virtual Host '{name}' already exists.")));
    }
    let changes = map! { "old" => "", "new" => name.as_str() };
    if ctx.is_test() {
        return Ok(ret.would(format!("Virtual Host '{name}' will be created.")).changed(changes));
    }
    let answer = call(ctx, "rabbitmq.add_vhost", args![name.as_str()], Map::new())?;
    let ret = with_answer(ret, &answer, "Added");
    Ok(if ret.result == Some(true) { ret.changed(changes) } else { ret })
}

/// Makes sure that a virtual host does not exist.
#[function]
fn absent(ctx: &Context, name: String) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if !exists(ctx, &name)? {
        return Ok(ret.ok(format!("Virtual Host '{name}' is not present.")));
    }
    let changes = map! { "new" => "", "old" => name.as_str() };
    if ctx.is_test() {
        return Ok(ret.would(format!("Virtual Host '{name}' will be removed.")).changed(changes));
    }
    let answer = call(ctx, "rabbitmq.delete_vhost", args![name.as_str()], Map::new())?;
    let ret = with_answer(ret, &answer, "Deleted");
    Ok(if ret.result == Some(true) { ret.changed(changes) } else { ret })
}
