//! Returning results: `_return`.

use value::Value;

use super::field::load;
use crate::MinionId;

load! {
    /// The result of a job on one minion.
    pub struct Return {
        cmd "_return";
        /// The minion.
        pub id: MinionId,
        /// True if `retcode` is 0; a map for several functions.
        pub success: Option<Value>,
        /// The value that the function returned.
        pub ret: Value = "return",
        /// The function's exit code; a map for several functions.
        pub retcode: Option<Value>,
        /// The job id, `req` (the master makes one) or `nocache` (the return is not kept).
        pub jid: String,
        /// The function, or a list of functions.
        pub fun: Option<Value>,
        /// The arguments it was called with.
        pub fun_args: Option<Value>,
        /// The user who requested the job.
        pub user: Option<Value>,
        /// The master that published it.
        pub master_id: Option<Value>,
        /// Data that the caller wants to find with the job later.
        pub metadata: Option<Value>,
        /// The outputter that shows the result best.
        pub out: Option<Value>,
        /// Configuration for the returners.
        pub ret_config: Option<Value>,
        /// Arguments for the returners.
        pub ret_kwargs: Option<Value>,
    }
}
