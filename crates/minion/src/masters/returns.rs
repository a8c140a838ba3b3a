//! Delivering a return to the master that published the job.

use std::sync::Arc;

use rt::Rt;
use tracing::{info, warn};
use value::{Map, Value};
use wire::msgpack::Decode;

use super::Link;

/// Delivers a return over the link its job came over. While the master is away the return waits for it; a master that is
/// there but does not answer is asked `return_retry_tries` times, `return_retry_timer` to `return_retry_timer_max` apart.
/// Says whether it was delivered.
pub async fn deliver(link: Arc<Link>, load: Map, rt: Rt) -> bool {
    let jid = load.get("jid").map(Value::to_string).unwrap_or_default();
    info!("Returning information for job: {jid}");
    let retry = &link.settings.returns;
    let wait = async {
        for _ in 0..retry.tries.max(1) {
            link.live().await;
            match attempt(&link, &load).await {
                Ok(()) => return true,
                Err(reason) => warn!(master = %link.settings.address, "failed to return job {jid}: {reason}"),
            }
            tokio::time::sleep(rt.between(retry.timer, retry.timer_max.max(retry.timer))).await;
        }
        false
    };
    let delivered = tokio::time::timeout(retry.patience, wait).await.unwrap_or(false);
    if !delivered {
        warn!(master = %link.settings.address, "The minion failed to return the job information for job {jid}.");
    }
    delivered
}

async fn attempt(link: &Link, load: &Map) -> Result<(), String> {
    let Some(channel) = link.channel() else { return Err("not connected".to_owned()) };
    let answer = channel.request(load.clone(), Some(link.settings.returns.timeout), Decode::Default).await;
    answer.map(|_| ()).map_err(|error| error.to_string())
}
