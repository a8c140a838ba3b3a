//! What minions may ask the master to do for them.

use value::{Map, Value};

use super::field::load;
use crate::MinionId;

load! {
    /// Run a runner.
    pub struct MinionRunner {
        cmd "minion_runner";
        /// The function.
        pub fun: String,
        /// The arguments.
        pub arg: Value,
        /// Seconds to wait.
        pub tmo: Option<Value>,
        /// Who asks.
        pub id: MinionId,
    }
}

macro_rules! publication_for_a_minion {
    ($(#[$meta:meta])* $name:ident, $cmd:literal) => {
        load! {
            $(#[$meta])*
            pub struct $name {
                cmd $cmd;
                /// The function; several with commas.
                pub fun: Value,
                /// The arguments, as on a command line.
                pub arg: Value,
                /// Whom.
                pub tgt: Value,
                /// How `tgt` is meant.
                pub tgt_type: Option<Value>,
                /// Comma-separated returners.
                pub ret: Value,
                /// Seconds to wait.
                pub tmo: Option<Value>,
                /// `full`: more than the bare returns.
                pub form: Option<Value>,
                /// Who asks.
                pub id: MinionId,
                /// Names of arguments to be left as text.
                pub no_parse: Option<Value>,
                /// Options of the publication.
                pub kwargs: Option<Map>,
            }
        }
    };
}

publication_for_a_minion!(
    /// Publish a job and tell its id.
    MinionPub, "minion_pub"
);
publication_for_a_minion!(
    /// Publish a job and wait for its returns.
    MinionPublish, "minion_publish"
);

load! {
    /// What has come back for a job this minion asked for?
    pub struct PubRet {
        cmd "pub_ret";
        /// The job.
        pub jid: String,
        /// Who asks.
        pub id: MinionId,
    }
}

load! {
    /// Forget my key.
    pub struct RevokeAuth {
        cmd "revoke_auth";
        /// Who.
        pub id: MinionId,
        /// Whether cached grains, pillar and mine stay.
        pub preserve_minion_cache: Option<bool>,
    }
}
