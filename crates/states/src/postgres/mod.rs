//! States of PostgreSQL: `postgres_database`, `postgres_user` and so on, one file each.

pub mod database;
pub mod extension;
pub mod group;
pub mod initdb;
pub mod language;
pub mod privileges;
mod role;
pub mod schema;
pub mod tablespace;
pub mod user;

use exec::{Context, Result};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::{call, needs};

/// Checks that the functions of PostgreSQL are available.
fn installed(_grains: &Map) -> std::result::Result<(), String> {
    needs(&["psql"], "Unable to load postgres module.  Make sure `postgres.bins_dir` is set.")
}

fn good(name: &str) -> Ret {
    Ret { result: Some(true), ..Ret::new(name) }
}

/// Something to remove, with its name for comments.
struct Removal<'a> {
    /// Such as `Database shop`.
    what: &'a str,
    name: &'a str,
    /// The function that returns whether it exists.
    exists: &'a str,
    /// The function that removes it.
    remove: &'a str,
    args: Vec<Value>,
    kwargs: Map,
}

impl Removal<'_> {
    fn carry_out(self, ctx: &Context) -> Result<Ret> {
        let Removal { what, name, exists, remove, args, kwargs } = self;
        let ret = good(name);
        if !call(ctx, exists, args.clone(), kwargs.clone())?.truthy() {
            return Ok(ret.ok(format!("{what} is not present, so it cannot be removed")));
        }
        if ctx.is_test() {
            return Ok(ret.would(format!("{what} is set to be removed")));
        }
        Ok(match call(ctx, remove, args, kwargs)?.truthy() {
            true => ret.ok(format!("{what} has been removed")).changed(map! { name => "Absent" }),
            false => ret.fail(format!("{what} failed to be removed")),
        })
    }
}
