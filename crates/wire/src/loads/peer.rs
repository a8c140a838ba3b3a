//! Requests of minions to the master on their behalf: run a runner, publish a job, revoke a key.

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
        /// The requesting minion.
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
                /// The target.
                pub tgt: Value,
                /// The target type.
                pub tgt_type: Option<Value>,
                /// Comma-separated returners.
                pub ret: Value,
                /// Seconds to wait.
                pub tmo: Option<Value>,
                /// `full`: more than the bare returns.
                pub form: Option<Value>,
                /// The requesting minion.
                pub id: MinionId,
                /// Names of arguments that stay text.
                pub no_parse: Option<Value>,
                /// Options of the publication.
                pub kwargs: Option<Map>,
            }
        }
    };
}

publication_for_a_minion!(
    /// Publish a job and return its id.
    MinionPub, "minion_pub"
);
publication_for_a_minion!(
    /// Publish a job and wait for its returns.
    MinionPublish, "minion_publish"
);

load! {
    /// A minion asks for the returns of a job that it published.
    pub struct PubRet {
        cmd "pub_ret";
        /// The job.
        pub jid: String,
        /// The requesting minion.
        pub id: MinionId,
    }
}

load! {
    /// A minion asks the master to delete the minion's key.
    pub struct RevokeAuth {
        cmd "revoke_auth";
        /// The minion.
        pub id: MinionId,
        /// Keep the cached grains, pillar and mine.
        pub preserve_minion_cache: Option<bool>,
    }
}
