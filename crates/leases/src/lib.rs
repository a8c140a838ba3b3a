//! What JetStream does for a set of masters: it grants leases by compare-and-set, and keeps a last copy of signed decisions.
//!
//! [`Lease`] decides about one lease, without I/O; [`Bucket`] is the store that it needs, in JetStream or in memory; [`Leases`] keeps
//! the leases of a process. Nothing but leases depends on the store.

mod bucket;
mod jetstream;
mod keep;
mod lease;
mod leases;
pub mod memory;
mod names;
mod objects;
mod proof;
mod token;

pub use bucket::{Bucket, BucketError, OpenError, Opened, Stored};
pub use jetstream::JetStreamBucket;
pub use keep::{Keep, KeepError, LONGEST};
pub use lease::{Answer, Grant, Holder, Lease, LeaseTimes, Request};
pub use leases::{Change, Health, Leases, Stranger};
pub use proof::{Entry, Proof, Verdict};
pub use token::{Token, Who};
