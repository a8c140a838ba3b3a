//! `file.mod_beacon`: files and directories that are watched.

use exec::{Call, Context, KwArgs, Result, function};
use modules::file::perms::Report;
use value::{Map, Value, list, map};

use super::common::start;
use crate::Ret;

/// Makes a beacon that watches a managed file or directory.
#[function]
pub fn mod_beacon(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let ret = start(&name);
    let kwargs = kwargs.0;
    let sfun = kwargs.get("sfun").map(Value::to_string).unwrap_or_else(|| "None".into());
    if !["managed", "directory"].contains(&sfun.as_str()) {
        return Ok(ret.fail(format!("file.{sfun} does not work with the beacon state function")));
    }
    if !kwargs.get("beacon").is_some_and(Value::truthy) {
        return Ok(ret.ok("Not adding beacon."));
    }
    let given = kwargs.get("beacon_data").and_then(Value::as_map).cloned().unwrap_or_default();
    let or = |key: &str, default: Value| given.get(key).cloned().unwrap_or(default);
    let mut data: Map = map! { "mask" => or("mask", list!["create", "delete", "modify"]) };
    if sfun == "directory" {
        data.insert("auto_add", or("auto_add", true.into()));
        data.insert("recurse", or("recurse", true.into()));
        data.insert("exclude", or("exclude", list![]));
    }
    let kwargs = map! {
        "name" => format!("beacon_inotify_{name}"),
        "files" => map! { name.as_str() => data },
        "interval" => or("interval", 60.into()),
        "coalesce" => or("coalesce", false.into()),
        "beacon_module" => "inotify",
    };
    let made = ctx.call_state("beacon.present", Call { args: Vec::new(), kwargs })?;
    Ok(Report::from_map(made.into_map().unwrap_or_default()).into())
}
