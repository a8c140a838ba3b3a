//! The requests of programs, which carry their own credentials.

use super::{Answer, Ask, Handler, alive, held, publish, status, token};

/// All of them, by name; sign-ins go their own way.
pub const TABLE: &[(&str, Handler)] = &[
    ("ping", ping),
    ("publish", publish::handle),
    ("runner", crate::functions::runner),
    ("wheel", crate::functions::wheel),
    ("get_token", token::get),
    ("mk_token", token::make),
    ("saltern_alive", alive::handle),
    ("saltern_away", alive::away),
    ("saltern_held", held::list),
    ("saltern_job", held::job),
    ("saltern_drop", held::drop_job),
    ("saltern_status", status::handle),
];

fn ping(ask: Ask) -> Answer {
    ask.load.into()
}
