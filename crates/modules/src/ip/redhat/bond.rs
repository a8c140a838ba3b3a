//! Options of bonds.

use exec::Result;
use value::{Map, Value};

use crate::ip::options::{invalid, switched, whole};

const MODES: [&str; 7] =
    ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];

const POLICIES: &[&str] = &["layer2", "layer2+3", "layer3+4"];
/// The policies that 802.3ad has in addition.
const MORE_POLICIES: &[&str] = &["encap2+3", "encap3+4"];
/// The policies that 802.3ad has in addition since release 8.
const NEW_POLICIES: &[&str] = &["vlan+srcmac"];

const TARGETS: &str = "list of ips (up to 16)";

/// The options of a bond in one line. The mode is text.
///
/// # Errors
/// One has a value it cannot have, or is missing.
pub fn options(settings: &Map, interface: &str, grains: &Map) -> Result<String> {
    let mode = settings.get_str("mode").unwrap_or_default();
    let numbers = ["0", "1", "2", "3", "4", "5", "6"];
    let known = MODES.iter().zip(numbers).position(|(word, number)| *word == mode || number == mode);
    let Some(mode) = known else {
        let all: Vec<&str> = numbers.into_iter().chain(MODES).collect();
        return Err(invalid(interface, "mode", &all));
    };
    let bond = Bond { settings, interface };
    let mut parts = vec![("mode", Value::from(numbers[mode]))];
    parts.extend(bond.monitored()?);
    // Salt knows monitoring by ARP for these two modes only; all others need `miimon`.
    let by_arp = matches!(mode, 0 | 2);
    if by_arp {
        parts.extend(bond.arp_monitoring()?);
    }
    match (settings.contains_key("miimon"), by_arp) {
        (true, _) => {}
        (false, true) if settings.contains_key("arp_interval") => {}
        (false, true) => {
            return Err(invalid(interface, "miimon or arp_interval", &["at least one of these is required"]));
        }
        (false, false) => return Err(invalid(interface, "miimon", &["integer"])),
    }
    if mode == 4 {
        parts.extend(bond.aggregated()?);
    }
    if matches!(mode, 2 | 4) {
        let new = mode == 4 && super::major_release(grains) >= 8;
        let known = [POLICIES, if mode == 4 { MORE_POLICIES } else { &[] }, if new { NEW_POLICIES } else { &[] }];
        parts.extend(bond.policy(&known.concat())?);
    }
    if let (1 | 5 | 6, Some(primary)) = (mode, settings.get("primary")) {
        parts.push(("primary", primary.clone()));
    }
    let parts: Vec<String> = parts.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Ok(parts.join(" "))
}

type Parts = Vec<(&'static str, Value)>;

struct Bond<'a> {
    settings: &'a Map,
    interface: &'a str,
}

impl Bond<'_> {
    fn number(&self, name: &str) -> Result<Option<i64>> {
        let Some(value) = self.settings.get(name) else { return Ok(None) };
        whole(value).map(Some).ok_or_else(|| invalid(self.interface, name, &["integer"]))
    }

    /// Returns the options of link monitoring, in milliseconds.
    fn monitored(&self) -> Result<Parts> {
        let mut parts = Parts::new();
        let (every, down, up) = (self.number("miimon")?, self.number("downdelay")?, self.number("updelay")?);
        for (name, value) in [("miimon", every), ("downdelay", down), ("updelay", up)] {
            if let Some(value) = value {
                parts.push((name, value.into()));
            }
        }
        let Some(every) = every else { return Ok(parts) };
        if every == 0 {
            return Err(invalid(self.interface, "miimon", &["nonzero integer"]));
        }
        // Salt's default is twice the interval.
        if down.is_none() {
            parts.push(("downdelay", every.saturating_mul(2).into()));
        }
        for (name, value) in [("downdelay", down), ("updelay", up)] {
            // The driver would round such a value down, so Salt refuses it.
            if value.is_some_and(|value| value.checked_rem(every) != Some(0)) {
                return Err(invalid(self.interface, name, &[&format!("0 or a multiple of miimon ({every})")]));
            }
        }
        let carrier = self.settings.get("use_carrier");
        let carrier = carrier.map_or(Ok(false), |value| switched(self.interface, "use_carrier", value))?;
        // Off by default, unlike in the driver.
        parts.push(("use_carrier", if carrier { "1" } else { "0" }.into()));
        Ok(parts)
    }

    /// Returns the options of monitoring by ARP.
    fn arp_monitoring(&self) -> Result<Parts> {
        let Some(interval) = self.number("arp_interval")? else { return Ok(Parts::new()) };
        let targets = self.settings.get("arp_ip_target").and_then(Value::as_list).unwrap_or_default();
        if !(1..=16).contains(&targets.len()) {
            return Err(invalid(self.interface, "arp_ip_target", &[TARGETS]));
        }
        let targets = targets.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
        Ok(vec![("arp_interval", interval.into()), ("arp_ip_target", targets.into())])
    }

    fn aggregated(&self) -> Result<Parts> {
        let rate = match self.settings.get("lacp_rate") {
            None => "0",
            Some(value) => match value.as_str() {
                Some("fast" | "1") => "1",
                Some("slow" | "0") => "0",
                _ => return Err(invalid(self.interface, "lacp_rate", &["fast", "1", "slow", "0"])),
            },
        };
        let select = self.number("ad_select")?.unwrap_or(0);
        Ok(vec![("lacp_rate", rate.into()), ("ad_select", select.into())])
    }

    fn policy(&self, known: &[&str]) -> Result<Option<(&'static str, Value)>> {
        const OPTION: &str = "hashing-algorithm";
        match self.settings.get(OPTION) {
            None => Ok(None),
            Some(value) if value.as_str().is_some_and(|word| known.contains(&word)) => {
                Ok(Some(("xmit_hash_policy", value.clone())))
            }
            Some(_) => Err(invalid(self.interface, OPTION, known)),
        }
    }
}
