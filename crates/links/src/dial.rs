//! Dialling: one task for each address and lane, which tries again until the member there is linked.

use std::sync::Arc;
use std::time::Duration;

use rt::{Connect, Connection, Keepalive};
use share::{Lane, Node};

use crate::backoff::Backoff;
use crate::handshake::{Dial, meet};
use crate::host_port::split;
use crate::hub::Hub;
use crate::welcome::welcome;
use peers::failed::{Failed, PATIENCE};
use peers::target::Target;

/// Finds a dead peer behind a connection that only waits, as the bulk lane does.
pub(crate) const KEEPALIVE: Keepalive =
    Keepalive { idle: Some(Duration::from_secs(10)), interval: Some(Duration::from_secs(5)), count: Some(3) };

/// The pause after a refusal although members were decided about meanwhile: decisions may be many.
const SHORTEST: Duration = Duration::from_millis(500);

/// Dials one address for ever.
pub(crate) async fn dial(hub: Arc<Hub>, target: Target, lane: Lane) {
    let mut backoff = Backoff::new();
    // Who is linked by another address is not dialled.
    let mut node = target.member;
    loop {
        hub.lacks(node, lane).await;
        let (decided, mut is_refused) = (hub.decided().seen(), false);
        match attempt(&hub, &target, lane, &mut node).await {
            Ok(()) => backoff.reset(),
            // Both dialled at once, and the other connection was chosen.
            Err(Failed::Linked) => {}
            Err(failed) => {
                hub.dialled_in_vain(&target, &failed);
                is_refused = failed.is_decided();
                if matches!(failed, Failed::Myself) {
                    return;
                }
            }
        }
        let (least, most) = backoff.next();
        let pause = hub.rt.between(least, most);
        tokio::time::sleep(pause.min(SHORTEST)).await;
        // Whoever was refused and is accepted now need not wait for the rest.
        let rest = tokio::time::sleep(pause.saturating_sub(SHORTEST));
        tokio::select! {
            biased;
            () = rest => {}
            () = hub.decided().after(decided), if is_refused => {}
        }
    }
}

async fn attempt(hub: &Arc<Hub>, target: &Target, lane: Lane, node: &mut Option<Node>) -> Result<(), Failed> {
    let address = &target.address;
    let connection = connect(hub, address).await?;
    let dial = Dial { lane, proves: target.member.is_none() };
    let linked = async {
        let met = meet(hub, connection, Some(dial), |found| hub.answered(address, found)).await?;
        *node = Some(met.node);
        welcome(hub, met).await
    };
    tokio::time::timeout(PATIENCE, linked).await.map_err(|_| Failed::Slow)?
}

/// Tries all addresses of a host.
async fn connect(hub: &Hub, address: &str) -> Result<Connection, Failed> {
    let (host, port) = split(address, hub.options.listen.port());
    let unknown = |error| Failed::Name { host: host.to_owned(), error };
    let mut failed = unknown(std::io::ErrorKind::NotFound.into());
    let mut weight = None;
    for to in hub.rt.net().resolve(host, port).await.map_err(unknown)? {
        hub.reserve(to.ip());
        let connect = Connect { keepalive: Some(KEEPALIVE), timeout: PATIENCE, ..Connect::to(to) };
        match hub.rt.net().connect(&connect).await {
            Ok(connection) => return Ok(connection),
            Err(error) => {
                let new = Failed::Unreachable { to, error };
                if weight <= Some(new.weight()) {
                    (weight, failed) = (Some(new.weight()), new);
                }
            }
        }
    }
    Err(failed)
}
