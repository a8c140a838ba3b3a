//! Worlds and returns for tests.

use rt::Rt;
use value::{Map, list, map};

use crate::World;

/// A world with these options.
pub fn world(opts: Map) -> World {
    World::of_master(Rt::real(), opts)
}

/// A return as a minion hands it over.
pub fn ret() -> Map {
    map! {
        "success" => true, "return" => map! { "a" => list![1, "ä"] }, "retcode" => 0, "jid" => "20240229131415678901",
        "fun" => "test.echo", "fun_args" => list!["x"], "user" => "root", "id" => "web1",
    }
}
