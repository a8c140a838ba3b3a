//! Unencrypted requests of programs, which carry their own credentials.

use value::map;

use super::{Answer, Ask, Handler, alive, held, publish, status, token};

/// The handlers by command. Sign-ins are handled elsewhere.
pub const TABLE: &[(&str, Handler)] = &[
    ("ping", ping),
    ("publish", publish::handle),
    ("runner", super::functions::runner),
    ("wheel", super::functions::wheel),
    ("get_token", token::get),
    ("mk_token", token::make),
    ("saltern_alive", alive::handle),
    ("saltern_away", alive::away),
    ("saltern_held", held::list),
    ("saltern_job", held::job),
    ("saltern_drop", held::drop_job),
    ("saltern_sharing", super::sharing::handle),
    ("saltern_status", status::handle),
];

/// The largest `ping` that is sent back, in bytes, because anyone can send one.
const ECHO: u64 = 1 << 10;

/// Sends the load back, or only the command if the load is large.
fn ping(ask: Ask) -> Answer {
    if crate::bounds::map_size(&ask.load) <= ECHO { ask.load.into() } else { map! { "cmd" => "ping" }.into() }
}
