//! What minions want to know of the master, or tell it about themselves.

use value::{Map, Value};

use super::field::load;
use crate::MinionId;

load! {
    /// Which options of the master matter for rendering?
    pub struct MasterOpts {
        cmd "_master_opts";
        /// Only those about environments.
        pub env_only: Option<bool>,
    }
}

load! {
    /// Which states does the master assign from outside the top file?
    pub struct MasterTops {
        cmd "_master_tops";
        /// Who asks.
        pub id: MinionId,
        /// The minion's options with its grains.
        pub opts: Map,
    }
}

load! {
    /// A minion tells which resources it manages (3008).
    pub struct RegisterResources {
        cmd "_register_resources";
        /// Who.
        pub id: MinionId,
        /// Type to ids.
        pub resources: Map,
        /// Their grains.
        pub resource_grains: Option<Value>,
    }
}
