//! Jobs: whether a publication is ours, running its function, and what is returned.

mod arguments;
mod outcome;
mod publication;
mod recent;
mod run;
mod running;
mod twins;

pub use outcome::{Outcome, return_load};
pub use publication::{FunctionCall, Publication};
pub use recent::RecentJids;
pub use run::{run, run_alone};
pub use running::{Running, signal_process};
pub use twins::{APART, Outlet, Returned, Seen, Twins};
