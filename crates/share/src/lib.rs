//! What several masters share, so that they act as one set: the model, without I/O.
//!
//! Every member of the set keeps a full copy of the shared records on its own disk. Members send each other what changes over a
//! [`Carrier`], which may lose messages; what was lost is found later by comparing sums of the copies. Nothing here opens a
//! socket or a file, or reads a clock: time and messages come in as arguments, and what is to be done goes out as values.

mod carrier;
mod stamp;

pub use carrier::{Carrier, Incoming, Lane, SendResult, To};
pub use stamp::{HybridClock, Node, Stamp};
