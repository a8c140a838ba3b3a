//! Made-up grains.

use value::{Map, Value, map};

/// Operating systems, which the minions have in turn.
// Two Debian families of three, so that targets by `os` and by `os_family` match different shares of the minions.
const SYSTEMS: [(&str, &str, &str); 3] =
    [("Debian", "Debian", "13"), ("Ubuntu", "Debian", "26.04"), ("Rocky", "RedHat", "10.1")];

/// The number of groups in the grain `swarm_group`, for targets that match a tenth of the minions.
const GROUPS: usize = 10;

/// Returns the grains of the minion with a number. `many` makes them as large as those of a real machine, about four kilobytes.
pub(crate) fn grains(id: &str, number: usize, many: bool) -> Map {
    let (os, family, release) = SYSTEMS[number % SYSTEMS.len()];
    let mut grains = map! {
        "id" => id,
        "host" => id,
        "nodename" => id,
        "fqdn" => format!("{id}.swarm.invalid"),
        // `.invalid` never resolves (RFC 2606), so a made-up name cannot be that of a real host.
        "domain" => "swarm.invalid",
        "master" => "swarm",
        "kernel" => "Linux",
        "os" => os,
        "os_family" => family,
        "osrelease" => release,
        "osarch" => "amd64",
        "cpuarch" => "x86_64",
        "num_cpus" => 4,
        "mem_total" => 8192,
        "ipv4" => value::list!["127.0.0.1", address(number)],
        "saltversion" => "3008.5",
        "swarm_group" => (number % GROUPS) as i64,
        "swarm_number" => number as i64,
    };
    if many {
        grains.update(others(number));
    }
    grains
}

/// Returns an address in 10.0.0.0/8 for each number.
fn address(number: usize) -> String {
    // From 10.0.0.1 on: the first address of the network is not that of a host.
    let [_, b, c, d] = (number as u32 + 1).to_be_bytes();
    format!("10.{b}.{c}.{d}")
}

fn others(number: usize) -> Map {
    let interface = |name: usize| {
        let net =
            map! { "address" => address(number + name), "netmask" => "255.0.0.0", "broadcast" => "10.255.255.255" };
        let facts = map! { "hwaddr" => "02:00:00:00:00:01", "up" => true, "inet" => value::list![net] };
        (Value::from(format!("eth{name}")), Value::from(facts))
    };
    let flags: Vec<Value> = (0..120).map(|flag| format!("cpu_flag_{flag:03}").into()).collect();
    let disks: Vec<Value> = (0..8).map(|disk| format!("nvme{disk}n1").into()).collect();
    let paths: Vec<Value> = (0..20).map(|path| format!("/usr/lib/python3.{path}/site-packages").into()).collect();
    map! {
        "ip_interfaces" => (0..6).map(interface).collect::<Map>(),
        "cpu_flags" => flags,
        "cpu_model" => "Made-up CPU @ 2.00GHz",
        "disks" => disks,
        "pythonpath" => paths,
        "path" => "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "systemd" => map! { "version" => "257", "features" => "+PAM +AUDIT +SELINUX +APPARMOR +IMA +SMACK +SECCOMP +GCRYPT" },
        "machine_id" => format!("{number:032x}"),
        "virtual" => "kvm",
        "timezone" => "UTC",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::msgpack::{Packing, pack};

    #[test]
    fn machines_differ_and_may_be_large() {
        let size = |many| pack(&grains("swarm-00007", 7, many).into(), Packing::Wire).len();
        assert!(size(false) < 600 && (3500..6000).contains(&size(true)), "{} and {}", size(false), size(true));
        let of = |number| grains("x", number, false);
        assert_ne!(of(1).get("ipv4"), of(257).get("ipv4"));
        assert_eq!(of(13).get("swarm_group"), Some(&Value::Int(3.into())));
    }
}
