//! The file server's backends and the client's cache.
