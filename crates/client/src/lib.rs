//! The client of a master on this host: publishes jobs, gathers returns.
//!
//! Decisions are separate from sockets: [`gather`] decides when a job has ended, [`batch`] which minions are next.
//! [`LocalClient`] connects them with the event bus and request port of a Saltern or Salt master.

mod alive;
mod answers;
pub mod batch;
mod functions;
pub mod gather;
mod held;
mod local;
mod make_token;
mod proof;
mod request_port;
pub mod settings;
mod targets;
pub mod user;

pub use answers::{Alive, Away, Held};
pub use functions::Started;
pub use held::{Dropped, Progress};
pub use local::{Error, Job, LocalClient, Outcome, Settings, Ticket};
pub use proof::{Login, Proof};
pub use request_port::{RequestPort, RequestPortError, RequestPortSettings};
pub use targets::{resolve_nodegroups, target_list};
