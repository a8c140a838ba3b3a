//! `_register_resources`: a minion of Salt 3008 lists the resources that it manages.

use tracing::debug;

use super::{Answer, Ask};

/// Accepts the list without storing it, so that such minions start. Resources cannot be targeted.
pub fn handle(ask: Ask) -> Answer {
    let count = ask.load.get("resources").and_then(value::Value::as_map).map_or(0, value::Map::len);
    debug!("minion registered {count} kinds of resources, which are not targeted yet");
    true.into()
}
