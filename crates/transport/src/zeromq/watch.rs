//! Watching the request port of a peer.

use bytes::Bytes;
use rt::Rt;
use wire::zmtp::SocketType;

use super::stream::{Setup, ZmtpStream};
use crate::{Error, Target};

/// Holds a connection to a request port that asks nothing, and returns why it ended. With heartbeats a peer that fell silent
/// ends it as surely as one that closed.
pub async fn watch(rt: &Rt, target: &Target) -> Error {
    match hold(rt, target).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

async fn hold(rt: &Rt, target: &Target) -> Result<std::convert::Infallible, Error> {
    let made = rt.net().connect(&target.connect()).await?;
    let setup = Setup {
        socket: SocketType::Req,
        identity: Bytes::new(),
        limit: target.message_limit,
        budget: None,
        heartbeat: target.heartbeat,
        timeout: target.timeout,
    };
    let mut stream = ZmtpStream::open(made.stream, setup).await?;
    loop {
        stream.next().await?;
    }
}
