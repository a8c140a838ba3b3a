//! Watches the request port of a peer.

use rt::Rt;
use wire::zmtp::SocketType;

use super::stream::dial;
use crate::{Error, Target};

/// Keeps a connection to a request port open without sending requests, and returns why it ended. With heartbeats it
/// also ends when the peer falls silent.
pub async fn watch(rt: &Rt, target: &Target) -> Error {
    match hold(rt, target).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

async fn hold(rt: &Rt, target: &Target) -> Result<std::convert::Infallible, Error> {
    let mut stream = dial(rt, target, SocketType::Req, "").await?;
    stream.on_heard.clone_from(&target.on_heard);
    target.note_heard();
    loop {
        stream.next().await?;
    }
}
