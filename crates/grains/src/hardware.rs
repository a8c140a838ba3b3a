//! Vendor and firmware: `manufacturer`, `productname`, `serialnumber`, `uuid`, `bios*`, `boardname`.

use value::{Map, Value};

use crate::Machine;

const DMI: &str = "/sys/class/dmi/id";

/// The grains with their files in the kernel's firmware table (DMI).
const FILES: [(&str, &str); 8] = [
    ("biosversion", "bios_version"),
    ("biosvendor", "bios_vendor"),
    ("boardname", "board_name"),
    ("productname", "product_name"),
    ("manufacturer", "sys_vendor"),
    ("biosreleasedate", "bios_date"),
    ("uuid", "product_uuid"),
    ("serialnumber", "product_serial"),
];

/// Returns the grains of the firmware table; what the user may not read is omitted.
pub fn hardware(machine: &Machine) -> Map {
    let mut grains = device_tree(machine);
    for (grain, file) in FILES {
        if let Some(text) = machine.read_trimmed(&format!("{DMI}/{file}")) {
            // Salt shows it in lower case, whatever the firmware's spelling.
            grains.insert(grain, if grain == "uuid" { text.to_lowercase() } else { text });
        }
    }
    grains
}

/// Returns the grains of the device tree, on machines that have one instead of DMI.
fn device_tree(machine: &Machine) -> Map {
    let text = |name: &str| {
        let text = machine.read(&format!("/proc/device-tree/{name}"))?;
        Some(text.trim_end_matches('\0').to_owned()).filter(|text| !text.is_empty())
    };
    let mut grains = Map::new();
    if let Some(model) = text("model") {
        match model.split_once(',') {
            Some((maker, model)) => grains.extend([("manufacturer", maker), ("productname", model)]),
            None => grains.extend([("productname", model)]),
        }
    }
    // Power has "system-id"; "serial-number" is the usual name and takes precedence.
    if let Some(serial) = text("serial-number").or_else(|| text("system-id")) {
        grains.insert("serialnumber", serial);
    }
    grains
}

/// Formats a string as `dmidecode` does, as far as the names of virtual machines' vendors need it.
pub fn dmi_text(machine: &Machine) -> String {
    let field = |file: &str| machine.read_trimmed(&format!("{DMI}/{file}"));
    let mut lines = Vec::new();
    // The same label twice is intended: dmidecode prints sections for the system, the board and the chassis.
    for (label, file) in [
        ("Vendor", "bios_vendor"),
        ("Version", "bios_version"),
        ("Manufacturer", "sys_vendor"),
        ("Product Name", "product_name"),
        ("Version", "product_version"),
        ("Manufacturer", "board_vendor"),
        ("Product Name", "board_name"),
        ("Manufacturer", "chassis_vendor"),
    ] {
        lines.extend(field(file).map(|text| format!("{label}: {text}")));
    }
    lines.join("\n")
}

/// Returns the World Wide Names and similar names of storage adapters, if the options request them: `iscsi_iqn`, `nvme_nqn`,
/// `fc_wwn`.
pub fn storage_names(machine: &Machine, opts: &Map) -> Map {
    let asked = |option: &str| opts.get(option).is_some_and(Value::truthy);
    let mut grains = Map::new();
    if asked("iscsi_grains") {
        let text = machine.read("/etc/iscsi/initiatorname.iscsi").unwrap_or_default();
        let names: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("InitiatorName=")).collect();
        grains.insert("iscsi_iqn", names);
    }
    if asked("nvme_grains") {
        let text = machine.read("/etc/nvme/hostnqn").unwrap_or_default();
        let names: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("nqn.")).collect();
        grains.insert("nvme_nqn", names);
    }
    if asked("fibre_channel_grains") {
        grains.insert("fc_wwn", fibre_channel_names(machine));
    }
    grains
}

fn fibre_channel_names(machine: &Machine) -> Vec<String> {
    let directory = "/sys/class/fc_host";
    let ports = machine.names(directory).into_iter();
    let texts = ports.filter_map(|host| machine.read(&format!("{directory}/{host}/port_name")));
    // The names begin with "0x".
    texts
        .flat_map(|text| text.lines().map(|line| line.trim_end().chars().skip(2).collect()).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use value::map;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::recorded(folder.path(), &[]);
        (folder, machine)
    }

    #[test]
    fn the_firmware_table_gives_grains() {
        let (_folder, machine) = machine(&[
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/class/dmi/id/product_uuid", "4C4C4544-0042\n"),
            // An empty serial number is shown: the file exists.
            ("sys/class/dmi/id/product_serial", "\n"),
        ]);
        let expected = map! { "manufacturer" => "QEMU", "uuid" => "4c4c4544-0042", "serialnumber" => "" };
        assert_eq!(hardware(&machine), expected);
        assert_eq!(dmi_text(&machine), "Manufacturer: QEMU");
    }

    #[test]
    fn a_device_tree_names_maker_and_model() {
        let (_folder, machine) = machine(&[
            ("proc/device-tree/model", "raspberrypi,4-model-b\0"),
            ("proc/device-tree/serial-number", "1000\0"),
            ("proc/device-tree/system-id", "IBM,0210\0"),
        ]);
        let expected = map! { "manufacturer" => "raspberrypi", "productname" => "4-model-b", "serialnumber" => "1000" };
        assert_eq!(hardware(&machine), expected);
    }

    #[test]
    fn storage_names_are_returned_on_request() {
        let (_folder, machine) = machine(&[
            ("etc/iscsi/initiatorname.iscsi", "# x\nInitiatorName=iqn.1993-08.org.debian:01:abc\n"),
            ("etc/nvme/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:1\n"),
            ("sys/class/fc_host/host1/port_name", "0x2100\n"),
        ]);
        assert!(storage_names(&machine, &Map::new()).is_empty());
        let opts = map! { "iscsi_grains" => true, "nvme_grains" => true, "fibre_channel_grains" => true };
        let expected = map! {
            "iscsi_iqn" => vec!["iqn.1993-08.org.debian:01:abc"],
            "nvme_nqn" => vec!["nqn.2014-08.org.nvmexpress:uuid:1"],
            "fc_wwn" => vec!["2100"],
        };
        assert_eq!(storage_names(&machine, &opts), expected);
    }
}
