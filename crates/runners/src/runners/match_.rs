//! `match` — matches a target with a minion, using the master's data.

use exec::{Result, function};
use targeting::{DEFAULT_DELIMITER, TargetType};
use value::{Map, Value, map};
use wire::MinionId;

use crate::minions::Minions;
use crate::{Module, RunnerContext};

/// The functions of the runner `match`.
pub static MODULE: Module =
    Module::new("match", "Whether a target means a minion, as the master knows it.", &[&COMPOUND_MATCHES]);

/// Returns the id under `res` if the compound expression means that minion, else False.
///
/// Pillar is compared as plain text, and minions without cached data never match by data: minions may call this.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run match.compound_matches 'I@foo:bar and G@os:Deb* and not db*' myminion
#[function]
async fn compound_matches(ctx: &RunnerContext, expr: Value, minion_id: String) -> Result<Map> {
    // Without cached data the matcher assumes that every minion may match, so any answer but False would be a guess.
    if !ctx.config.jobs.minion_data_cache {
        tracing::warn!("Minion data cache is disabled. Cannot evaluate compound matcher expression.");
        return Ok(map! { "res" => false });
    }
    if MinionId::new(minion_id.as_str()).is_err() {
        tracing::warn!("Got invalid minion ID.");
        return Ok(map! { "res" => false });
    }
    ctx.blocking(move |ctx| {
        let minions = Minions::new(ctx)?;
        // `known` leaves out minions without cached data, and pillar is compared exactly: a minion may call this, and
        // must not be able to find out the pillar of others by guessing with globs.
        let found = minions.checker().known(&expr, TargetType::CompoundPillarExact, DEFAULT_DELIMITER);
        match found.is_ok_and(|expected| expected.minions.contains(&minion_id)) {
            true => Ok(map! { "res" => minion_id }),
            false => Ok(map! { "res" => false }),
        }
    })
    .await
}
