//! Peer publishing: minions have the master command other minions.

use value::Value;

use super::field::{Lenient, Text, Texts, load};

load! {
    /// Publishes a job for the minion (`minion_pub`), or publishes it and waits for the returns (`minion_publish`).
    pub struct PeerPublish {
        /// The function, or several in a list or between commas.
        pub fun: Value,
        /// The arguments; a list of lists for several functions.
        pub arg: Value,
        /// The target.
        pub tgt: Value,
        /// The target type; `glob` if missing.
        pub tgt_type: Lenient<String>,
        /// Comma-separated returners.
        pub ret: Value,
        /// How many seconds to wait for returns.
        pub tmo: Option<Value>,
        /// `full`: the answer has the outputter beside each value.
        pub form: Lenient<String>,
        /// The names of arguments that are not read as YAML.
        pub no_parse: Texts,
    }
}

load! {
    /// Runs a runner for the minion.
    pub struct PeerRunner {
        cmd "minion_runner";
        /// The runner function.
        pub fun: String,
        /// The arguments.
        pub arg: Value,
    }
}

load! {
    /// Reads the returns of a job that the minion published. Answer: a map of minion to return.
    pub struct PeerReturns {
        cmd "pub_ret";
        /// The job.
        pub jid: Text,
    }
}
