//! Requests about options, states and resources.

use value::{Map, Value};

use super::field::load;
use crate::MinionId;

load! {
    /// A minion asks for the master's options that matter for rendering.
    pub struct MasterOpts {
        cmd "_master_opts";
        /// Only the options about environments.
        pub env_only: Option<bool>,
    }
}

load! {
    /// A minion asks which states the master assigns it from outside the top file.
    pub struct MasterTops {
        cmd "_master_tops";
        /// The requesting minion.
        pub id: MinionId,
        /// The minion's options with its grains.
        pub opts: Map,
    }
}

load! {
    /// A minion registers the resources that it manages (3008).
    pub struct RegisterResources {
        cmd "_register_resources";
        /// The minion.
        pub id: MinionId,
        /// Type to ids.
        pub resources: Map,
        /// Their grains.
        pub resource_grains: Option<Value>,
    }
}
