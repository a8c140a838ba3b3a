//! Events that minions send to the master's bus: `_minion_event`.

use value::{Map, Value};

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

load! {
    /// Several events.
    pub struct MinionEvents {
        /// The sender.
        pub id: MinionId,
        cmd "_minion_event";
        /// The prefix of all tags, or `None`.
        pub pretag: Option<Nullable<String>>,
        /// The events, each an [`EventItem`].
        pub events: Vec<Map>,
    }
}

load! {
    /// One of several events.
    pub struct EventItem {
        /// The tag.
        pub tag: String,
        /// The data; when missing, the item itself is the data.
        pub data: Option<Value>,
    }
}
