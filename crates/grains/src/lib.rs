//! Grains: facts about the machine, one file per family.
//!
//! [`collect`] returns all grains as one map, in the form in which a minion sends it. The core grains come first, then the others,
//! then those of the file `grains` beside the configuration and of the option `grains`; later ones override earlier ones.
//! Nothing is kept in memory, and only the resolver uses the network.

mod answers;
mod boot;
mod cache;
mod cpu;
mod disabled;
mod disks;
mod gpu;
mod hardware;
mod identity;
mod init;
mod locale;
mod machine;
pub mod names;
pub mod network;
pub mod os;
mod output;
mod process;
mod resolver;
mod static_grains;
pub mod system;
mod virtualization;

use std::sync::Arc;

use value::{Map, Value, map};

pub use identity::{SALT_VERSION, salt_version};
pub use machine::Machine;
pub use output::Output;
pub use resolver::parse as parse_resolv_conf;
pub use static_grains::path as static_grains_path;

/// Returns all grains of this machine, from the cache if the option `grains_cache` allows.
///
/// Blocks for some milliseconds, or for as long as the resolver needs, but not longer than about five seconds. Reads the
/// options `id`, `master`, `conf_file`, `cachedir`, `grains*`, `enable_*_grains`, `append_domain` and a few more.
pub fn collect(opts: &Map) -> Map {
    if let Some(mut grains) = cache::load(opts) {
        // These belong to the process, not to the machine.
        grains.update(disabled::Disabled::of(opts).without(process::process()));
        return grains;
    }
    refresh(opts)
}

/// Returns all grains of this machine, never from the cache, and caches them if the option says so.
pub fn refresh(opts: &Map) -> Map {
    if opts.get("skip_grains").is_some_and(Value::truthy) {
        return Map::new();
    }
    let mut grains = Map::with_capacity(128);
    let filter = static_grains::Filter::of(opts);
    let answers = answers::Answers::of(opts).map(Arc::new);
    let disabled = disabled::Disabled::of(opts);
    let found = disabled.without(of_machine(&Machine::here().remembering(answers.clone()), opts));
    answers.inspect(|answers| answers.store());
    filter.lay_over(&mut grains, found);
    if !disabled.has("extra") {
        filter.lay_over(&mut grains, static_grains::from_file(opts));
    }
    let own = opts.get("grains").and_then(Value::as_map).cloned().unwrap_or_default();
    // Salt filters what it finds and the grains file, but not the option `grains`.
    filter.lay_unfiltered_over(&mut grains, own);
    cache::store(opts, &grains);
    grains
}

/// Collects the answers of programs in parallel.
struct ProgramAnswers {
    init: Map,
    virtualization: Map,
    arch: Value,
    gpus: Map,
    lvm: Map,
}

/// Returns the grains of a machine.
fn of_machine(machine: &Machine, opts: &Map) -> Map {
    let interfaces = network::interfaces();
    let uname = uname();
    let hostname = uname.get_str("nodename").unwrap_or_default().to_owned();
    let v4 = network::addresses(&interfaces, false, false);
    let v6 = network::addresses(&interfaces, false, true);
    let reverse = opts.get("enable_fqdns_grains").is_none_or(Value::truthy);
    let reverse = reverse.then(|| v4.into_iter().chain(v6).collect());
    // Started first: the resolver is slow, and everything else runs at the same time.
    let lookups = names::Lookups::start(hostname, reverse);

    let hardware = hardware::hardware(machine);
    let distribution = os::distribution(machine);
    let asked = ask_programs(machine, opts, &uname, &hardware, &distribution);

    // Later grains replace earlier ones of the same name.
    let mut grains = process::environment(machine);
    let network_grains = network::network(&interfaces);
    let has = |key: &str| network_grains.get(key).is_some_and(Value::truthy);
    let (has_v4, has_v6) = (has("ipv4"), has("ipv6"));
    grains.update(network::gateways(machine));
    grains.update(resolver::dns(machine));
    grains.update(disks::fibre_channel(machine));
    grains.update(identity::identity(opts));
    grains.update(network_grains);
    grains.update(boot::boot(machine));
    grains.update(locale::locale(machine));
    grains.update(asked.gpus);
    grains.update(uname);
    grains.update(asked.init);
    grains.update(distribution);
    grains.update(cpu::cpu(machine));
    grains.insert("osarch", asked.arch);
    grains.update(cpu::memory(machine));
    grains.update(hardware);
    grains.update(asked.virtualization);
    let text = |key: &str| grains.get_str(key).unwrap_or_default();
    let derived = [process::ps(text("os_family"), text("virtual")), os::release_parts(&grains)];
    derived.into_iter().for_each(|found| grains.update(found));
    grains.update(process::python(machine));
    grains.update(disks::disks(machine));
    grains.update(asked.lvm);
    grains.update(disks::mdadm(machine));
    grains.update(disks::zfs(machine));
    grains.update(hardware::storage_names(machine, opts));
    grains.update(process::process());
    grains.update(lookups.finish(has_v4, has_v6));
    grains
}

fn ask_programs(machine: &Machine, opts: &Map, uname: &Map, hardware: &Map, distribution: &Map) -> ProgramAnswers {
    let product = hardware.get_str("productname").unwrap_or_default();
    let family = distribution.get_str("os_family").unwrap_or_default();
    let cpu = uname.get_str("cpuarch").unwrap_or_default();
    // These four run programs; one after the other they would take longer than all other grains.
    std::thread::scope(|scope| {
        let init = scope.spawn(|| init::init(machine));
        let virtualization = scope.spawn(|| virtualization::virtualization(machine, product));
        let gpus = scope.spawn(|| gpu::gpus(machine, opts));
        let lvm = scope.spawn(|| disks::lvm(machine));
        let arch = os::arch(machine, family, cpu);
        ProgramAnswers {
            init: answer(init, "init"),
            virtualization: answer(virtualization, "virtual"),
            arch,
            gpus: answer(gpus, "gpus"),
            lvm: answer(lvm, "lvm"),
        }
    })
}

/// A family that fails omits only its own grains.
fn answer(thread: std::thread::ScopedJoinHandle<'_, Map>, family: &str) -> Map {
    thread.join().unwrap_or_else(|_| {
        tracing::error!("Failed to load the grains of {family}");
        Map::new()
    })
}

/// Kernel and architecture: `kernel`, `nodename`, `kernelrelease`, `kernelversion`, `cpuarch`.
fn uname() -> Map {
    let Ok(names) = nix::sys::utsname::uname() else { return Map::new() };
    map! {
        "kernel" => names.sysname().to_string_lossy(),
        "nodename" => names.nodename().to_string_lossy(),
        "kernelrelease" => names.release().to_string_lossy(),
        "kernelversion" => names.version().to_string_lossy(),
        "cpuarch" => names.machine().to_string_lossy(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_grains_override_the_found_ones() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("grains"), "role: web\nkernel: Mine\nsite: file\n").unwrap();
        let opts = map! {
            "id" => "web1",
            "conf_file" => folder.path().join("minion").to_str().unwrap(),
            "enable_fqdns_grains" => false,
            "grains" => map! { "site" => "option" },
            "grains_blacklist" => vec!["cpu_*"],
        };
        let grains = collect(&opts);
        assert_eq!(grains.get_str("id"), Some("web1"));
        assert_eq!(grains.get_str("kernel"), Some("Mine"));
        assert_eq!(grains.get_str("role"), Some("web"));
        assert_eq!(grains.get_str("site"), Some("option"));
        assert!(grains.contains_key("num_cpus") && !grains.contains_key("cpu_flags"));
        assert!(collect(&map! { "skip_grains" => true }).is_empty());
    }
}
