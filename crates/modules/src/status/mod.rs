//! `status` — how the machine is doing: load, memory, disks, network, processes, users, masters.

mod clock;
mod disks;
mod machine;
mod masters;
mod network;
mod processes;
#[cfg(test)]
mod tests;

use exec::{Context, Module, Result, VarArgs, function};
use value::{Map, Value, map};

use crate::config;
pub(crate) use clock::iso;
use clock::{TIME, UPTIME, uptime};
use disks::{DISKSTATS, DISKUSAGE, diskstats, diskusage};
use machine::{
    CPUINFO, CPUSTATS, LOADAVG, MEMINFO, NPROC, VERSION, VMSTATS, cpuinfo, cpustats, loadavg, meminfo, vmstats,
};
use masters::{CONNECTED_TO, PING_MASTER, PROXY_RECONNECT};
use network::{NETDEV, NETSTATS, netdev, netstats};
use processes::{PID, PROCS, W, w};

/// The module.
pub static MODULE: Module = Module::new(
    "status",
    "How the machine is doing.",
    &[
        &ALL_STATUS,
        &CPUINFO,
        &CPUSTATS,
        &CUSTOM,
        &DISKSTATS,
        &DISKUSAGE,
        &LOADAVG,
        &CONNECTED_TO,
        &MEMINFO,
        &NETDEV,
        &NETSTATS,
        &NPROC,
        &PID,
        &PING_MASTER,
        &PROCS,
        &PROXY_RECONNECT,
        &TIME,
        &UPTIME,
        &VERSION,
        &VMSTATS,
        &W,
    ],
);

/// Reads a file of the kernel. A missing one reads as empty, as in Salt.
fn kernel_text(path: &str) -> String {
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            tracing::debug!("failed to read {path}: {error}");
            String::new()
        }
    }
}

/// Makes the number of a text, if it is one.
fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<u64>() {
        return whole.into();
    }
    text.parse::<f64>().map_or_else(|_| text.into(), Value::from)
}

fn numbers(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| number(text)).collect()
}

/// Returns all information of this module about the machine's state.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.all_status
#[function]
fn all_status(ctx: &Context) -> Result<Map> {
    Ok(map! {
        "cpuinfo" => cpuinfo()?,
        "cpustats" => cpustats()?,
        "diskstats" => diskstats()?,
        "diskusage" => diskusage(ctx, VarArgs::default())?,
        "loadavg" => loadavg()?,
        "meminfo" => meminfo()?,
        "netdev" => netdev()?,
        "netstats" => netstats()?,
        "uptime" => uptime(ctx)?,
        "vmstats" => vmstats()?,
        "w" => w(ctx)?,
    })
}

/// Returns the values the options ``status.<function>.custom`` name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.custom
#[function]
fn custom(ctx: &Context) -> Result<Map> {
    let mut result = Map::new();
    for (option, wanted) in config::starting_with(ctx, "status.") {
        // The option is `status.cpustats.custom` for the function `status.cpustats`.
        let Some((function, _)) = option.rsplit_once('.') else { continue };
        // It would call itself forever.
        if function == "status.custom" || function == "status" {
            continue;
        }
        let values = match ctx.call_permitted(function, exec::Call::default()) {
            Ok(values) => values,
            Err(error) => {
                tracing::warn!("custom status {function} failed: {error}");
                continue;
            }
        };
        for name in wanted.as_list().unwrap_or_default() {
            let found = values.as_map().and_then(|values| values.get_value(name)).cloned();
            if found.is_none() {
                tracing::warn!("val {name} not in return of {function}");
            }
            result.insert(name.clone(), found.unwrap_or_else(|| "UNKNOWN".into()));
        }
    }
    Ok(result)
}
