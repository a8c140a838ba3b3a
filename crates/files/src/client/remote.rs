//! The server that a client uses.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use value::{Map, Value};

use crate::{FileServer, RemoteError};

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Text becomes strings.
    Text,
    /// Everything stays bytes, for chunks of files.
    Raw,
}

/// A file server: a channel to a master, or one in this process.
///
/// Several requests are outstanding at once, and each is answered on its own. The implementation waits, applies timeouts and
/// signs in again.
pub trait Remote: Send + Sync {
    /// Sends a load with its `cmd`, and returns the answer.
    fn call(&self, load: Map, reply: Reply) -> Pin<Box<dyn Future<Output = Result<Value, RemoteError>> + Send + '_>>;
}

/// A file server in this process (`file_client: local`).
pub struct LocalRemote(pub Arc<FileServer>);

impl Remote for LocalRemote {
    fn call(&self, load: Map, _: Reply) -> Pin<Box<dyn Future<Output = Result<Value, RemoteError>> + Send + '_>> {
        let server = Arc::clone(&self.0);
        Box::pin(async move {
            // Without a master no other process updates the repositories.
            server.fetch_due();
            server.request(&load)?.ok_or_else(|| "the file server does not know this request".into())
        })
    }
}
