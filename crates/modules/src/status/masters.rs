//! The masters of this minion.

use std::time::Duration;

use exec::{Context, MasterState, Result, function};
use value::{Value, map};

/// Returns whether the minion is connected to a master, which is named by address. If the connection is not as
/// expected, an event on the minion's bus reports it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.master master=salt1.example.com
#[function(name = "master")]
pub(super) fn connected_to(
    ctx: &Context,
    master: Option<String>,
    #[default(true)] connected: bool,
) -> Result<Option<bool>> {
    let Some(master) = master.filter(|master| !master.is_empty()) else { return Ok(None) };
    let masters = ctx.agent.masters();
    let is_live = masters.iter().any(|status| {
        let named = status.host == master
            || status.address == master
            || status.ip.is_some_and(|ip| master.parse().is_ok_and(|wanted: std::net::IpAddr| wanted == ip));
        named && status.state == MasterState::Live
    });
    // The event makes the minion's own loop connect or fail over. The job in the schedule only
    // looks.
    if is_live != connected {
        let tag = if is_live { "__master_connected" } else { "__master_disconnected" };
        ctx.wait(ctx.agent.fire_local(tag, map! { "master" => &master }))?;
    }
    Ok(Some(is_live))
}

/// Returns whether a master answers, no matter if the minion is connected to it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.ping_master salt1.example.com
#[function]
pub(super) fn ping_master(ctx: &Context, master: Value) -> Result<bool> {
    if !master.truthy() {
        return Ok(false);
    }
    let master = master.to_string();
    let limit = ctx.opt("auth_timeout").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0).unwrap_or(60.0);
    let limit = Duration::try_from_secs_f64(limit).unwrap_or(Duration::from_secs(60));
    let answered = ctx.wait(ctx.agent.ping_master(&master, limit));
    if answered {
        // The preferred master is back.
        ctx.wait(ctx.agent.fire_local("__master_failback", map! { "master" => &master }))?;
    }
    Ok(answered)
}

/// Returns False: there are no proxy minions here.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.proxy_reconnect rest_sample
#[function]
pub(super) fn proxy_reconnect(proxy_name: String, opts: Option<Value>) -> Result<bool> {
    // There are no proxies here, which Salt reports as False.
    let _ = (proxy_name, opts);
    Ok(false)
}
