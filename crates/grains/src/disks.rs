//! Disks and volumes: `disks`, `ssds`, `mdadm`, `lvm`, `zfs_support`, `zfs_feature_flags`, `zpool`.

use value::{Map, Value, map};

use crate::Machine;

/// Returns the rotating disks, and the others.
pub fn disks(machine: &Machine) -> Map {
    let (mut turning, mut solid) = (Vec::new(), Vec::new());
    for device in machine.names("/sys/block") {
        let target = machine.link_target(&format!("/sys/block/{device}")).unwrap_or_default();
        // Loop devices, RAM disks and device mapper are not hardware.
        if target.starts_with("../devices/virtual/") {
            continue;
        }
        // Salt reads one character, and leaves out a device with any other than 0 and 1.
        match machine.read(&format!("/sys/block/{device}/queue/rotational")).as_deref().map(|text| text.get(..1)) {
            Some(Some("0")) => solid.push(device),
            Some(Some("1")) => turning.push(device),
            _ => {}
        }
    }
    map! { "disks" => turning, "ssds" => solid }
}

/// Returns the RAID devices that the kernel runs.
pub fn mdadm(machine: &Machine) -> Map {
    machine.read("/proc/mdstat").map_or_else(Map::new, |text| map! { "mdadm" => mdstat(&text) })
}

fn mdstat(text: &str) -> Vec<String> {
    // The line of personalities has the same form as that of a device.
    let lines = text.lines().filter(|line| !line.starts_with("Personalities : "));
    let mut devices: Vec<String> = lines.filter_map(|line| Some(line.split_once(" : ")?.0.to_owned())).collect();
    devices.sort();
    devices.dedup();
    devices
}

/// Returns the logical volumes of each volume group.
pub fn lvm(machine: &Machine) -> Map {
    if machine.which("lvm").is_none() {
        return Map::new();
    }
    let ask = |args: &[&str]| machine.run("lvm", args).map(|said| said.stdout).unwrap_or_default();
    let groups = ask(&["vgs", "-o", "vg_name", "--noheadings"]);
    let volumes =
        if groups.trim().is_empty() { String::new() } else { ask(&["lvs", "-o", "vg_name,lv_name", "--noheadings"]) };
    map! { "lvm" => volumes_by_group(&groups, &volumes) }
}

fn volumes_by_group(groups: &str, volumes: &str) -> Map {
    let pairs: Vec<(&str, &str)> = volumes
        .lines()
        .filter_map(|line| line.trim().split_once(char::is_whitespace))
        .map(|(g, v)| (g, v.trim()))
        .collect();
    let groups = groups.lines().map(str::trim).filter(|group| !group.is_empty());
    groups
        .map(|group| {
            let own: Vec<&str> = pairs.iter().filter(|(of, _)| *of == group).map(|(_, volume)| *volume).collect();
            (group, own)
        })
        .collect()
}

/// Returns whether ZFS works here, and the sizes of its pools.
pub fn zfs(machine: &Machine) -> Map {
    let loaded = machine.exists("/sys/module/zfs") || machine.which("zfs-fuse").is_some();
    // Works only if the module is loaded and the tools are installed.
    let supported = loaded && machine.which("zpool").is_some();
    // The feature flags came with this manual page.
    let pages = ["/usr/share/man/man5", "/usr/share/man/man7"];
    let flags = machine.which("man").is_some()
        && pages.iter().any(|page| machine.names_with(page, "zpool-features.").next().is_some());
    let mut grains = map! { "zfs_support" => supported, "zfs_feature_flags" => flags };
    if supported {
        let said = machine.run("zpool", &["list", "-H", "-o", "name,size"]).map(|said| said.stdout).unwrap_or_default();
        let pools: Map = said.lines().filter_map(|line| line.split_once('\t')).collect();
        if !pools.is_empty() {
            grains.insert("zpool", pools);
        }
    }
    grains
}

/// Returns whether the machine has a Fibre Channel adapter: `fibre_channel_host`.
pub fn fibre_channel(machine: &Machine) -> Map {
    map! { "fibre_channel_host" => Value::Bool(machine.is_dir("/sys/class/fc_host")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use value::list;

    #[test]
    fn rotating_disks_and_ssds_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let block = folder.path().join("sys/block");
        fs::create_dir_all(&block).unwrap();
        for (name, place, rotational) in [
            ("sda", "pci0", "1\n"),
            ("nvme0n1", "pci1", "0\n"),
            ("loop0", "virtual/block", "1\n"),
            ("odd", "pci2", "x"),
        ] {
            let queue = folder.path().join("sys/devices").join(place).join(name).join("queue");
            fs::create_dir_all(&queue).unwrap();
            fs::write(queue.join("rotational"), rotational).unwrap();
            symlink(format!("../devices/{place}/{name}"), block.join(name)).unwrap();
        }
        let expected = map! { "disks" => list!["sda"], "ssds" => list!["nvme0n1"] };
        assert_eq!(disks(&Machine::recorded(folder.path(), &[])), expected);
    }

    #[test]
    fn raid_devices_are_listed() {
        let text = "Personalities : [raid1] [raid6]\nmd1 : active raid1 sdb1[1] sda1[0]\n      1 blocks\n\
                    md0 : active raid1 sdb2[1]\n\nunused devices: <none>\n";
        assert_eq!(mdstat(text), ["md0", "md1"]);
    }

    #[test]
    fn volumes_belong_to_groups() {
        let found = volumes_by_group("  vg0\n  empty\n", "  vg0   root\n  vg0   swap\n");
        assert_eq!(found, map! { "vg0" => list!["root", "swap"], "empty" => list![] });
    }
}
