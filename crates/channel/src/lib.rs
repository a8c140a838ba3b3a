//! Transport with identity: sign-in, session keys, sealed requests and publications.
//!
//! [`server`] is the master's side: it opens what arrives, decides whether it may be answered, and seals what leaves. It
//! opens no socket; the master hands it decoded envelopes. [`client`] is the minion's side: one [`client::MasterChannel`]
//! per master, sharing nothing with the others.
//!
//! Protocol: Salt's request and publish channels, envelope versions 2 and 3.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod client;
pub mod server;
