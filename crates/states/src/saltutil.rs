//! `saltutil`: custom modules are fetched from the file server while states run.

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::call_with_kwargs;

/// Calls `saltutil.sync_<what>`; a failure is logged and reported.
fn synced(ctx: &Context, what: &str, kwargs: Map) -> Result<std::result::Result<Value, String>> {
    Ok(match call_with_kwargs(ctx, &format!("saltutil.sync_{what}"), kwargs) {
        Ok(answer) => Ok(answer),
        Err(error) => {
            let text = error.to_string();
            tracing::error!("Failed to run saltutil.sync_{what}: {text}");
            Err(format!("Failed to run sync_{what}: {text}"))
        }
    })
}

fn one(ctx: &Context, ret: Ret, what: &str, kwargs: KwArgs) -> Result<Ret> {
    if ctx.is_test() {
        return Ok(ret.would(format!("saltutil.sync_{what} would have been run")));
    }
    Ok(match synced(ctx, what, kwargs.given())? {
        Ok(files) if files.truthy() => ret.ok(format!("Updated {what}.")).changed(map! { what => files }),
        Ok(_) => ret.ok("No updates to sync"),
        Err(text) => ret.fail(text),
    })
}

/// Fetches custom modules of all kinds, as `saltutil.sync_all` does.
#[function]
fn sync_all(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name);
    if ctx.is_test() {
        return Ok(ret.would("saltutil.sync_all would have been run"));
    }
    let answer = match synced(ctx, "all", kwargs.given())? {
        Ok(answer) => answer,
        Err(text) => return Ok(ret.fail(text)),
    };
    let mut changes = answer.into_map().unwrap_or_default();
    changes.retain(|_, files| files.truthy());
    let comment = if changes.is_empty() { "No updates to sync" } else { "Sync performed" };
    Ok(ret.ok(comment).changed(changes))
}

macro_rules! kinds {
    ($($static:ident $function:ident $what:literal $doc:tt)*) => {
        $(
            #[doc = $doc]
            #[function]
            fn $function(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
                one(ctx, Ret::new(name), $what, kwargs)
            }
        )*

        /// The module.
        pub static MODULE: Module =
            Module::new("saltutil", "Custom modules are fetched while states run.", &[&SYNC_ALL, $(&$static),*]);
    };
}

kinds! {
    SYNC_BEACONS sync_beacons "beacons" "Fetches custom beacons."
    SYNC_CLOUDS sync_clouds "clouds" "Fetches custom modules for clouds."
    SYNC_ENGINES sync_engines "engines" "Fetches custom engines."
    SYNC_EXECUTORS sync_executors "executors" "Fetches custom executors."
    SYNC_GRAINS sync_grains "grains" "Fetches custom grains."
    SYNC_LOG_HANDLERS sync_log_handlers "log_handlers" "Fetches custom log handlers."
    SYNC_MATCHERS sync_matchers "matchers" "Fetches custom matchers."
    SYNC_MODULES sync_modules "modules" "Fetches custom execution modules."
    SYNC_OUTPUT sync_output "output" "Fetches custom outputters, under another name."
    SYNC_OUTPUTTERS sync_outputters "outputters" "Fetches custom outputters."
    SYNC_PILLAR sync_pillar "pillar" "Fetches custom modules for pillar."
    SYNC_PROXYMODULES sync_proxymodules "proxymodules" "Fetches custom proxy modules."
    SYNC_RENDERERS sync_renderers "renderers" "Fetches custom renderers."
    SYNC_RESOURCES sync_resources "resources" "Fetches custom resources."
    SYNC_RETURNERS sync_returners "returners" "Fetches custom returners."
    SYNC_SDB sync_sdb "sdb" "Fetches custom modules for sdb."
    SYNC_SERIALIZERS sync_serializers "serializers" "Fetches custom serializers."
    SYNC_STATES sync_states "states" "Fetches custom state modules."
    SYNC_THORIUM sync_thorium "thorium" "Fetches custom modules for thorium."
    SYNC_TOPS sync_tops "tops" "Fetches custom modules for top files."
    SYNC_UTILS sync_utils "utils" "Fetches custom modules that others share."
    SYNC_WRAPPER sync_wrapper "wrapper" "Fetches custom wrappers."
}
