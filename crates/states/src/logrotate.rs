//! `logrotate`: how logs are rotated.

use exec::{Context, Error, Module, Result, function};
use value::{Value, map};

use crate::Ret;
use crate::support::{call_with_kwargs, equal};

/// The module.
pub static MODULE: Module = Module::new("logrotate", "Logs are rotated as wanted.", &[&SET]);

/// A number, where a text is one.
fn plain(value: Value) -> Value {
    match value.as_str().and_then(|text| text.trim().parse::<i64>().ok()) {
        Some(number) => number.into(),
        None => value,
    }
}

/// Makes sure that a setting has a value, or with `setting` that the setting `value` of a block has it.
#[function]
fn set(
    ctx: &Context,
    name: String,
    key: Value,
    value: Value,
    #[default(Value::Null)] setting: Value,
    #[default("/etc/logrotate.conf")] conf_file: Value,
) -> Result<Ret> {
    let ret = Ret::new(name);
    let single = setting.is_null();
    let mut asked = map! { "key" => key.clone() };
    if !single {
        asked.insert("value", value.clone());
    }
    asked.insert("conf_file", conf_file.clone());
    let current = match call_with_kwargs(ctx, "logrotate.get", asked) {
        Err(Error::Other(_)) => false.into(),
        answer => answer?,
    };
    let (wanted, what, asked) = if single {
        let wanted = plain(value);
        let asked = map! { "key" => key.clone(), "value" => wanted.clone(), "conf_file" => conf_file };
        (wanted, format!("command '{key}'"), asked)
    } else {
        let wanted = plain(setting);
        let what = format!("block '{key}' command '{value}'");
        let asked = map! { "key" => key, "value" => value, "setting" => wanted.clone(), "conf_file" => conf_file };
        (wanted, what, asked)
    };
    // At the start of a sentence.
    let subject = format!("{}{}", what[..1].to_uppercase(), &what[1..]);
    if equal(&current, &wanted) {
        return Ok(ret.ok(format!("{subject} already has value: {wanted}")));
    }
    let ret = ret.changed(map! { "old" => current, "new" => wanted.clone() });
    if ctx.is_test() {
        return Ok(ret.would(format!("{subject} will be set to value: {wanted}")));
    }
    Ok(match call_with_kwargs(ctx, "logrotate.set", asked)?.truthy() {
        true => ret.ok(format!("Set {what} value: {wanted}")),
        false => ret.fail(format!("Unable to set {what} value: {wanted}")),
    })
}
