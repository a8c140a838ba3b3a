//! `_register_resources`: a minion of Salt 3008 lists the resources that it manages.

use tracing::debug;
use wire::loads::RegisterResources;

use super::{Answer, MasterRequest, read};

/// Accepts the list without storing it, so that such minions start. Resources cannot be targeted.
pub fn handle(ask: MasterRequest) -> Answer {
    let resources = read(ask.load, RegisterResources::from_map).and_then(|request| request.resources.0);
    let count = resources.map_or(0, |resources| resources.len());
    debug!("minion registered {count} kinds of resources, which are not targeted yet");
    true.into()
}
