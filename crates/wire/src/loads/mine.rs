//! The mine: what minions publish for each other.

use value::{Map, Value};

use super::field::load;
use crate::MinionId;

load! {
    /// A minion stores results.
    pub struct Mine {
        cmd "_mine";
        /// Function (or alias) to result.
        pub data: Map,
        /// The minion.
        pub id: MinionId,
        /// Replace the stored results instead of updating them.
        pub clear: Option<bool>,
    }
}

load! {
    /// A minion asks for the results of others.
    pub struct MineGet {
        cmd "_mine_get";
        /// The target: which minions' results.
        pub tgt: Value,
        /// One name, names with commas, or a list.
        pub fun: Value,
        /// The target type.
        pub tgt_type: Option<Value>,
        /// The old name of `tgt_type`.
        pub expr_form: Option<Value>,
        /// The requesting minion.
        pub id: MinionId,
    }
}

load! {
    /// A minion removes one of its results.
    pub struct MineDelete {
        cmd "_mine_delete";
        /// The function whose result is removed.
        pub fun: String,
        /// The minion.
        pub id: MinionId,
    }
}

load! {
    /// A minion removes all its results.
    pub struct MineFlush {
        cmd "_mine_flush";
        /// The minion.
        pub id: MinionId,
    }
}
