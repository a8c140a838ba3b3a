//! Processor and memory: `num_cpus`, `cpu_model`, `cpu_flags`, `mem_total`, `swap_total`.

use value::{Map, Value, map};

use crate::Machine;

/// Returns the grains of `/proc/cpuinfo`.
pub fn cpu(machine: &Machine) -> Map {
    machine.read("/proc/cpuinfo").map_or_else(|| parse_cpuinfo(""), |text| parse_cpuinfo(&text))
}

/// Parses `/proc/cpuinfo`, whose format differs between architectures.
fn parse_cpuinfo(text: &str) -> Map {
    // Counted, so an architecture whose file looks different has no processors, as in Salt.
    let mut count = 0_i64;
    let mut model = None;
    let mut flags = "";
    for (key, rest) in text.lines().filter_map(|line| line.split_once(':')) {
        // As in Salt, the value is the text between the first and the second colon.
        let value = rest.split(':').next().unwrap_or_default().trim();
        match key.trim() {
            "processor" => count += 1,
            // S/390 has its own count.
            "# processors" => count = value.parse().unwrap_or(count),
            // PowerPC calls it "cpu".
            "vendor_id" | "model name" | "cpu" => model = Some(value),
            "flags" | "Features" => flags = value,
            // Old ARM kernels: "ARMv6-compatible processor rev 7 (v6l)".
            "Processor" => {
                model = value.split('-').next();
                count = 1;
            }
            _ => {}
        }
    }
    map! {
        "num_cpus" => count,
        "cpu_model" => model.unwrap_or("Unknown"),
        "cpu_flags" => flags.split_whitespace().collect::<Vec<_>>(),
    }
}

/// Returns memory and swap in MiB, from `/proc/meminfo`.
pub fn memory(machine: &Machine) -> Map {
    let text = machine.read("/proc/meminfo").unwrap_or_default();
    map! { "mem_total" => mebibytes(&text, "MemTotal"), "swap_total" => mebibytes(&text, "SwapTotal") }
}

fn mebibytes(meminfo: &str, name: &str) -> Value {
    let fields = meminfo.lines().filter_map(|line| line.split_once(':'));
    let kibibytes = fields.filter(|(key, _)| key.trim() == name).find_map(|(_, value)| {
        let number = value.split_whitespace().next()?;
        number.parse::<i64>().ok()
    });
    Value::Int(kibibytes.unwrap_or(0) / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn the_format_of_each_architecture_is_parsed() {
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R): X\nflags\t\t: fpu vme\n\n\
                   processor\t: 1\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R): X\nflags\t\t: fpu vme\n";
        let arm = "processor\t: 0\nmodel name\t: ARMv7 Processor rev 4 (v7l)\nFeatures\t: half thumb\n";
        let old_arm = "Processor\t: ARMv6-compatible processor rev 7 (v6l)\nFeatures\t: swp half\n";
        let s390 = "vendor_id       : IBM/S390\n# processors    : 2\n";
        let power = "processor\t: 0\ncpu\t\t: POWER9 (architected), altivec supported\n";
        for (text, count, model, flags) in [
            (x86, 2, "Intel(R) Xeon(R)", list!["fpu", "vme"]),
            (arm, 1, "ARMv7 Processor rev 4 (v7l)", list!["half", "thumb"]),
            (old_arm, 1, "ARMv6", list!["swp", "half"]),
            (s390, 2, "IBM/S390", list![]),
            (power, 1, "POWER9 (architected), altivec supported", list![]),
            ("", 0, "Unknown", list![]),
        ] {
            let expected = map! { "num_cpus" => count, "cpu_model" => model, "cpu_flags" => flags };
            assert_eq!(parse_cpuinfo(text), expected);
        }
    }

    #[test]
    fn memory_is_in_whole_mebibytes() {
        let text = "MemTotal:       24684236 kB\nMemFree: 1 kB\nSwapTotal:       1047548 kB\n";
        assert_eq!(mebibytes(text, "MemTotal"), Value::Int(24105));
        assert_eq!(mebibytes(text, "SwapTotal"), Value::Int(1022));
        assert_eq!(mebibytes("garbage", "SwapTotal"), Value::Int(0));
    }
}
