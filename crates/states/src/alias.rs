//! `alias`: mail aliases.

use exec::{Context, Module, Result, function};
use value::{Value, map};

use crate::Ret;
use crate::support::call_for_bool;

/// The module.
pub static MODULE: Module = Module::new("alias", "Mail aliases.", &[&ABSENT, &PRESENT]);

/// Makes sure that an alias has this target.
#[function]
fn present(ctx: &Context, name: Value, target: Value) -> Result<Ret> {
    let ret = Ret::new(name.clone());
    let arguments = map! { "alias" => name.clone(), "target" => target.clone() };
    if call_for_bool(ctx, "aliases.has_target", arguments.clone())? {
        return Ok(ret.ok(format!("Alias {name} already present")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Alias {name} -> {target} is set to be added")));
    }
    if call_for_bool(ctx, "aliases.set_target", arguments)? {
        let changes = map! { "alias" => name.clone() };
        return Ok(ret.changed(changes).ok(format!("Set email alias {name} -> {target}")));
    }
    Ok(ret.fail(format!("Failed to set alias {name} -> {target}")))
}

/// Makes sure that there is no such alias.
#[function]
fn absent(ctx: &Context, name: Value) -> Result<Ret> {
    let ret = Ret::new(name.clone());
    let arguments = map! { "alias" => name.clone() };
    if !call_for_bool(ctx, "aliases.get_target", arguments.clone())? {
        return Ok(ret.ok(format!("Alias {name} already absent")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Alias {name} is set to be removed")));
    }
    if call_for_bool(ctx, "aliases.rm_alias", arguments.clone())? {
        return Ok(ret.changed(arguments).ok(format!("Removed alias {name}")));
    }
    Ok(ret.fail(format!("Failed to remove alias {name}")))
}
