//! Events that minions send to the master's bus: `_minion_event`.

use value::Value;

use super::field::{Nullable, load};
use crate::MinionId;

load! {
    /// One event. On the master's bus the whole load becomes the event's data, so readers find the minion's data under
    /// `data`.
    pub struct MinionEvent {
        /// The sender.
        pub id: MinionId,
        cmd "_minion_event";
        /// The prefix of the tag, or `None`.
        pub pretag: Option<Nullable<String>>,
        /// The data.
        pub data: Value,
        /// The tag.
        pub tag: String,
        /// The minion's grains, in start events.
        pub grains: Option<Value>,
    }
}
