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
        /// Who.
        pub id: MinionId,
        /// Whether what is there is replaced instead of updated.
        pub clear: Option<bool>,
    }
}

load! {
    /// A minion asks for the results of others.
    pub struct MineGet {
        cmd "_mine_get";
        /// Whose.
        pub tgt: Value,
        /// One name, names with commas, or a list.
        pub fun: Value,
        /// How `tgt` is meant.
        pub tgt_type: Option<Value>,
        /// The old name of `tgt_type`.
        pub expr_form: Option<Value>,
        /// Who asks.
        pub id: MinionId,
    }
}

load! {
    /// A minion takes one result back.
    pub struct MineDelete {
        cmd "_mine_delete";
        /// Which function's.
        pub fun: String,
        /// Who.
        pub id: MinionId,
    }
}

load! {
    /// A minion takes all its results back.
    pub struct MineFlush {
        cmd "_mine_flush";
        /// Who.
        pub id: MinionId,
    }
}
