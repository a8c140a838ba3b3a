//! The event bus: tags, subscriptions, the sockets that local programs use.
//!
//! [`Bus`] carries the events of one daemon: an event is published once, and each [`Subscription`] gets a handle to the
//! same bytes through a separate bounded queue. [`serve`] opens the bus to other programs on the host through the two
//! sockets that Salt uses (`master_event_pub.ipc` to listen, `master_event_pull.ipc` to send), in the form that each
//! release of Salt understands. [`Remote`] is the client side of these sockets, for programs that talk to a daemon of
//! Saltern or Salt.
//!
//! The bus never waits for a slow reader (which loses its connection, or old events), never polls, and never copies an event
//! for each reader.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bus;
mod endpoint;
mod filter;
#[allow(clippy::disallowed_methods, reason = "the process behind a Unix socket is never simulated")]
mod peer;
mod remote;
mod server;
mod shared;
mod stamp;

pub use bus::{Bus, Lag, Limits, Subscription};
pub use endpoint::{Endpoint, Endpoints, PlaceholderSocket};
pub use filter::{Filter, InvalidPattern, MatchType};
pub use peer::{FormChoice, Release};
pub use remote::{Listening, Remote, RemoteError};
pub use server::{ServeError, ServeOptions, Server, serve};
pub use shared::{Event, Source};
pub use stamp::{PEER, STAMP, stamp};
pub use wire::event::{DEFAULT_MAX_SIZE, Error as EventError, tag};
pub use wire::ipc::Form;
