//! `pkg.mod_beacon`: packages that are watched.

use exec::{Context, KwArgs, Result, function};
use value::{list, map};

use crate::Ret;
use crate::beacon::{made, without};

/// Makes a beacon that watches packages which are installed or removed.
#[function]
fn mod_beacon(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let kwargs = kwargs.0;
    let wrong = |sfun: &str| format!("pkg.{sfun} does not work with the mod_beacon state function");
    if let Some(ret) = without(&name, &kwargs, &["installed", "removed"], wrong) {
        return Ok(ret);
    }
    let beacon = map! {
        "name" => format!("beacon_pkg_{name}"),
        "pkgs" => kwargs.get("pkgs").cloned().unwrap_or_else(|| list![name]),
        "interval" => 60,
        "beacon_module" => "pkg",
    };
    made(ctx, beacon)
}
