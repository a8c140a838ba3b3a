//! Virtualization: `virtual`, `virtual_subtype`, `virtual_hv_*`.
//!
//! A detection program (`virt-what`, or `systemd-detect-virt`) is asked first, then the firmware's names decide; files of the
//! kernel come last and override the rest, containers after hypervisors.

use value::{Map, Value, map};

use crate::{Machine, hardware};

/// A type of virtual machine, with details.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kind {
    name: Option<String>,
    subtype: Option<String>,
}

impl Kind {
    fn of(name: &str) -> Self {
        Kind { name: Some(name.to_owned()), subtype: None }
    }

    fn with(name: &str, subtype: &str) -> Self {
        Kind { name: Some(name.to_owned()), subtype: Some(subtype.to_owned()) }
    }

    /// Adds the details of another result.
    fn learn(&mut self, other: Kind) {
        self.name = other.name.or(self.name.take());
        self.subtype = other.subtype.or(self.subtype.take());
    }

    fn is(&self, names: &[&str]) -> bool {
        self.name.as_deref().is_some_and(|name| names.contains(&name))
    }
}

/// Returns the kind of machine.
pub fn virtualization(machine: &Machine, product: &str) -> Map {
    let dmi = hardware::dmi_text(machine);
    // The order matters: each step may replace what the one before found.
    let mut kind = by_program(machine).unwrap_or_else(|| by_firmware(&dmi));
    kind.learn(by_root(machine));
    kind.learn(by_openvz(machine));
    by_xen(machine, product, &mut kind);
    kind.learn(by_kernel_files(machine));
    // After the hypervisor: in a container on a virtual machine, Salt shows the container.
    kind.learn(by_container(machine));
    kind.learn(by_cloud(&kind, &dmi));
    let name = match (&kind.name, &kind.subtype) {
        (Some(name), _) => name,
        // A guest of an unknown type.
        (None, Some(_)) => "virtual",
        (None, None) => "physical",
    };
    let mut grains = map! { "virtual" => name };
    grains.extend(kind.subtype.map(|subtype| ("virtual_subtype", subtype)));
    if grains.get_str("virtual").is_some_and(|name| name.contains("xen")) {
        grains.update(xen_hypervisor(machine));
    }
    grains
}

/// Runs the detection program. `None` if there is none or it found nothing.
fn by_program(machine: &Machine) -> Option<Kind> {
    // With this program installed Salt does not ask the other, even if it found nothing.
    if machine.which("virt-what").is_some() {
        let said = machine.run("virt-what", &[]).filter(|said| said.code == Some(0));
        return said.map(|said| said.stdout.lines().find_map(virt_what).unwrap_or_default());
    }
    let said = machine.ask("systemd-detect-virt", &[]).filter(|said| said.code == Some(0))?;
    systemd_detect_virt(&said.stdout)
}

fn systemd_detect_virt(word: &str) -> Option<Kind> {
    let plain = ["qemu", "kvm", "oracle", "xen", "bochs", "chroot", "uml", "systemd-nspawn"];
    // Whole words here, parts of words in the table below.
    if plain.contains(&word) {
        return Some(Kind::of(word));
    }
    let table = [
        ("vmware", Kind::of("VMware")),
        ("microsoft", Kind::of("VirtualPC")),
        ("lxc", Kind::with("container", "LXC")),
        ("podman", Kind::with("container", "Podman")),
        ("docker", Kind::with("container", "Docker")),
        ("amazon", Kind::with("Nitro", "Amazon EC2")),
    ];
    table.into_iter().find(|(part, _)| word.contains(part)).map(|(_, kind)| kind)
}

fn virt_what(line: &str) -> Option<Kind> {
    if ["kvm", "qemu", "uml", "xen"].contains(&line) {
        return Some(Kind::of(line));
    }
    let table = [
        ("lxc", Kind::with("container", "LXC")),
        ("docker", Kind::with("container", "Docker")),
        ("vmware", Kind::of("VMware")),
        ("parallels", Kind::of("Parallels")),
        ("nutanix", Kind::with("kvm", "Nutanix AHV")),
        ("hyperv", Kind::of("HyperV")),
        ("ibm_power-kvm", Kind::of("kvm")),
        ("ibm_power-lpar_shared", Kind::with("LPAR", "shared")),
        ("ibm_power-lpar_dedicated", Kind::with("LPAR", "dedicated")),
    ];
    table.into_iter().find(|(part, _)| line.contains(part)).map(|(_, kind)| kind)
}

/// Parses the firmware's names as `dmidecode` prints them.
fn by_firmware(dmi: &str) -> Kind {
    let has = |part: &str| dmi.contains(part);
    // KVM's firmware used to be that of Bochs.
    let emulator = ["Vendor: QEMU", "Manufacturer: QEMU", "Vendor: Bochs", "Manufacturer: Bochs"].into_iter().any(has);
    let mut kind = if emulator { Kind::of("kvm") } else { Kind::default() };
    let nutanix = has("Manufacturer: Nutanix") && has("Product Name: AHV");
    let table = [
        (has("BHYVE"), Kind::of("bhyve")),
        (has("Manufacturer: oVirt"), Kind::with("kvm", "ovirt")),
        (has("Product Name: RHEV Hypervisor"), Kind::with("kvm", "rhev")),
        (has("VirtualBox"), Kind::of("VirtualBox")),
        (has("VMware"), Kind::of("VMware")),
        (has(": Microsoft") && has("Virtual Machine"), Kind::of("VirtualPC")),
        (has("Parallels Software"), Kind::of("Parallels")),
        (has("Manufacturer: Google"), Kind::of("kvm")),
        (nutanix, Kind::with("kvm", "Nutanix AHV")),
        (has("Vendor: SeaBIOS"), Kind::of("kvm")),
    ];
    if let Some((_, found)) = table.into_iter().find(|(fits, _)| *fits) {
        kind.learn(found);
    }
    kind
}

/// A process whose root is not that of the first process is in a chroot.
fn by_root(machine: &Machine) -> Kind {
    use std::os::unix::fs::MetadataExt;
    let place = |path: &str| std::fs::metadata(machine.path(path)).ok().map(|meta| (meta.dev(), meta.ino()));
    // The directory behind `/proc/1/root` can be read by root only. Without it nothing is concluded.
    let subtype = match (place("/"), place("/proc/1/root/.")) {
        (Some(own), Some(first)) if own != first => Some("chroot".to_owned()),
        _ => None,
    };
    Kind { name: None, subtype }
}

fn by_openvz(machine: &Machine) -> Kind {
    let mut kind = Kind::default();
    if machine.is_file("/proc/vz/version") {
        kind = Kind::of("openvzhn");
    } else if machine.is_file("/proc/vz/veinfo") {
        kind = Kind::of("openvzve");
    }
    let status = machine.read("/proc/self/status").unwrap_or_default();
    let environment = status.lines().find_map(|line| line.strip_prefix("envID:")?.trim().parse::<u64>().ok());
    // The host itself is container 0.
    match environment {
        Some(0) => Kind::of("openvzhn"),
        Some(_) => Kind::of("openvzve"),
        None => kind,
    }
}

fn by_xen(machine: &Machine, product: &str, kind: &mut Kind) {
    if !["/proc/sys/xen", "/sys/bus/xen", "/proc/xen"].iter().any(|path| machine.is_dir(path)) {
        return;
    }
    if let Some(subtype) = xen_subtype(machine, product) {
        kind.subtype = Some(subtype.to_owned());
    }
    // The guest's type says that it is Xen even if nothing else did.
    if kind.subtype.as_deref().is_some_and(|subtype| subtype.to_lowercase().contains("dom")) {
        kind.name = Some("xen".into());
    }
}

fn xen_subtype(machine: &Machine, product: &str) -> Option<&'static str> {
    if machine.is_file("/proc/xen/xsd_kva") {
        return Some("Xen Dom0");
    }
    // The firmware's name of a fully virtualised guest.
    if product == "HVM domU" {
        return Some("Xen HVM DomU");
    }
    if let Some(capabilities) = machine.read("/proc/xen/capabilities") {
        return Some(if capabilities.contains("control_d") { "Xen Dom0" } else { "Xen PV DomU" });
    }
    machine.is_dir("/sys/bus/xen/drivers/xenconsole").then_some("Xen PV DomU")
}

fn by_kernel_files(machine: &Machine) -> Kind {
    let mut kind = Kind::default();
    if machine.read("/proc/cpuinfo").is_some_and(|text| text.contains("QEMU Virtual CPU")) {
        kind = Kind::of("kvm");
    }
    let product = machine.read("/sys/devices/virtual/dmi/id/product_name").unwrap_or_default();
    let table = [
        ("VirtualBox", Kind::of("VirtualBox")),
        ("RHEV Hypervisor", Kind::with("kvm", "rhev")),
        ("oVirt Node", Kind::with("kvm", "ovirt")),
        ("Google", Kind::of("gce")),
        ("BHYVE", Kind::of("bhyve")),
    ];
    if let Some((_, found)) = table.into_iter().find(|(part, _)| product.contains(part)) {
        kind.learn(found);
    }
    kind
}

fn by_container(machine: &Machine) -> Kind {
    let groups = machine.read("/proc/1/cgroup").unwrap_or_default();
    let subtype = |name: &str| Kind { name: None, subtype: Some(name.to_owned()) };
    let table = [
        (":/lxc/", Kind::with("container", "LXC")),
        (":/kubepods/", subtype("kubernetes")),
        (":/libpod_parent/", subtype("libpod")),
        (":/system.slice/docker", Kind::with("container", "Docker")),
        (":/docker/", Kind::with("container", "Docker")),
        (":/docker-ce/", Kind::with("container", "Docker")),
    ];
    let mut kind =
        table.into_iter().find(|(part, _)| groups.contains(part)).map_or_else(Kind::default, |(_, kind)| kind);
    // Newer LXC is visible only in the environment of the first process.
    if machine.read("/proc/1/environ").is_some_and(|text| text.contains("container=lxc")) {
        kind = Kind::with("container", "LXC");
    }
    kind
}

/// Clouds whose machines are of a common type.
fn by_cloud(kind: &Kind, dmi: &str) -> Kind {
    if !kind.is(&["qemu", "kvm", "xen", "amazon"]) {
        return Kind::default();
    }
    let line = |label: &str| dmi.lines().find_map(|line| line.strip_prefix(label));
    if dmi.contains("Manufacturer: Amazon EC2") {
        let subtype = match line("Product Name: ") {
            Some(product) => format!("Amazon EC2 ({product})"),
            None => "Amazon EC2".into(),
        };
        // Amazon's older machines are Xen guests, the newer ones (Nitro) KVM guests.
        let name = if kind.is(&["xen"]) { "xen" } else { "Nitro" };
        return Kind::with(name, &subtype);
    }
    let version = dmi.lines().any(|line| line.strip_prefix("Version: ").is_some_and(|text| text.contains(".amazon")));
    let nutanix = dmi.contains("Manufacturer: Nutanix") && dmi.contains("Product Name: AHV");
    let subtype = if version { Some("Amazon EC2") } else { nutanix.then_some("Nutanix AHV") };
    Kind { name: None, subtype: subtype.map(str::to_owned) }
}

/// The features a Xen hypervisor can have, by their bit (`include/xen/interface/features.h`).
const XEN_FEATURES: [(u32, &str); 14] = [
    (0, "writable_page_tables"),
    (1, "writable_descriptor_tables"),
    (2, "auto_translated_physmap"),
    (3, "supervisor_mode_kernel"),
    (4, "pae_pgdir_above_4gb"),
    (5, "mmu_pt_update_preserve_ad"),
    (7, "gnttab_map_avail_bits"),
    (8, "hvm_callback_vector"),
    (9, "hvm_safe_pvclock"),
    (10, "hvm_pirqs"),
    (11, "dom0"),
    (12, "grant_map_identity"),
    (13, "memory_op_vnode_supported"),
    (14, "ARM_SMCCC_supported"),
];

fn xen_hypervisor(machine: &Machine) -> Map {
    let mut grains = Map::new();
    let part = |name: &str| machine.read_trimmed(&format!("/sys/hypervisor/version/{name}"));
    if let (Some(major), Some(minor), Some(extra)) = (part("major"), part("minor"), part("extra")) {
        grains.insert("virtual_hv_version", format!("{major}.{minor}{extra}"));
        grains.insert("virtual_hv_version_info", vec![major, minor, extra]);
    }
    if let Some(features) = machine.read_trimmed("/sys/hypervisor/properties/features") {
        let bits = u64::from_str_radix(features.trim_start_matches("0x"), 16).unwrap_or(0);
        let names: Value =
            XEN_FEATURES.iter().filter(|(bit, _)| bits & (1 << bit) != 0).map(|(_, name)| *name).collect();
        grains.insert("virtual_hv_features", features);
        grains.insert("virtual_hv_features_list", names);
    }
    grains
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn grains(files: &[(&str, &str)]) -> Map {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::recorded(folder.path(), &[]);
        let product = machine.read_trimmed("/sys/class/dmi/id/product_name").unwrap_or_default();
        virtualization(&machine, &product)
    }

    #[test]
    fn answers_of_detection_programs_are_mapped() {
        assert_eq!(systemd_detect_virt("kvm"), Some(Kind::of("kvm")));
        assert_eq!(systemd_detect_virt("docker"), Some(Kind::with("container", "Docker")));
        assert_eq!(systemd_detect_virt("lxc-libvirt"), Some(Kind::with("container", "LXC")));
        assert_eq!(systemd_detect_virt("zvm"), None);
        assert_eq!(virt_what("ibm_power-lpar_shared"), Some(Kind::with("LPAR", "shared")));
        assert_eq!(virt_what("virt"), None);
    }

    #[test]
    fn kernel_files_show_the_type() {
        let vendor = "sys/class/dmi/id/sys_vendor";
        let product = "sys/class/dmi/id/product_name";
        let kernel_product = "sys/devices/virtual/dmi/id/product_name";
        let cases: &[(&[(&str, &str)], Map)] = &[
            (&[], map! { "virtual" => "physical" }),
            (&[(vendor, "Dell Inc.")], map! { "virtual" => "physical" }),
            (&[(vendor, "QEMU")], map! { "virtual" => "kvm" }),
            (&[(product, "VirtualBox")], map! { "virtual" => "VirtualBox" }),
            (&[(vendor, "VMware, Inc.")], map! { "virtual" => "VMware" }),
            (&[(vendor, "Microsoft Corporation"), (product, "Virtual Machine")], map! { "virtual" => "VirtualPC" }),
            (&[(kernel_product, "Google Compute Engine")], map! { "virtual" => "gce" }),
            (
                &[("proc/1/cgroup", "0::/lxc/web\n1:x:/lxc/web")],
                map! { "virtual" => "container", "virtual_subtype" => "LXC" },
            ),
            (
                &[(vendor, "QEMU"), ("proc/1/cgroup", "3:cpu:/docker/abc")],
                map! { "virtual" => "container", "virtual_subtype" => "Docker" },
            ),
            (
                &[("proc/1/cgroup", "3:cpu:/kubepods/x")],
                map! { "virtual" => "virtual", "virtual_subtype" => "kubernetes" },
            ),
            (
                &[("proc/1/environ", "a=b\0container=lxc\0")],
                map! { "virtual" => "container", "virtual_subtype" => "LXC" },
            ),
            (&[("proc/vz/veinfo", "")], map! { "virtual" => "openvzve" }),
            (&[("proc/self/status", "Name: x\nenvID:\t0\n")], map! { "virtual" => "openvzhn" }),
            (&[("proc/xen/capabilities", "")], map! { "virtual" => "xen", "virtual_subtype" => "Xen PV DomU" }),
        ];
        for (files, expected) in cases {
            assert_eq!(&grains(files), expected, "{files:?}");
        }
    }

    #[test]
    fn amazon_machines_are_recognised() {
        let dmi = "Manufacturer: Amazon EC2\nProduct Name: t3.micro";
        let kind = by_cloud(&Kind::of("kvm"), dmi);
        assert_eq!(kind, Kind::with("Nitro", "Amazon EC2 (t3.micro)"));
        assert_eq!(by_cloud(&Kind::of("VMware"), dmi), Kind::default());
        let old = by_cloud(&Kind::of("xen"), "Version: 4.11.amazon");
        assert_eq!(old, Kind { name: None, subtype: Some("Amazon EC2".into()) });
    }

    #[test]
    fn the_version_and_features_of_xen_are_read() {
        let found = grains(&[
            ("proc/xen/capabilities", ""),
            ("sys/hypervisor/version/major", "4\n"),
            ("sys/hypervisor/version/minor", "11\n"),
            ("sys/hypervisor/version/extra", ".3-pre\n"),
            ("sys/hypervisor/properties/features", "00000103\n"),
        ]);
        assert_eq!(found.get_str("virtual_hv_version"), Some("4.11.3-pre"));
        let names = value::list!["writable_page_tables", "writable_descriptor_tables", "hvm_callback_vector"];
        assert_eq!(found.get("virtual_hv_features_list"), Some(&names));
    }
}
