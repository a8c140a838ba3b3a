//! Watches the request port of a peer.

use rt::Rt;
use value::map;
use wire::envelope::Envelope;

use super::request::TcpRequester;
use crate::{Error, Requester, Target};

/// Sends the unencrypted command `ping`, which all masters answer, at the interval of the target's heartbeat, because
/// the transport has no heartbeats of its own. Returns why no answer arrived. Without a heartbeat this never returns.
pub async fn watch(rt: &Rt, target: &Target) -> Error {
    let Some(beat) = target.heartbeat else { return std::future::pending().await };
    let requester = TcpRequester::new(rt.clone(), target.clone());
    let patience = beat.dead_after.saturating_sub(beat.every);
    loop {
        let ping = Envelope::clear(map! { "cmd" => "ping" });
        match requester.ask(ping, patience).await {
            Ok(_) => {
                target.note_heard();
                tokio::time::sleep(beat.every).await;
            }
            Err(Error::Timeout(time)) => return Error::Silent(time),
            Err(other) => return other,
        }
    }
}
