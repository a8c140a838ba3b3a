//! What the other masters of a set must know at once of what a runner has done.

use std::time::Duration;

use client::{LocalClient, settings};
use value::Map;
use value::error::chain;

use crate::RunnerContext;

/// How long the master of this host may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Has the master of this host share what a runner has changed in its files, if it is one of a set.
///
/// # Errors
/// The reason in words, if it does not do so now.
pub async fn tell(ctx: &RunnerContext, changed: Map) -> Result<(), String> {
    if ctx.config.cluster.is_none() {
        return Ok(());
    }
    let mut client = LocalClient::new(ctx.rt.clone(), settings::from_config(&ctx.config));
    match tokio::time::timeout(PATIENCE, client.sharing(changed)).await {
        Ok(told) => told.map(drop).map_err(|error| chain(&error)),
        Err(_) => Err("the master does not answer".to_owned()),
    }
}
