//! The minion data cache of a master in the store that the option `cache` names: Salt's `localfs`, or a server that several
//! masters share.
//!
//! [`Cache`] is what the programs use. `localfs` is its own variant, which reads files as `store` does. A shared server is
//! behind [`Banks`], one module per driver, in Salt's own layout, so that Salt's masters can use the same server.
//!
//! A server that fails or does not answer within two seconds does not block the master: the request continues without
//! its data, and one warning per minute names the driver and the address.

mod banks;
mod cache;
pub mod consul;
mod error;
pub mod etcd;
pub mod http;
mod link;
mod memory;
pub mod mysql;
mod options;
mod part;
pub mod redis;
mod remote;
mod stamps;

pub use banks::{Banks, Place};
pub use cache::{BATCH, Cache};
pub use error::{Error, Result};
pub use part::Part;
