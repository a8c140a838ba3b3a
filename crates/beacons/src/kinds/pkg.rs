//! `pkg` — packages that can be upgraded.

use std::collections::BTreeMap;

use exec::{Call, Context};
use futures_util::future::BoxFuture;
use value::{Map, Value, map};

use crate::config::{flat, is_on};
use crate::{Found, Kind, Watcher};

pub const KIND: Kind = Kind {
    name: "pkg",
    validate: |config, _| validate(config),
    watch: |config| Box::new(Packages { config: flat(config), known: BTreeMap::new() }),
};

fn validate(config: &Value) -> Result<(), String> {
    if config.as_list().is_none() {
        return Err("Configuration for pkg beacon must be a list.".to_owned());
    }
    match flat(config).get("pkgs") {
        Some(Value::List(_)) => Ok(()),
        _ => Err("Configuration for pkg beacon requires list of pkgs.".to_owned()),
    }
}

struct Packages {
    config: Map,
    known: BTreeMap<String, &'static str>,
}

impl Packages {
    async fn state(&self, ctx: &Context, name: &str) -> Result<(&'static str, Value), String> {
        let ask = |fun: &'static str, kwargs: Map| async move {
            let call = Call { args: vec![name.into()], kwargs };
            ctx.call_apart(fun, call).await.map_err(|error| error.to_string())
        };
        // The cached list of packages would hide what another program installed.
        let installed = ask("pkg.version", map! { "use_context" => false }).await?;
        if !installed.truthy() {
            return Ok(("not-installed", Value::Null));
        }
        let latest = ask("pkg.latest_version", map! { "refresh" => is_on(&self.config, "refresh") }).await?;
        Ok(if latest.truthy() { ("upgrade", latest) } else { ("installed", installed) })
    }
}

impl Watcher for Packages {
    fn look<'a>(&'a mut self, ctx: &'a Context) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let names = self.config.get("pkgs").and_then(Value::as_list).unwrap_or_default().to_vec();
            let mut found = Vec::new();
            for name in names.iter().map(Value::to_string) {
                let (state, version) = self.state(ctx, &name).await?;
                let before = self.known.insert(name.clone(), state);
                // The first look only notes the state.
                if before.is_some_and(|before| before != state) {
                    found.push(map! { "pkg" => name, "version" => version, "status" => state });
                }
            }
            Ok(found)
        })
    }
}
