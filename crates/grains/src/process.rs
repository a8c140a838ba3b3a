//! This process and its environment: `cwd`, `path`, `systempath`, `shell`, `pid`, `uid`, `gid`, `username`, `groupname`,
//! and the grains about Python.

use nix::unistd::{Group, User, getegid, geteuid};
use value::{Map, Value, list, map};

use crate::Machine;

/// Returns the grains of the environment: directory, path, shell.
pub fn environment(machine: &Machine) -> Map {
    let mut grains = Map::new();
    if let Ok(directory) = std::env::current_dir() {
        grains.insert("cwd", directory.to_string_lossy());
    }
    let path = machine.env("PATH").unwrap_or_default().trim();
    grains.insert("path", path);
    grains.insert("systempath", path.split(':').collect::<Vec<_>>());
    grains.insert("shell", machine.env("SHELL").unwrap_or("/bin/sh"));
    grains
}

/// Returns the grains of the process.
pub fn process() -> Map {
    let (uid, gid) = (geteuid(), getegid());
    let user = User::from_uid(uid).ok().flatten();
    // Salt shows the group of the user's entry, which may not be that of the process.
    let group = user.as_ref().and_then(|user| Group::from_gid(user.gid).ok().flatten());
    map! {
        "username" => user.map_or_else(|| uid.to_string(), |user| user.name),
        "groupname" => group.map_or_else(String::new, |group| group.name),
        "pid" => std::process::id(),
        "gid" => gid.as_raw(),
        "uid" => uid.as_raw(),
    }
}

/// Returns the grains about Python. This program contains none, so they describe the machine's `python3`, since packages are
/// installed for that one; on a machine without it the version is 3.0.0.
pub fn python(machine: &Machine) -> Map {
    let found = machine.which("python3");
    let minor =
        found.as_deref().and_then(|path| minor_of(machine, path)).or_else(|| newest_python(machine)).unwrap_or(0);
    let mut grains = Map::new();
    grains.extend(found.map(|path| ("pythonexecutable", path)));
    // Salt shows its own `sys.path`. The key stays, for templates that use it.
    grains.insert("pythonpath", list![]);
    grains.insert("pythonversion", list![3, minor, 0, "final", 0]);
    grains
}

/// `python3` is usually a link to a name with the full version.
fn minor_of(machine: &Machine, path: &str) -> Option<i64> {
    minor_in(&machine.link_target(path)?)
}

fn newest_python(machine: &Machine) -> Option<i64> {
    let directories = ["/usr/bin", "/usr/local/bin", "/bin"];
    let names = directories.iter().flat_map(|directory| machine.names_with(directory, "python3."));
    names.filter_map(|name| minor_in(&name)).max()
}

/// Returns the 11 of a name that ends with "python3.11".
fn minor_in(name: &str) -> Option<i64> {
    name.rsplit('/').next()?.strip_prefix("python3.")?.parse().ok()
}

/// Returns the `ps` command of the system.
pub fn ps(os_family: &str, virtual_: &str) -> Map {
    let command = match (os_family, virtual_) {
        // The host of OpenVZ hides the processes of its guests.
        (_, "openvzhn") => {
            r#"ps -fH -p $(grep -l "^envID:[[:space:]]*0\$" /proc/[0-9]*/status | sed -e "s=/proc/\([0-9]*\)/.*=\1=")  | awk '{ $7=""; print }'"#
        }
        ("NILinuxRT", _) => "ps -o user,pid,ppid,tty,time,comm",
        _ => "ps -efHww",
    };
    map! { "ps" => Value::from(command) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_python_is_described() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("usr/bin");
        std::fs::create_dir_all(&bin).unwrap();
        let machine = Machine::recorded(folder.path(), &[("PATH", "/usr/bin")]);
        assert_eq!(python(&machine), map! { "pythonpath" => list![], "pythonversion" => list![3, 0, 0, "final", 0] });
        std::fs::write(bin.join("python3.9"), "").unwrap();
        std::fs::write(bin.join("python3.11"), "").unwrap();
        assert_eq!(python(&machine).get("pythonversion"), Some(&list![3, 11, 0, "final", 0]));
        assert_eq!(minor_in("/usr/bin/python3-config"), None);
    }

    #[test]
    fn the_process_grains_are_those_of_this_process() {
        let grains = process();
        assert_eq!(grains.get("pid"), Some(&Value::from(std::process::id())));
        assert!(grains.get_str("username").is_some());
    }
}
