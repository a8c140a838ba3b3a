//! `status`: load and processes, watched over.

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map, python};

use crate::Ret;
use crate::support::call_with_kwargs;

/// The module.
pub static MODULE: Module = Module::new("status", "Load and processes, watched over.", &[&LOADAVG, &PROCESS]);

fn start(name: Value) -> Ret {
    let mut ret = Ret::new(name);
    ret.more.insert("data", Map::new());
    ret
}

fn number(value: &Value) -> Result<f64> {
    let parsed = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    parsed.ok_or_else(|| Error::Other(format!("could not convert string to float: {}", python::repr(value))))
}

/// Checks that a load average (``1-min``, ``5-min`` or ``15-min``) is within bounds.
#[function]
fn loadavg(ctx: &Context, name: Value, maximum: Option<Value>, minimum: Option<Value>) -> Result<Ret> {
    let mut ret = start(name.clone());
    let data = call_with_kwargs(ctx, "status.loadavg", Map::new())?.into_map().unwrap_or_default();
    let Some(found) = data.get_value(&name) else {
        return Ok(ret.fail(format!("Requested load average {name} not available ")));
    };
    let given = |value: Option<Value>| value.filter(Value::truthy);
    let (minimum, maximum) = (given(minimum), given(maximum));
    if let (Some(minimum), Some(maximum)) = (&minimum, &maximum)
        && number(minimum)? >= number(maximum)?
    {
        return Ok(ret.fail("Min must be less than max"));
    }
    let load = number(found)?;
    let shown = python::repr_float(load);
    ret.more.insert("data", found.clone());
    if let Some(minimum) = minimum
        && load < number(&minimum)?
    {
        return Ok(ret.fail(format!("Load avg is below minimum of {minimum} at {shown}")));
    }
    if let Some(maximum) = maximum
        && load > number(&maximum)?
    {
        return Ok(ret.fail(format!("Load avg above maximum of {maximum} at {shown}")));
    }
    Ok(ret.ok("Load avg in acceptable range"))
}

/// Checks that a process runs whose line of ``ps`` contains the pattern.
#[function]
fn process(ctx: &Context, name: Value) -> Result<Ret> {
    let mut ret = start(name.clone());
    let data = call_with_kwargs(ctx, "status.pid", map! { "sig" => name.clone() })?;
    if !data.truthy() {
        return Ok(ret.fail(format!("Process signature \"{name}\" not found ")));
    }
    ret.more.insert("data", data);
    Ok(ret.ok(format!("Process signature \"{name}\" was found ")))
}
