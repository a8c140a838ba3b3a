//! Bytes without sockets: all messages between Salt's programs, as types.
//!
//! This crate turns bytes into typed messages and back. It opens no socket, reads no clock and holds no key: sealed
//! loads pass through it as opaque bytes (the crate `crypto` opens them), times come from the caller.
//!
//! * [`msgpack`]: the encoding below everything;
//! * [`zmtp`], [`tcp`], [`ipc`]: how messages are cut out of streams;
//! * [`msgpack`]: the encoding below everything;
//! * [`zmtp`], [`tcp`], [`ipc`]: cut messages out of streams;
//! * [`envelope`], [`event`], [`loads`]: the messages themselves;
//! * [`command`]: the commands that a master answers;
//! * [`id`], [`jid`], [`topic`]: names that have rules;
//! * [`network`]: groups addresses.

pub mod command;
pub mod envelope;
pub mod event;
pub mod id;
pub mod ipc;
pub mod jid;
pub mod loads;
pub mod msgpack;
pub mod network;
pub mod tcp;
pub mod topic;
pub mod zmtp;

pub use command::Command;
pub use id::{InvalidId, MinionId};
pub use jid::{InvalidJid, Jid};
pub use network::Network;

#[cfg(test)]
pub(crate) mod testing;
