//! Worlds and returns for tests.

use rt::Rt;
use value::{Map, list, map};

use crate::World;

/// Returns a world with these options.
pub fn world(opts: Map) -> World {
    World::of_master(Rt::real(), opts)
}

/// Returns a return as a minion passes it on.
pub fn ret() -> Map {
    map! {
        "success" => true, "return" => map! { "a" => list![1, "ä"] }, "retcode" => 0, "jid" => "20240229131415678901",
        "fun" => "test.echo", "fun_args" => list!["x"], "user" => "root", "id" => "web1",
    }
}
