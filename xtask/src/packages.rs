//! Packages of the system, installed only when something is missing.

use crate::run::{Failure, Step};

/// The requirements of a chore: shell commands that succeed when they are met, and the packages that provide them.
pub type Need = &'static [(&'static str, &'static str)];

/// For building: the C compiler and what OpenSSL's build needs.
pub const BUILD: Need = &[
    ("command -v cc", "gcc libc6-dev"),
    ("command -v make", "make"),
    // Debian's small perl lacks the modules OpenSSL's Configure uses.
    ("perl -MFindBin -MIPC::Cmd -MTime::Piece -e 1", "perl"),
];

/// For watching which functions of the program run.
pub const CALLGRIND: Need = &[("command -v valgrind", "valgrind")];

/// For the fuzz targets: libFuzzer is C++.
pub const FUZZ: Need = &[("command -v c++", "g++")];

/// For the real Salt: a Python that makes virtual environments, and the commands its grains and modules call.
pub const REAL_SALT: Need = &[
    ("python3 -c 'import venv, ensurepip'", "python3-venv"),
    ("python3 -m pip --version", "python3-pip"),
    ("command -v ip", "iproute2"),
    ("command -v ps", "procps"),
    ("command -v setpriv", "util-linux"),
];

/// For the drivers of the minion data cache and the logins with LDAP: the servers. Their packages may
/// start them as services. For the console: a browser, and npm to fetch the rules of accessibility.
pub const SERVERS: Need = &[
    ("command -v redis-server", "redis-server"),
    ("command -v etcd", "etcd-server"),
    // These two are not on every user's path.
    ("test -x /usr/sbin/mariadbd", "mariadb-server"),
    ("test -x /usr/sbin/slapd", "slapd"),
    ("command -v chromium", "chromium"),
    ("command -v npm", "npm"),
];

/// For counting instructions.
pub const COUNTING: Need = &[("command -v valgrind", "valgrind libc6-dbg")];

/// For faults in network namespaces: a clock that can be moved for one process.
pub const OUTAGE: Need = &[("command -v ip", "iproute2"), ("command -v faketime", "faketime")];

/// Returns whether all of it is there.
pub fn are_there(need: Need) -> bool {
    need.iter().all(|(probe, _)| succeeds(probe))
}

/// Installs what is missing with apt, through sudo when that is needed.
pub fn ensure(needs: &[Need]) -> Result<(), Failure> {
    let wanted = needs.iter().flat_map(|need| need.iter());
    // All probes first, so that apt runs once.
    let missing: Vec<&str> = wanted.filter(|(probe, _)| !succeeds(probe)).flat_map(|(_, p)| p.split(' ')).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    println!("installing what is missing: {list}");
    if !succeeds("command -v apt-get") {
        return Err(Failure::new(format!("this machine has no apt-get; install what these packages bring: {list}")));
    }
    apt(&["update"])?;
    // Recommended packages would bring services that run.
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(missing);
    apt(&install)
}

fn apt(args: &[&str]) -> Result<(), Failure> {
    let root = Step::new("id").arg("-u").output().is_some_and(|uid| uid.trim() == "0");
    let step = if root {
        Step::new("apt-get")
    } else {
        // sudo drops the environment, so the variable is an argument.
        Step::new("sudo").args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get"])
    };
    // In this runlevel, most packages do not start the services that they bring.
    step.args(args).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1").run()
}

fn succeeds(probe: &str) -> bool {
    Step::new("sh").args(["-c", probe]).output().is_some()
}

/// Returns whether programs that are linked here find at least this release of glibc.
pub fn glibc_is_at_least(major: u32, minor: u32) -> bool {
    let told = Step::new("getconf").arg("GNU_LIBC_VERSION").output().unwrap_or_default();
    let mut numbers = told.trim().trim_start_matches("glibc ").split('.').map_while(|part| part.parse().ok());
    numbers.next().is_some_and(|found: u32| (found, numbers.next().unwrap_or(0)) >= (major, minor))
}
