//! The description of this machine in one line.

use std::fs;
use std::thread::available_parallelism;

/// Processor, number of processors, memory, kernel.
pub fn name() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processors = available_parallelism().map_or(1, usize::from);
    named(&read("/proc/cpuinfo"), processors, &read("/proc/meminfo"), read("/proc/sys/kernel/osrelease").trim())
}

fn named(cpuinfo: &str, processors: usize, meminfo: &str, kernel: &str) -> String {
    // Without the suffix of the distribution's build, which would change the published page for nothing.
    let kernel = kernel.split('-').next().unwrap_or(kernel);
    let model = field(cpuinfo, "model name").unwrap_or("a processor without a name");
    let memory = field(meminfo, "MemTotal").and_then(|total| total.split(' ').next()?.parse::<f64>().ok());
    // The kernel counts kibibytes.
    let memory = memory.map_or_else(String::new, |kibibytes| format!(", {:.0} GiB", kibibytes / f64::from(1 << 20)));
    format!("{processors} × {model}{memory}, Linux {kernel} on {}", std::env::consts::ARCH)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\n";
        let told = named(cpuinfo, 2, "MemTotal:       24117248 kB\n", "6.18.0-1-amd64");
        let arch = std::env::consts::ARCH;
        assert_eq!(told, format!("2 × Some CPU @ 2.00GHz, 23 GiB, Linux 6.18.0 on {arch}"));
        assert!(named("", 1, "", "6").starts_with("1 × a processor without a name, Linux 6"));
    }
}
