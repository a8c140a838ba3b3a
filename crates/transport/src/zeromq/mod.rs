//! The transport `zeromq`: ZMTP 3 over TCP, as libzmq speaks it.

mod publish;
mod reply;
mod request;
mod stream;
mod subscribe;
mod watch;

pub use publish::publish;
pub use reply::serve;
pub use request::ZmqRequester;
pub use subscribe::subscribe;
pub use watch::watch;
