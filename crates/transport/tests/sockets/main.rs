//! Both transports over real sockets and sockets in memory.

mod common;
mod heartbeats;
mod publications;
mod real_salt;
mod requests;
mod strangers;
mod tls;
mod unread;
