//! Checks that what keeps strangers out of the built programs and of the services is not lost by an edit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates whose arithmetic may wrap in a released program, with the reason. All others check it: a wrapped length of
/// something that a stranger sent could get past a bound.
const WRAPPING: [(&str, &str); 17] = [
    ("beacons", "reads the machine"),
    ("cli", "reads what its user types"),
    ("config", "reads the operator's files"),
    ("daemon", "starts and stops"),
    ("exec", "passes arguments on"),
    ("exec-macros", "runs in the compiler"),
    ("grains", "reads the machine"),
    ("logscope", "does no arithmetic"),
    ("modules", "does what the operator wants"),
    ("outputters", "prints"),
    ("returners", "stores elsewhere"),
    ("rt", "has clocks and tasks"),
    ("runners", "does what the operator wants"),
    ("schedule", "reads the operator's jobs"),
    ("state", "reads the operator's states"),
    ("states", "does what the operator wants"),
    ("swarm", "is a tool for tests"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn crates_that_read_from_strangers_check_their_arithmetic() {
    let manifest = text("Cargo.toml");
    let section = manifest.split("\n[profile.release.package]\n").nth(1).expect("the profile is in Cargo.toml");
    let section = section.split("\n[").next().unwrap_or_default();
    let checked = |name: &str| {
        let start = format!("saltern-{name} =");
        section.lines().any(|line| line.starts_with(&start) && line.contains("overflow-checks = true"))
    };
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap());
    let names = folders.filter(|folder| folder.path().join("Cargo.toml").exists());
    let names: Vec<String> = names.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    assert!(names.len() > 20, "the crates are found");
    for name in names {
        let wraps = WRAPPING.iter().any(|(exempt, _)| *exempt == name);
        assert!(checked(&name) != wraps, "{name}: add overflow-checks in Cargo.toml, or a reason in {}", file!());
    }
}

/// The lines that the master's service must keep. The minion's has no such line, and says why.
const OF_THE_MASTER: [&str; 20] = [
    "ProtectSystem=full",
    "ProtectHome=read-only",
    "PrivateTmp=true",
    "PrivateDevices=true",
    "ProtectClock=true",
    "ProtectHostname=true",
    "ProtectKernelLogs=true",
    "ProtectKernelModules=true",
    "ProtectKernelTunables=true",
    "ProtectControlGroups=true",
    "RestrictNamespaces=true",
    "RestrictRealtime=true",
    "LockPersonality=true",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
    "NoNewPrivileges=true",
    "LimitCORE=0",
    "KillMode=mixed",
];

#[test]
fn the_services_keep_their_hardening() {
    let master = text("packaging/systemd/salt-master.service");
    for line in OF_THE_MASTER {
        assert!(master.lines().any(|found| found == line), "salt-master.service has lost {line}");
    }
    let capabilities = master.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap_or_default();
    assert!(!capabilities.is_empty(), "without the line the master has all capabilities");
    for powerful in ["CAP_SYS_ADMIN", "CAP_SYS_MODULE", "CAP_NET_ADMIN", "CAP_SYS_RAWIO", "~"] {
        assert!(!capabilities.contains(powerful), "salt-master.service allows {powerful}");
    }
    let minion = text("packaging/systemd/salt-minion.service");
    assert!(minion.lines().any(|line| line == "KeyringMode=private"), "salt-minion.service shares a keyring");
    // `systemctl restart salt-minion` in a state must not kill the job that runs it at once.
    assert!(minion.lines().any(|line| line == "KillMode=mixed"));
}

#[test]
fn systemd_knows_every_line_of_the_services() {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else { return };
    assert!(version.status.success());
    let place = std::env::temp_dir().join(format!("saltern-units-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    for name in ["salt-api.service", "salt-master.service", "salt-minion.service"] {
        let service = text(&format!("packaging/systemd/{name}"));
        // The program is not installed where the tests run.
        let program =
            |line: &str| if line.starts_with("ExecStart=") { "ExecStart=/bin/true".into() } else { line.to_owned() };
        let lines: Vec<String> = service.lines().map(program).collect();
        let path = place.join(name);
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
        // It warns about an unknown key, and still succeeds.
        let said = String::from_utf8_lossy(&output.stderr);
        let about: Vec<&str> = said.lines().filter(|line| line.contains(name)).collect();
        assert!(about.is_empty(), "{about:?}");
    }
    fs::remove_dir_all(&place).unwrap();
}
