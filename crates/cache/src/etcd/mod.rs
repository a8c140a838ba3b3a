//! Salt's drivers for etcd.

mod cluster;
mod members;
mod v2;
mod v3;

use std::sync::Arc;

use crate::http::Target;
use crate::{Banks, Result};

/// The server, and what is sent with each request.
#[derive(Clone, PartialEq)]
pub struct Server {
    /// Its address.
    pub target: Target,
    /// The name and the password of the user.
    pub login: Option<(String, String)>,
    /// The directory of all banks, or the beginning of all keys, without slashes at its ends.
    pub prefix: String,
    /// Whether other members of the cluster are asked when one cannot be reached.
    pub reconnect: bool,
    /// The API that is used.
    pub api: Api,
}

/// The APIs of etcd. Each has a store of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Api {
    /// That of Salt's driver `etcd`.
    V2 {
        /// The end of the keys of times.
        suffix: String,
    },
    /// That of Salt's driver `etcd3`.
    V3,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        f.debug_struct("Server").field("target", &self.target).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns the name of the driver.
    pub(crate) fn driver(&self) -> &'static str {
        match self.api {
            Api::V2 { .. } => "etcd",
            Api::V3 => "etcd3",
        }
    }

    /// Returns the driver. Nothing is connected yet.
    ///
    /// # Errors
    /// If a file with certificates cannot be used.
    pub fn banks(self) -> Result<Arc<dyn Banks>> {
        match self.api.clone() {
            Api::V2 { suffix } => v2::banks(self, suffix),
            Api::V3 => v3::banks(self),
        }
    }
}
