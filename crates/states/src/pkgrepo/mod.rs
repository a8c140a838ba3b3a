//! `pkgrepo`: sources of packages that exist or not.

mod absent;
mod managed;

use exec::{Context, Module};
use modules::pkg::apt::Facts;

/// The module.
pub static MODULE: Module =
    Module::new("pkgrepo", "Sources of packages are there or not.", &[&absent::ABSENT, &managed::MANAGED]);

fn grain<'a>(ctx: &'a Context, name: &str) -> &'a str {
    ctx.grains.get_str(name).unwrap_or_default()
}

fn is_debian(ctx: &Context) -> bool {
    grain(ctx, "os_family") == "Debian"
}

fn facts(ctx: &Context) -> Facts<'_> {
    Facts { os: grain(ctx, "os"), codename: grain(ctx, "oscodename") }
}

/// Returns the comment of a test run.
fn would_differ(name: &str, done: &str) -> String {
    format!(
        "Package repo '{name}' {done}. This may cause pkg states to behave differently than stated if this action is \
         repeated without test=True, due to the differences in the configured repositories."
    )
}
