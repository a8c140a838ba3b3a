//! `locale`: the system's locale, and locales that exist.

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use crate::support::{call, caught};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("locale", "The system's locale, and locales that exist.", &[&PRESENT, &SYSTEM]);

/// Makes sure that the system uses a locale.
#[function]
fn system(ctx: &Context, name: String) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    match set(ctx, &name, ret.clone()) {
        Ok(ret) => Ok(ret),
        Err(error) => Ok(ret.fail(format!("Failed to set system locale: {}", caught(error)?.text))),
    }
}

fn set(ctx: &Context, name: &str, ret: Ret) -> Result<Ret> {
    let current = call(ctx, "locale.get_locale", args![], Map::new())?;
    if current == Value::from(name) {
        return Ok(ret.ok(format!("System locale {name} already set")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("System locale {name} needs to be set")));
    }
    Ok(match call(ctx, "locale.set_locale", args![name], Map::new())?.truthy() {
        true => ret.ok(format!("Set system locale {name}")).changed(map! { "locale" => name }),
        false => ret.fail(format!("Failed to set system locale to {name}")),
    })
}

/// Makes sure that a locale exists.
#[function]
fn present(ctx: &Context, name: String) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if call(ctx, "locale.avail", args![name.as_str()], Map::new())?.truthy() {
        return Ok(ret.ok(format!("Locale {name} is already present")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Locale {name} needs to be generated")));
    }
    Ok(match call(ctx, "locale.gen_locale", args![name.as_str()], Map::new())?.truthy() {
        true => ret.ok(format!("Generated locale {name}")).changed(map! { "locale" => name }),
        false => ret.fail(format!("Failed to generate locale {name}")),
    })
}
