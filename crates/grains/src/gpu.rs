//! Graphics cards: `num_gpus`, `gpus`.

use value::{Map, Value, map};

use crate::Machine;

/// Vendors of graphics cards that have a name in the grain.
const VENDORS: [&str; 8] = ["nvidia", "amd", "ati", "intel", "cirrus logic", "vmware", "matrox", "aspeed"];

/// The PCI classes of graphics cards, by `lspci`'s names.
const CLASSES: [&str; 4] =
    ["3d controller", "display controller", "processing accelerators", "vga compatible controller"];

/// Returns the graphics cards that `lspci` lists. The program runs only if the kernel knows a device of such a class.
pub fn gpus(machine: &Machine, opts: &Map) -> Map {
    // As in Salt, only a literal `False` turns this off.
    let wanted = |name| opts.get(name).is_none_or(|value| value != &Value::Bool(false));
    let mut found = Vec::new();
    if wanted("enable_lspci")
        && wanted("enable_gpu_grains")
        && has_graphics(machine)
        && let Some(output) = machine.run("lspci", &["-vmm"])
    {
        found = parse_lspci(&output.stdout);
    }
    map! { "num_gpus" => found.len(), "gpus" => found }
}

/// Returns whether any PCI device is a display controller (class 3) or an accelerator (class 0x12).
fn has_graphics(machine: &Machine) -> bool {
    let directory = "/sys/bus/pci/devices";
    machine.names(directory).iter().any(|device| {
        let class = machine.read(&format!("{directory}/{device}/class")).unwrap_or_default();
        class.starts_with("0x03") || class.starts_with("0x12")
    })
}

/// Parses the output of `lspci -vmm`: paragraphs of `Key:<tab>value`.
fn parse_lspci(text: &str) -> Vec<Map> {
    text.split("\n\n").filter_map(parse_device).collect()
}

fn parse_device(paragraph: &str) -> Option<Map> {
    let field = |name: &str| {
        // Of two fields with the same name the last counts, as in a Python dict.
        let pairs = paragraph.lines().filter_map(|line| line.split_once(':'));
        pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).next_back()
    };
    let class = field("Class")?.to_lowercase();
    if !CLASSES.contains(&class.as_str()) {
        return None;
    }
    let maker = field("Vendor")?.to_lowercase();
    // Whole words only: "ati" is in "Corporation".
    let words: Vec<&str> = maker.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let vendor = VENDORS.into_iter().find(|name| words.contains(name));
    Some(map! { "vendor" => vendor.unwrap_or("unknown"), "model" => field("Device")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_graphics_cards_are_listed() {
        let text = "Slot:\t00:00.0\nClass:\tHost bridge\nVendor:\tIntel Corporation\nDevice:\tDRAM\n\n\
                    Slot:\t00:02.0\nClass:\tVGA compatible controller\nVendor:\tIntel Corporation\nDevice:\tUHD 620\n\n\
                    Slot:\t01:00.0\nClass:\t3D controller\nVendor:\tNVIDIA Corporation\nDevice:\tGP108M\nRev:\ta1\n\n\
                    Slot:\t02:00.0\nClass:\tVGA compatible controller\nVendor:\tRed Hat, Inc.\nDevice:\tQXL\n";
        let expected = vec![
            map! { "vendor" => "intel", "model" => "UHD 620" },
            map! { "vendor" => "nvidia", "model" => "GP108M" },
            map! { "vendor" => "unknown", "model" => "QXL" },
        ];
        assert_eq!(parse_lspci(text), expected);
        assert!(parse_lspci("lspci: Unable to load").is_empty());
    }
}
