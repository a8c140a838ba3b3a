//! `minions` — who is connected.

use exec::{Result, function};

use crate::{Module, WheelContext};

/// The wheel functions `minions.*`.
pub static MODULE: Module = Module::new("minions", "Who is connected.", &[&CONNECTED]);

/// Returns the ids of the connected minions.
#[function]
async fn connected(ctx: &WheelContext) -> Result<Vec<String>> {
    let found = ctx.blocking(|ctx| crate::connected(ctx, None)).await?;
    Ok(found.into_iter().map(|(id, _)| id).collect())
}
