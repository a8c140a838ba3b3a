//! Published jobs: decides whether a publication targets this minion, runs its functions, and builds the return.

mod arguments;
mod execute;
mod intake;
mod outcome;
mod progress;
mod publication;
mod receipts;
mod recent;
mod run;
mod same_jid;
mod terms;

pub use intake::Jobs;
pub use outcome::{Outcome, return_load};
pub use progress::{LAST_PARTS, tell_progress};
pub use publication::{FunctionCall, Publication};
pub use recent::RecentJids;
pub use run::{run, run_alone};
pub use same_jid::{APART, ReturnReceiver, ReturnSender, SameJidJobs, Seen};
pub use terms::{FIELD as SALTERN_FIELD, Terms};
