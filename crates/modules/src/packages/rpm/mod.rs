//! Helpers that programs based on rpm share: architectures, versions, the list of installed packages.

mod version;

pub use version::compare;

use std::sync::Mutex;

use exec::{Context, Result};
use value::{Map, Value, map};

use super::common;
use crate::pkg_resource;

/// 64-bit architectures of PCs that are taken for one.
const PC_64: [&str; 2] = ["x86_64", "x86_64_v2"];
const BITS_32: [&str; 4] = ["i386", "i486", "i586", "i686"];
const ARM_32: [&str; 7] = ["armv5tel", "armv5tejl", "armv6l", "armv6hl", "armv7l", "armv7hl", "armv7hnl"];
const OTHERS: [&str; 26] = [
    "athlon",
    "amd64",
    "ia32e",
    "ia64",
    "geode",
    "ppc",
    "ppc64",
    "ppc64le",
    "ppc64iseries",
    "ppc64pseries",
    "s390",
    "s390x",
    "alpha",
    "alphaev4",
    "alphaev45",
    "alphaev5",
    "alphaev56",
    "alphapca56",
    "alphaev6",
    "alphaev67",
    "alphaev68",
    "alphaev7",
    "aarch64",
    "sh3",
    "sh4",
    "sh4a",
];

/// Returns whether a word is the name of an architecture.
pub fn is_arch(word: &str) -> bool {
    [&PC_64[..], &BITS_32, &ARM_32, &OTHERS].iter().any(|list| list.contains(&word))
}

/// Returns whether two architectures are 32-bit ones of one family.
pub fn both_32(a: &str, b: &str) -> bool {
    [&BITS_32[..], &ARM_32].iter().any(|list| list.contains(&a) && list.contains(&b))
}

/// Systems that Salt knows by their names, because their grains name another family or none.
const RELATIVES: [&str; 8] =
    ["amazon", "xcp", "xenserver", "virtuozzolinux", "virtuozzo", "issabel pbx", "openeuler", "vmware photon os"];

/// Returns whether the grains are those of a machine with rpm and dnf or yum.
pub fn is_red_hat_relative(grains: &Map) -> bool {
    let lower = |name: &str| grains.get_str(name).map(str::to_lowercase);
    lower("os_family").as_deref() == Some("redhat") || lower("os").is_some_and(|os| RELATIVES.contains(&os.as_str()))
}

/// The architecture of the machine.
pub fn osarch(ctx: &Context) -> &str {
    ctx.grains.get_str("osarch").unwrap_or_default()
}

/// The name a package has in lists: that of a foreign architecture has it behind its name.
pub fn resolve_name(name: &str, arch: &str, osarch: &str) -> String {
    // Salt shows the architecture only of packages that are foreign to the system, such as
    // `glibc.i686`.
    let own = arch == osarch || arch == "noarch" || (PC_64.contains(&arch) && PC_64.contains(&osarch));
    if own || both_32(arch, osarch) { name.to_owned() } else { format!("{name}.{arch}") }
}

/// Splits the architecture from a name, if there is one.
pub fn split_arch(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((bare, arch)) if is_arch(arch) || arch == "noarch" => (bare, Some(arch)),
        _ => (name, None),
    }
}

/// The name a package has in lists, of one that may name the own architecture.
pub fn normalize_name(name: &str, osarch: &str) -> String {
    match split_arch(name) {
        (bare, Some(arch)) if resolve_name(bare, arch, osarch) == bare => bare.to_owned(),
        _ => name.to_owned(),
    }
}

/// The fields that are requested from rpm, with a mark between them.
// `_|-` is Salt's separator, which no field contains. The format is shared with `repoquery`, which supports `REPOID`.
pub const FIELDS: &str = "%{NAME}_|-%{EPOCH}_|-%{VERSION}_|-%{RELEASE}_|-%{ARCH}_|-%{REPOID}_|-%{INSTALLTIME}";

/// A package as rpm describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The name in lists.
    pub name: String,
    /// Epoch, version and release.
    pub version: String,
    /// The architecture.
    pub arch: String,
    /// The repo it comes from.
    pub repoid: String,
    /// When it was installed, in seconds since 1970.
    pub installed: Option<i64>,
}

impl Info {
    /// Reads the answer to [`FIELDS`]. Returns None for lines that are none.
    pub fn parse(line: &str, osarch: &str) -> Option<Info> {
        let [name, epoch, version, release, arch, repoid, time] = line.split("_|-").collect::<Vec<_>>()[..] else {
            return None;
        };
        let mut version = version.to_owned();
        if !release.is_empty() {
            version = format!("{version}-{release}");
        }
        // Epoch 0 and no epoch are the same to rpm.
        if !["(none)", "0"].contains(&epoch) {
            version = format!("{epoch}:{version}");
        }
        let installed = Some(time).filter(|time| *time != "0").and_then(|time| time.trim().parse().ok());
        let (arch, repoid) = (arch.to_owned(), repoid.to_owned());
        Some(Info { name: resolve_name(name, &arch, osarch), version, arch, repoid, installed })
    }

    /// The date of the installation as Salt writes it, with both ways to say UTC.
    pub fn install_date(&self) -> Option<String> {
        let time = jiff::Timestamp::from_second(self.installed?).ok()?;
        // Salt appends "Z" to a time that has its offset already.
        Some(format!("{}+00:00Z", time.strftime("%Y-%m-%dT%H:%M:%S")))
    }

    /// Epoch, version and release, each by itself.
    pub fn parts(&self) -> (Option<&str>, &str, Option<&str>) {
        let (epoch, rest) = self.version.split_once(':').map_or((None, &*self.version), |(e, rest)| (Some(e), rest));
        let (version, release) = rest.split_once('-').map_or((rest, None), |(v, release)| (v, Some(release)));
        (epoch, version, release)
    }

    /// Returns the attributes that `pkg.list_pkgs attr=…` can show.
    pub fn attributes(&self) -> Map {
        let (epoch, version, release) = self.parts();
        map! {
            "epoch" => epoch, "version" => version, "release" => release, "arch" => self.arch.as_str(),
            "install_date" => self.install_date(), "install_date_time_t" => self.installed,
        }
    }
}

/// The installed packages, kept until something is changed.
#[derive(Default)]
struct InstalledCache(Mutex<Option<Map>>);

/// Discards the cached list of installed packages after a change.
pub fn changed(ctx: &Context) {
    ctx.memo.forget::<InstalledCache>();
}

/// Packages with all that is known of each of their versions.
fn installed_packages(ctx: &Context, root: Option<&str>, remembered: bool, suse: bool) -> Result<Map> {
    let memo = ctx.memo.get::<InstalledCache>();
    if root.is_none()
        // Listing takes seconds on big systems, and every `pkg` state needs the list. `changed` discards it.
        && remembered
        && let Some(packages) = memo.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    {
        return Ok(packages);
    }
    // An rpm itself does not know its repository.
    let format = FIELDS.replace("%{REPOID}", "(none)") + "\n";
    let mut words = vec!["rpm"];
    words.extend(root.iter().flat_map(|root| ["--root", root]));
    words.push("-qa");
    // Checking the signatures of all installed packages takes long and gains nothing here.
    words.extend((!suse).then_some(["--nodigest", "--nosignature"]).into_iter().flatten());
    words.extend(["--queryformat", &format]);
    let packages = listed(&common::output(ctx, &words, true)?, osarch(ctx));
    if root.is_none() {
        *memo.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(packages.clone());
    }
    Ok(packages)
}

fn listed(text: &str, osarch: &str) -> Map {
    let mut packages = Map::new();
    for info in text.lines().filter_map(|line| Info::parse(line, osarch)) {
        if let Value::List(versions) = packages.entry_or_insert_with(info.name.as_str(), || Value::List(Vec::new())) {
            versions.push(info.attributes().into());
        }
    }
    for (_, versions) in packages.iter_mut() {
        if let Value::List(versions) = versions {
            // Salt sorts by text here, so 10 comes before 9.
            versions.sort_by_key(|entry| entry.get("version").map(Value::to_string));
        }
    }
    packages
}

/// The settings of a listing of the installed packages.
#[derive(Clone, Default)]
pub struct Listing {
    /// Versions as lists, not as one text.
    pub as_list: bool,
    /// The attributes to list instead of plain versions.
    pub attr: Value,
    /// Another root directory.
    pub root: Option<String>,
    /// True if rpm is queried again.
    pub anew: bool,
    /// As on SUSE: signatures are checked, keys are left out.
    pub suse: bool,
}

impl Listing {
    /// The same with these attributes, as arguments name them.
    pub fn with(mut self, attr: Option<&Value>) -> Self {
        self.attr = match attr {
            Some(Value::Str(all)) if all == "all" => Value::from("all"),
            Some(some) if some.truthy() => crate::util::split_input(some).into(),
            _ => Value::Null,
        };
        self
    }
}

/// Returns the installed packages, with the details of each version.
pub fn entries(ctx: &Context, wanted: &Listing) -> Result<Map> {
    let mut packages = installed_packages(ctx, wanted.root.as_deref(), !wanted.anew, wanted.suse)?;
    // Imported keys are packages to rpm. Only Salt's module for SUSE leaves them out.
    packages.retain(|name, _| !wanted.suse || !name.as_str().is_some_and(|name| name.starts_with("gpg-pubkey")));
    Ok(packages)
}

/// Returns what is installed.
pub fn list(ctx: &Context, wanted: Listing) -> Result<Map> {
    let packages = entries(ctx, &wanted)?;
    pkg_resource::format_pkg_list(ctx, packages, wanted.as_list.into(), wanted.attr)
}

/// The versions in a list made with `as_list`.
pub fn versions<'a>(list: &'a Map, name: &str) -> Vec<&'a str> {
    list.get(name).and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_foreign_architectures() {
        assert_eq!(resolve_name("glibc", "i686", "x86_64"), "glibc.i686");
        assert_eq!(resolve_name("glibc", "x86_64_v2", "x86_64"), "glibc");
        assert_eq!(resolve_name("glibc", "i586", "i686"), "glibc");
        assert_eq!(resolve_name("tzdata", "noarch", "x86_64"), "tzdata");
        assert_eq!(normalize_name("glibc.x86_64", "x86_64"), "glibc");
        assert_eq!(normalize_name("glibc.i686", "x86_64"), "glibc.i686");
        assert_eq!(normalize_name("python3.11", "x86_64"), "python3.11");
        assert_eq!(split_arch("a.noarch"), ("a", Some("noarch")));
    }

    #[test]
    fn lines_of_rpm_are_read() {
        let line = "bind_|-32_|-9.16.23_|-11.el9_|-x86_64_|-(none)_|-1700000000";
        let info = Info::parse(line, "x86_64").unwrap();
        assert_eq!(info.version, "32:9.16.23-11.el9");
        assert_eq!(info.parts(), (Some("32"), "9.16.23", Some("11.el9")));
        assert_eq!(info.install_date().as_deref(), Some("2023-11-14T22:13:20+00:00Z"));
        assert_eq!(Info::parse("error: rpmdb", "x86_64"), None);
        let packages = listed(&format!("{line}\nbind_|-(none)_|-1_|-1_|-x86_64_|-(none)_|-0\n"), "x86_64");
        assert_eq!(packages.get("bind").and_then(Value::as_list).map(<[Value]>::len), Some(2));
    }
}
