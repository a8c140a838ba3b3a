//! The option `disable_grains`: families of grains that are disabled, by the names of Salt's files.

use value::{Map, Value};

/// Salt's files with their grains. All other grains are from `core`.
const FILES: &[(&str, &[&str])] = &[
    ("disks", &["disks", "ssds"]),
    ("extra", &["ca_truststore", "efi", "efi-secure-boot", "shell", "transactional"]),
    ("fibre_channel", &["fc_wwn"]),
    ("iscsi", &["iscsi_iqn"]),
    ("lvm", &["lvm"]),
    ("mdadm", &["mdadm"]),
    ("minion_process", &["gid", "groupname", "pid", "uid", "username"]),
    ("nvme", &["nvme_nqn"]),
    ("package", &["package"]),
    ("zfs", &["zfs_support", "zfs_feature_flags"]),
];

/// The disabled families.
pub(crate) struct Disabled(Vec<String>);

impl Disabled {
    pub(crate) fn of(opts: &Map) -> Self {
        let names = opts.get("disable_grains").and_then(Value::as_list).unwrap_or_default();
        Disabled(names.iter().map(Value::to_string).collect())
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.0.iter().any(|name| name == file)
    }

    /// Removes the grains of disabled families.
    pub(crate) fn without(&self, mut grains: Map) -> Map {
        if !self.0.is_empty() {
            grains.retain(|name, _| !self.has(file_of(name.as_str().unwrap_or_default())));
        }
        grains
    }
}

fn file_of(grain: &str) -> &'static str {
    FILES.iter().find(|(_, grains)| grains.contains(&grain)).map_or("core", |(file, _)| file)
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn families_are_disabled_by_salts_file_names() {
        let all = map! { "os" => "Debian", "id" => "a", "disks" => list![], "pid" => 1, "shell" => "/bin/sh" };
        let left = |names: &[&str]| {
            let names: Value = names.iter().copied().collect();
            let grains = Disabled::of(&map! { "disable_grains" => names }).without(all.clone());
            grains.text_keys().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(left(&[]), "os id disks pid shell");
        assert_eq!(left(&["core"]), "disks pid shell");
        assert_eq!(left(&["disks", "minion_process"]), "os id shell");
        assert_eq!(left(&["extra"]), "os id disks pid");
    }
}
