//! `service.mod_beacon`: services that are watched.

use exec::{Context, KwArgs, Result, function};
use value::{Value, map};

use crate::Ret;
use crate::beacon::{made, without};

/// Makes a beacon that watches a service which runs or is dead.
#[function]
fn mod_beacon(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let kwargs = kwargs.0;
    let wrong = |sfun: &str| format!("service.{sfun} does not work with the beacon state function");
    if let Some(ret) = without(&name, &kwargs, &["running", "dead"], wrong) {
        return Ok(ret);
    }
    let given = kwargs.get("beacon_data").and_then(Value::as_map).cloned().unwrap_or_default();
    let or = |key: &str, default: Value| given.get(key).cloned().unwrap_or(default);
    let data = map! {
        "onchangeonly" => or("onchangeonly", true.into()),
        "delay" => or("delay", 0.into()),
        "emitatstartup" => or("emitatstartup", false.into()),
        // Without a value it has that of the other, as in Salt.
        "uncleanshutdown" => or("uncleanshutdown", or("emitatstartup", Value::Null)),
    };
    let beacon = map! {
        "name" => format!("beacon_service_{name}"),
        "services" => map! { name.as_str() => data },
        "interval" => or("interval", 60.into()),
        "beacon_module" => "service",
    };
    made(ctx, beacon)
}
