//! Init system and security: `init`, `systemd`, `selinux`.

use value::{Map, map};

use crate::{Machine, machine::base_name};

/// Returns the grains of the init system and of SELinux.
pub fn init(machine: &Machine) -> Map {
    let mut grains = Map::new();
    if let Some(selinux) = selinux(machine) {
        grains.insert("selinux", selinux);
    }
    if machine.which("systemctl").is_some() && machine.which("localectl").is_some() {
        let said = machine.ask("systemctl", &["--version"]).filter(|said| said.code == Some(0));
        grains.insert("systemd", systemd(said.as_ref().map_or("", |said| &said.stdout)));
    }
    grains.insert("init", init_system(machine));
    grains
}

/// Parses the output of `systemctl --version`: "systemd 252 (…)" and a line of features.
fn systemd(text: &str) -> Map {
    let mut lines = text.lines();
    let version = lines.next().and_then(|line| line.strip_prefix("systemd ")?.split_whitespace().next());
    match (version, lines.next()) {
        (Some(version), Some(features)) => map! { "version" => version, "features" => features },
        (version, _) => {
            tracing::error!("Unexpected output returned by `systemctl --version`: {text}");
            map! { "version" => version.unwrap_or("UNDEFINED"), "features" => "" }
        }
    }
}

/// Queries the kernel, as `selinuxenabled` and `getenforce` do, but only if these are installed.
fn selinux(machine: &Machine) -> Option<Map> {
    machine.which("selinuxenabled")?;
    // The file exists only where SELinux is enabled.
    let enforce = machine.read_trimmed("/sys/fs/selinux/enforce");
    let mut grains = map! { "enabled" => enforce.is_some() };
    if machine.which("getenforce").is_some() {
        let mode = match enforce.as_deref() {
            None => "Disabled",
            Some("1") => "Enforcing",
            Some(_) => "Permissive",
        };
        grains.insert("enforced", mode);
    }
    Some(grains)
}

fn init_system(machine: &Machine) -> String {
    // Checked first: the other rules read whole programs.
    if machine.exists("/run/systemd/system") {
        return "systemd".into();
    }
    let Some(line) = machine.read("/proc/1/cmdline") else { return "unknown".into() };
    let words: Vec<&str> = line.split('\0').flat_map(str::split_whitespace).collect();
    let Some(first) = words.first() else {
        tracing::warn!("Unable to fetch data from /proc/1/cmdline");
        return "unknown".into();
    };
    // The kernel's `init` may be any of several systems under the same name.
    let found = match machine.which(first) {
        Some(program) if program.ends_with("bin/init") => inside_init(machine, &program),
        _ => by_command(machine, &words),
    };
    found.unwrap_or("unknown").to_owned()
}

/// The name of the program `init` contains that of the init system.
fn inside_init(machine: &Machine, program: &str) -> Option<&'static str> {
    let content = machine.read_bytes(program)?.to_ascii_lowercase();
    // If there are several, the first one in the file counts.
    let place = |name: &str| content.windows(name.len()).position(|part| part == name.as_bytes());
    let found = ["upstart", "sysvinit", "systemd"].into_iter().filter_map(|name| Some((place(name)?, name)));
    found.min().map(|(_, name)| name)
}

fn by_command(machine: &Machine, words: &[&str]) -> Option<&'static str> {
    for name in ["supervisord", "dumb-init", "tini"] {
        let program = machine.which(name);
        if program.is_some_and(|program| words.contains(&program.as_str())) {
            return Some(match base_name(name) {
                "supervisord" => "supervisord",
                "tini" => "tini",
                _ => "dumb-init",
            });
        }
    }
    // The base images of phusion start `my_init`.
    (words == ["runit"] || words.contains(&"/sbin/my_init")).then_some("runit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let machine = Machine::recorded(folder.path(), &[("PATH", "/usr/bin")]);
        (folder, machine)
    }

    #[test]
    fn each_init_system_is_known() {
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("run/systemd/system/x", "")], "systemd"),
            (&[("proc/1/cmdline", "/sbin/init\0splash\0"), ("sbin/init", "..SysVinit 2.88..")], "sysvinit"),
            (&[("proc/1/cmdline", "/sbin/init\0"), ("sbin/init", "..upstart..systemd")], "upstart"),
            (&[("proc/1/cmdline", "/usr/bin/tini\0--\0x\0"), ("usr/bin/tini", "")], "tini"),
            (&[("proc/1/cmdline", "/usr/bin/dumb-init\0x\0"), ("usr/bin/dumb-init", "")], "dumb-init"),
            (
                &[("proc/1/cmdline", "/usr/bin/python\0/usr/bin/supervisord\0"), ("usr/bin/supervisord", "")],
                "supervisord",
            ),
            (&[("proc/1/cmdline", "runit\0")], "runit"),
            (&[("proc/1/cmdline", "/bin/bash\0")], "unknown"),
            (&[("proc/1/cmdline", "")], "unknown"),
            (&[], "unknown"),
        ];
        for (files, expected) in cases {
            let (_folder, machine) = machine(files);
            assert_eq!(init_system(&machine), *expected, "{files:?}");
        }
    }

    #[test]
    fn systemd_tells_version_and_features() {
        let expected = map! { "version" => "252", "features" => "+PAM +AUDIT" };
        assert_eq!(systemd("systemd 252 (252.17-1~deb12u1)\n+PAM +AUDIT"), expected);
        assert_eq!(systemd("garbage"), map! { "version" => "UNDEFINED", "features" => "" });
    }

    #[test]
    fn selinux_is_reported_where_its_tools_are_installed() {
        assert_eq!(selinux(&machine(&[]).1), None);
        let (_folder, off) = machine(&[("usr/sbin/selinuxenabled", ""), ("usr/sbin/getenforce", "")]);
        assert_eq!(selinux(&off), Some(map! { "enabled" => false, "enforced" => "Disabled" }));
        let (_folder, on) = machine(&[("usr/sbin/selinuxenabled", ""), ("sys/fs/selinux/enforce", "1")]);
        assert_eq!(selinux(&on), Some(map! { "enabled" => true }));
    }
}
