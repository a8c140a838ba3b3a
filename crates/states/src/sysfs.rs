//! `sysfs`: attributes of the kernel's objects have certain values.

use std::sync::LazyLock;

use exec::{Context, Module, Result, function};
use regex::Regex;
use value::{Map, Value, map};

use crate::support::{call, equal};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("sysfs", "Attributes of the kernel's objects have certain values.", &[&PRESENT]);

/// Returns the choice in a text such as `always [madvise] never`.
fn chosen(text: &str) -> String {
    static AROUND: LazyLock<Regex> = LazyLock::new(|| Regex::new(r".*\[|\].*").expect("the pattern is constant"));
    AROUND.replace_all(text, "").into_owned()
}

/// Makes sure that an attribute, a path below `/sys`, has a value until the next reboot.
#[function]
fn present(ctx: &Context, name: String, value: Value, #[default(Value::Null)] config: Value) -> Result<Ret> {
    let _ = config;
    let ret = Ret::new(name.as_str());
    let now = match call(ctx, "sysfs.read", args![name.as_str()], Map::new())? {
        Value::Bool(false) => return Ok(ret.fail(format!("SysFS attribute {name} doesn't exist."))),
        Value::Map(_) => return Ok(ret.fail(format!("{name} is not a SysFS attribute."))),
        Value::Str(text) => chosen(&text).into(),
        other => other,
    };
    if equal(&value, &now) {
        return Ok(ret.ok(format!("SysFS attribute {name} is already set.")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("SysFS attribute {name} set to be changed.")));
    }
    let written = call(ctx, "sysfs.write", args![name.as_str(), value.clone()], Map::new())?;
    Ok(match written.truthy() {
        true => ret.ok(format!("Updated SysFS attribute {name} to {value}")).changed(map! { name => value }),
        false => ret.fail(format!("Failed to set {name} to {value}")),
    })
}
