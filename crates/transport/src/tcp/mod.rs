//! The transport `tcp`: MessagePack frames over TCP, optionally with TLS.

mod publish;
mod reply;
mod request;
mod stream;
mod subscribe;
mod watch;

pub use publish::publish;
pub use reply::serve;
pub use request::TcpRequester;
pub use subscribe::subscribe;
pub use watch::watch;
