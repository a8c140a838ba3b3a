//! The options of an interface: which are valid, and in which form they are written.

use exec::{Error, Result};
use python::json::{Style, dumps};
use value::{Map, Value};

use super::{bond, ethtool, script};
use crate::ip::options::{SWITCH, invalid, is_address, is_mac, switch, whole};

/// Kinds whose files have no MAC address.
pub const WITHOUT_CARD: &[&str] = &["bond", "team", "vlan", "bridge", "ipip"];

/// Options that are written as they are.
const PLAIN: &[&str] = &[
    "ipaddr",
    "master",
    "srcaddr",
    "delay",
    "domain",
    "gateway",
    "uuid",
    "nickname",
    "zone",
    "ipv6addr",
    "ipv6gateway",
    "enable_ipv6",
    "ipaddr_start",
    "ipaddr_end",
    "clonenum_start",
    "macaddr",
    "dns",
];

/// Options that are yes or no.
const SWITCHES: &[&str] = &[
    "onparent",
    "peerdns",
    "peerroutes",
    "slave",
    "vlan",
    "defroute",
    "stp",
    "ipv6_peerdns",
    "ipv6_defroute",
    "ipv6_peerroutes",
    "ipv6_autoconf",
    "ipv4_failure_fatal",
    "dhcpv6c",
];

/// The wanted interface.
pub struct DesiredInterface<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its kind, in small letters.
    pub kind: &'a str,
    /// Comes up at boot.
    pub enabled: bool,
    /// The address of the card.
    pub link: Option<Value>,
    /// The machine.
    pub grains: &'a Map,
}

/// Adds the settings that follow from the kind.
///
/// # Errors
/// The kind needs a setting that is missing.
pub fn complete(settings: &mut Map, kind: &str) -> Result<()> {
    let missing = |text: &str| Err(Error::execution(text));
    match kind {
        "slave" => {
            settings.insert("slave", "yes");
            if !settings.contains_key("master") {
                return missing("master is a required setting for slave interfaces");
            }
        }
        "bond" => match settings.get("mode").map(Value::to_string) {
            Some(mode) => drop(settings.insert("mode", mode)),
            None => return missing("mode is required for bond interfaces"),
        },
        "teamport" => match (settings.remove("master"), settings.contains_key("team_master")) {
            (None, false) => return missing("master or team_master is a required setting for teamport interfaces"),
            // States use the word of bonds for teams too.
            (Some(master), false) => drop(settings.insert("team_master", master)),
            (Some(master), true) => {
                tracing::warn!("Both team_master and master ({master}) were configured. Ignoring master.");
            }
            (None, true) => {}
        },
        "vlan" => drop(settings.insert("vlan", "yes")),
        _ => {}
    }
    Ok(())
}

/// Returns whether traffic over a bridge bypasses the firewall.
///
/// # Errors
/// The option is neither yes nor no.
pub fn bypasses_firewall(name: &str, settings: &Map) -> Result<bool> {
    settings.get("bypassfirewall").map_or(Ok(true), |value| yes_or_no(name, value))
}

/// Reads an option that is yes or no. Messages name its value.
fn yes_or_no(name: &str, value: &Value) -> Result<bool> {
    switch(value).ok_or_else(|| invalid(name, &value.to_string(), SWITCH))
}

fn word(set: bool) -> &'static str {
    if set { "yes" } else { "no" }
}

fn refused(text: &str) -> Error {
    Error::execution(text)
}

impl DesiredInterface<'_> {
    /// The options as the file has them.
    ///
    /// # Errors
    /// One has a value it cannot have.
    pub fn options(&self, settings: &Map) -> Result<Map> {
        let mut found = Map::new();
        for option in PLAIN {
            if let Some(value) = settings.get(option) {
                found.insert(*option, value.clone());
            }
        }
        self.protocol(settings, &mut found)?;
        if self.kind != "bridge" {
            let card = ethtool::options(settings, self.name, self.grains)?;
            if !card.is_empty() {
                found.insert("ethtool", card);
            }
            if let Some(bridge) = settings.get("bridge") {
                found.insert("bridge", bridge.clone());
            }
        } else {
            bypasses_firewall(self.name, settings)?;
        }
        self.card(settings, &mut found)?;
        self.of_kind(settings, &mut found)?;
        self.addresses(settings, &mut found)?;
        for option in SWITCHES {
            if let Some(value) = settings.get(option) {
                found.insert(*option, word(yes_or_no(self.name, value)?));
            }
        }
        self.control(settings, &mut found)?;
        Ok(found)
    }

    fn protocol(&self, settings: &Map, found: &mut Map) -> Result<()> {
        if let Some(value) = settings.get("proto") {
            let known = ["none", "bootp", "dhcp"];
            if !value.as_str().is_some_and(|word| known.contains(&word)) {
                return Err(invalid(self.name, &value.to_string(), &known));
            }
            found.insert("proto", value.clone());
        }
        if self.kind == "slave" {
            found.insert("proto", "none");
        }
        if settings.contains_key("dns") {
            // With its own name servers the interface must be allowed to write resolv.conf.
            found.insert("peerdns", "yes");
        }
        if let Some(value) = settings.get("mtu") {
            let bytes = whole(value).ok_or_else(|| invalid(self.name, "mtu", &["integer"]))?;
            found.insert("mtu", bytes);
        }
        Ok(())
    }

    fn card(&self, settings: &Map, found: &mut Map) -> Result<()> {
        let given = settings.get("hwaddr");
        if given.is_some() && settings.contains_key("macaddr") {
            return Err(refused("Cannot pass both hwaddr and macaddr. Must use either hwaddr or macaddr"));
        }
        match given.map(Value::to_string).as_deref() {
            None | Some("auto") => {
                if let Some(link) = &self.link {
                    found.insert("hwaddr", link.clone());
                }
            }
            // No address in the file: the card may be replaced.
            Some("none") => {}
            // Interfaces without a card may have anything there, since Salt does not check it for them.
            Some(address) if is_mac(address) || WITHOUT_CARD.contains(&self.kind) => {
                found.insert("hwaddr", address);
            }
            Some(other) => return Err(invalid(self.name, other, &["AA:BB:CC:DD:EE:FF", "auto", "none"])),
        }
        Ok(())
    }

    fn of_kind(&self, settings: &Map, found: &mut Map) -> Result<()> {
        let json = |name: &str| {
            let value = settings.get(name)?;
            Some(dumps(value, &Style::default()).map_err(Error::execution))
        };
        match self.kind {
            "eth" => drop(found.insert("devtype", "Ethernet")),
            "bridge" => drop(found.insert("devtype", "Bridge")),
            "ib" => drop(found.insert("devtype", "InfiniBand")),
            "team" => {
                found.insert("devicetype", "Team");
                if let Some(config) = json("team_config") {
                    found.insert("team_config", config?);
                }
            }
            "teamport" => {
                found.insert("devicetype", "TeamPort");
                found.insert("team_master", settings.get("team_master").cloned());
                if let Some(config) = json("team_port_config") {
                    found.insert("team_port_config", config?);
                }
            }
            "bond" => {
                found.insert("bonding", bond::options(settings, self.name, self.grains)?);
                found.insert("devtype", "Bond");
            }
            "vlan" => self.vlan(settings, found)?,
            "ipip" => {
                found.insert("devtype", "IPIP");
                for option in ["my_inner_ipaddr", "my_outer_ipaddr"] {
                    let value = settings.get(option).ok_or_else(|| invalid(self.name, option, &["1.2.3.4"]))?;
                    found.insert(option, value.clone());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn vlan(&self, settings: &Map, found: &mut Map) -> Result<()> {
        for option in ["reorder_hdr", "vlan_id", "phys_dev"] {
            let Some(value) = settings.get(option) else { continue };
            match option {
                "reorder_hdr" if switch(value).is_none() => return Err(invalid(self.name, option, SWITCH)),
                "vlan_id" if whole(value).is_none_or(|id| id <= 0) => {
                    return Err(invalid(self.name, option, &["Positive integer"]));
                }
                "phys_dev" if !value.truthy() => return Err(invalid(self.name, option, &["Non-empty string"])),
                _ => {}
            }
            found.insert(option, value.clone());
            // The type is set with the options: without any of them Salt writes none.
            found.insert("devtype", "Vlan");
        }
        Ok(())
    }

    fn addresses(&self, settings: &Map, found: &mut Map) -> Result<()> {
        match (settings.get("prefix"), settings.get("netmask")) {
            // Both say the same thing, and the two could contradict each other.
            (Some(_), Some(_)) => return Err(refused("Cannot use prefix and netmask together")),
            (Some(prefix), None) => drop(found.insert("prefix", prefix.clone())),
            (None, Some(netmask)) => drop(found.insert("netmask", netmask.clone())),
            (None, None) => {}
        }
        if let Some(addresses) = settings.get("ipaddrs") {
            let addresses = script::words(addresses);
            if addresses.iter().any(|address| !address.contains('/') || !is_address(address, false)) {
                return Err(refused("ipv4 CIDR is invalid"));
            }
            found.insert("ipaddrs", addresses);
        }
        if let Some(addresses) = settings.get("ipv6addrs") {
            let addresses = script::words(addresses);
            if addresses.iter().any(|address| !is_address(address, true)) {
                return Err(refused("ipv6 CIDR is invalid"));
            }
            found.insert("ipv6addrs", addresses);
        }
        Ok(())
    }

    /// Sets the options that decide who controls the interface, and when.
    fn control(&self, settings: &Map, found: &mut Map) -> Result<()> {
        if settings.contains_key("onboot") {
            let (name, enabled) = (self.name, self.enabled);
            tracing::warn!(
                "The 'onboot' option is controlled by the 'enabled' option. Interface: {name} Enabled: {enabled}"
            );
        }
        // The state's own argument decides; an option of the same name would be a second truth.
        found.insert("onboot", word(self.enabled));
        for option in ["userctl", "nm_controlled"] {
            // Both lines are always written; without them the distribution's default would decide.
            let set = settings.get(option).map_or(Ok(false), |value| yes_or_no(self.name, value))?;
            found.insert(option, word(set));
        }
        if settings.get("arpcheck").and_then(switch) == Some(false) {
            found.insert("arpcheck", "no");
        }
        Ok(())
    }
}
