//! Salt's drivers for etcd.

mod cluster;
mod members;
mod v2;

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
    /// The directory of all banks, without slashes at its ends.
    pub prefix: String,
    /// Whether other members of the cluster are asked when one cannot be reached.
    pub reconnect: bool,
    /// The end of the keys of times.
    pub suffix: String,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        f.debug_struct("Server").field("target", &self.target).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns the driver. Nothing is connected yet.
    ///
    /// # Errors
    /// If a file with certificates cannot be used.
    pub fn banks(self) -> Result<Arc<dyn Banks>> {
        v2::banks(self)
    }
}
