//! The mine: values that minions store on the master for other minions.

use value::{Map, Value};

use super::field::{Lenient, load};

load! {
    /// Stores values in the minion's mine.
    pub struct MineStore {
        cmd "_mine";
        /// The values by the names of their functions.
        pub data: Map,
        /// Deletes the values of before.
        pub clear: Option<bool>,
    }
}

load! {
    /// Deletes a value of the minion's mine.
    pub struct MineDelete {
        cmd "_mine_delete";
        /// The name of its function.
        pub fun: Value,
    }
}

load! {
    /// Reads mines of other minions. Answer: a map of minion to value, or of function to such a map for several functions.
    pub struct MineGet {
        cmd "_mine_get";
        /// The target.
        pub tgt: Value,
        /// The functions: text with commas, or a list.
        pub fun: Value,
        /// The target type; `glob` if missing.
        pub tgt_type: Lenient<String>,
        /// The same, from old releases.
        pub expr_form: Lenient<String>,
    }
}
