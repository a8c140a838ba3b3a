//! `network` — machines that sleep are woken.

use exec::{Call, Result, function};
use value::{Map, Value, map};

use super::cache;
use crate::{Module, RunnerContext, orchestrate};

/// The functions of the runner `network`.
pub static MODULE: Module = Module::new("network", "Machines that sleep are woken.", &[&WOL, &WOLLIST, &WOLMATCH]);

/// Sends a packet that wakes the machine with a hardware address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run network.wol 08-00-27-13-69-77
///     salt-run network.wol 080027136977 255.255.255.255 7
#[function]
async fn wol(
    ctx: &RunnerContext,
    mac: String,
    #[default("255.255.255.255")] bcast: String,
    #[default(9)] destport: Value,
) -> Result<Value> {
    wake(ctx, &mac, &bcast, &destport).await
}

async fn wake(ctx: &RunnerContext, mac: &str, bcast: &str, destport: &Value) -> Result<Value> {
    // Everything by name: `network.wol` of the execution modules is what Salt's runner repeats.
    let kwargs = map! { "mac" => mac, "bcast" => bcast, "destport" => destport.clone() };
    orchestrate::function(ctx, "network.wol", Call { args: Vec::new(), kwargs }, false).await
}

/// Wakes the machines whose hardware addresses are in a file, one in each line, and returns the addresses.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run network.wollist '/path/to/maclist'
///     salt-run network.wollist '/path/to/maclist' 255.255.255.255 7
#[function]
async fn wollist(
    ctx: &RunnerContext,
    maclist: String,
    #[default("255.255.255.255")] bcast: String,
    #[default(9)] destport: Value,
) -> Result<Vec<String>> {
    let mut woken = Vec::new();
    let failed = match ctx.blocking(move |_| Ok(read(&maclist))).await? {
        Err(error) => Some(error),
        Ok(text) => {
            let mut failed = None;
            // Salt stops at the first address it cannot use. The packets sent until then are not taken back.
            for mac in text.lines().map(str::trim) {
                if let Err(error) = wake(ctx, mac, &bcast, &destport).await {
                    failed = Some(error.to_string());
                    break;
                }
                ctx.sink.print(&format!("Waking up {mac}"));
                woken.push(mac.to_owned());
            }
            failed
        }
    };
    let Some(error) = failed else { return Ok(woken) };
    ctx.progress(map! { "error" => format!("Failed to open the MAC file. Error: {error}") }).await;
    // The result is empty even if some machines were woken before the failure.
    Ok(Vec::new())
}

/// Reads a file. The error is in Python's words, which name the file.
fn read(path: &str) -> std::result::Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| match error.raw_os_error() {
        Some(code) => {
            format!("[Errno {code}] {}: {}", nix::Error::from_raw(code).desc(), value::python::repr_str(path))
        }
        None => format!("{path}: {error}"),
    })
}

/// Wakes the machines that match a target by their cached grains, and returns the hardware addresses.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run network.wolmatch minion_id
///     salt-run network.wolmatch 192.168.0.0/16 tgt_type='ipcidr' bcast=255.255.255.255 destport=7
#[function]
async fn wolmatch(
    ctx: &RunnerContext,
    tgt: Value,
    #[default("glob")] tgt_type: String,
    #[default("255.255.255.255")] bcast: String,
    #[default(9)] destport: Value,
) -> Result<Vec<String>> {
    let mut woken = Vec::new();
    for mac in addresses(&cache::grains_of(ctx, tgt, tgt_type).await?) {
        wake(ctx, &mac, &bcast, &destport).await?;
        tracing::info!("Waking up {mac}");
        woken.push(mac);
    }
    Ok(woken)
}

/// Returns the hardware addresses in the grains of minions, except those of loopback interfaces.
fn addresses(grains: &Map) -> Vec<String> {
    let interfaces = grains.values().filter_map(|grains| grains.get("hwaddr_interfaces")?.as_map());
    // The loopback's address is all zeros on every machine.
    let macs = interfaces.flat_map(|interfaces| interfaces.iter().filter(|(name, _)| name.as_str() != Some("lo")));
    macs.filter_map(|(_, mac)| Some(mac.as_str()?.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_missing_is_named() {
        assert_eq!(read("/no/list"), Err("[Errno 2] No such file or directory: '/no/list'".into()));
    }

    #[test]
    fn the_loopback_is_not_woken() {
        let interfaces = map! { "lo" => "00:00:00:00:00:00", "eth0" => " 08:00:27:13:69:77 " };
        let grains = map! { "web1" => map! { "hwaddr_interfaces" => interfaces }, "db1" => map! { "os" => "Debian" } };
        assert_eq!(addresses(&grains), ["08:00:27:13:69:77"]);
    }
}
