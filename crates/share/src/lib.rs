//! What several masters share, so that they act as one set: the model, without I/O.
//!
//! Every member of the set keeps a full copy of the shared records on its own disk. Members send each other what changes over a
//! [`Carrier`], which may lose messages; what was lost is found later by comparing sums of the copies. Nothing here opens a
//! socket or a file, or reads a clock: time and messages come in as arguments, and what is to be done goes out as values.

mod carrier;
mod class;
pub mod compare;
mod decision;
mod digest;
pub mod drift;
pub mod duties;
mod entry;
pub mod event_copies;
pub mod events;
pub mod fields;
mod files;
mod key;
pub mod member;
pub mod message;
mod model;
mod owners;
mod presence;
mod record;
mod records;
mod routes;
mod slots;
mod stamp;
mod sums;
pub mod testing;
mod traffic;
pub mod votes;

pub use carrier::{Carrier, Incoming, Lane, SendResult, To};
pub use class::{Class, Classes};
pub use decision::{By, Decision, MAX_CONTENT, MAX_DECISION, Seen, SignedDecision, State};
pub use digest::Digest;
pub use entry::{Entry, Wish};
pub use fields::Malformed;
pub use files::{FileVerdict, KeyFile, LossWatch, Lost, is_refused, judge};
pub use key::Key;
pub use message::Message;
pub use model::{Action, Change, KeptRecord, KeptVerdict, Model, Moment, SetClock, SetTime, Settings};
pub use owners::owner;
pub use presence::{Presence, PresenceError, PresenceSum};
pub use record::{Claim, Content, Record, Return};
pub use records::{Index, MemoryRecords, RecordChange, Records, StoreFailed};
pub use routes::Routes;
pub use slots::{JobTimes, MAX_SLOT, distinct_slots, lowest_free_slot};
pub use stamp::{HybridClock, Node, Stamp};
pub use sums::{ItemHash, Level, Sum, Sums, leaf_of};
pub use traffic::{RecordCounts, Way};
