//! Signs in at a master once, without following it.

use std::net::SocketAddr;
use std::sync::Arc;

use channel::client::{MasterChannel, SignIn};
use exec::MasterState;
use tracing::debug;

use super::connect::{CONNECT, open_channel, reachable, resolve};
use super::{Ended, FULL, Link, REJECTION};
use crate::machine::Machine;

/// Signs in at a master once, for a single call.
///
/// # Errors
/// Why the master cannot be used, in words.
pub async fn sign_in_once(machine: &Machine, link: &Arc<Link>) -> Result<(), String> {
    let (channel, address) = sign_in_apart(machine, link).await?;
    link.set_state(MasterState::Live, Some(address), machine.rt.now());
    link.set_channel(Some(channel));
    Ok(())
}

/// Signs in at a master once, on a separate connection that is not the link's. It closes with the channel.
///
/// # Errors
/// Why the master cannot be used, in words: each address with its reason.
pub async fn sign_in_apart(machine: &Machine, link: &Arc<Link>) -> Result<(Arc<MasterChannel>, SocketAddr), String> {
    let addresses = resolve(machine, link).await.map_err(|error| format!("its name cannot be resolved: {error}"))?;
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let reached = reachable(machine, link, addresses, CONNECT).await;
    let reached = reached.map_err(|error| format!("cannot connect to {}: {error}", names.join(", ")))?;
    let mut failures = Vec::new();
    for address in reached {
        debug!(master = %link.settings.address, "Master URI: tcp://{address}");
        let channel = Arc::new(open_channel(machine, link, address, CONNECT));
        let ended: Ended = match channel.sign_in().await {
            Ok(SignIn::Accepted(_)) => return Ok((channel, address)),
            Ok(SignIn::Pending) => Ended::Pending(link.settings.address.clone()),
            Ok(SignIn::Rejected) => Ended::Refused(REJECTION),
            Ok(SignIn::Full) => Ended::Refused(FULL),
            Err(error) => error.into(),
        };
        failures.push(format!("at {address}: {ended}"));
    }
    Err(failures.join("; "))
}
