//! Both transports over real and imagined sockets.

mod common;
mod heartbeats;
mod publications;
mod real_salt;
mod requests;
mod strangers;
mod tls;
mod unread;
