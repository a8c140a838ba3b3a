//! The file server's backends and the client's cache.
//!
//! [`FileServer`] answers the requests `_file_find`, `_file_hash`, `_serve_file` and so on from its backends: `roots`
//! (directories of this machine), `gitfs` (repositories) and `minionfs` (files pushed by minions). [`Inbox`] accepts pushed
//! files. [`FileClient`] queries such a server through a [`Remote`] (a channel to a master, or a server in the same process)
//! and caches files below the minion's `cachedir`, in Salt's layout.
//!
//! The server's functions block on the disk; call them on a blocking thread. The client is asynchronous. Nothing here opens a
//! socket.

mod client;
mod error;
mod path;
mod server;
pub mod url;

pub use client::{CachedDir, Content, FileClient, GetFile, LocalRemote, Remote, Reply};
pub use error::{Error, RemoteError, Result};
pub use server::{Chosen, Chunk, ChunkRequest, FileServer, Found, GitFs, Inbox, Lists, Piece, Update, Updated};
