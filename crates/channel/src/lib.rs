//! Transport with identity: sign-in, session keys, encrypted requests and publications.
//!
//! [`server`] is the master's side: it decrypts requests, decides whether they may be answered, and encrypts answers
//! and publications. It opens no socket; the master passes it decoded envelopes. [`client`] is the minion's side: one
//! [`client::MasterChannel`] per master, sharing nothing with the others.
//!
//! Protocol: Salt's request and publish channels, envelope versions 2 and 3.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod client;
pub mod server;
