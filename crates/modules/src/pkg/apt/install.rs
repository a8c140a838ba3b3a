//! Installing packages.

use exec::{Call, Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::changes::{keep_settings, refresh_lists, set_held};
use super::reads::repo_versions;
use super::{Packages, apt, differences, failure, flag, installed, problem, program_output, selections};
use crate::pkg::debian_version;
use crate::pkg_resource::packed;

/// Installs or upgrades packages; returns the changes.
///
/// ``pkgs`` is a list of names or of ``name: version``, ``sources`` a list of ``name: file``. With ``refresh=True`` the
/// package lists are refreshed first. Held packages are unheld during the installation.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.install <package name>
///     salt '*' pkg.install pkgs='["foo", {"bar": "1.2.3-0ubuntu0"}]'
#[function]
fn install(
    ctx: &Context,
    name: Option<String>,
    #[default(false)] refresh: bool,
    fromrepo: Option<String>,
    #[default(false)] skip_verify: bool,
    #[default(Value::Null)] debconf: Value,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    #[default(false)] reinstall: bool,
    #[default(false)] downloadonly: bool,
    #[default(false)] ignore_epoch: bool,
    #[default(true)] normalize: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    if refresh {
        refresh_lists(ctx, &kwargs)?;
    }
    // The answers must be set before the package's scripts ask.
    if debconf.truthy() {
        ctx.call("debconf.set_file", vec![debconf])?;
    }
    let split = kwargs.0.get("split_arch").is_none_or(Value::truthy);
    let (asked, from_files) = requested(ctx, name, &pkgs, &sources, normalize && split, &kwargs)?;
    if asked.is_empty() {
        return Ok(Map::new());
    }
    let old = installed(ctx)?;
    let available = available(ctx, &asked, from_files)?;
    let plan = Plan::of(&asked, &Situation { old: &old, available: &available, reinstall, ignore_epoch, from_files });
    let repo = kwargs.0.get_str("repo").filter(|repo| !repo.is_empty()).map(str::to_owned);
    let options = Options {
        settings: keep_settings(flag(&kwargs, "force_conf_new", false)),
        recommends: kwargs.0.get("install_recommends").map(|_| flag(&kwargs, "install_recommends", true)),
        only_upgrade: flag(&kwargs, "only_upgrade", false),
        force_yes: flag(&kwargs, "force_yes", false),
        skip_verify,
        release: fromrepo.filter(|repo| !repo.is_empty()).or(repo).filter(|_| !from_files),
        download: downloadonly || flag(&kwargs, "download_only", false),
    };
    run(ctx, &plan, &options, &old, from_files)
}

/// A requested package, its source and its version.
struct Requested {
    name: String,
    file: Option<String>,
    version: Option<String>,
}

fn requested(
    ctx: &Context,
    name: Option<String>,
    pkgs: &Value,
    sources: &Value,
    normalize: bool,
    kwargs: &KwArgs,
) -> Result<(Vec<Requested>, bool)> {
    let mut more = kwargs.given();
    more.update(map! { "normalize" => normalize });
    let args = vec![name.clone().into(), pkgs.clone(), sources.clone()];
    let parsed = ctx.call_with("pkg_resource.parse_targets", Call { args, kwargs: more })?;
    let mut parsed = parsed.into_list().unwrap_or_default().into_iter();
    match parsed.next() {
        Some(Value::Map(packages)) => {
            let version = |version: Value| (version.truthy()).then(|| version.to_string());
            let asked = packages.into_iter().map(|(name, wanted)| Requested {
                name: name.to_string(),
                file: None,
                // apt installs the newest version anyway.
                version: version(wanted).filter(|version| version != "latest"),
            });
            let asked: Vec<Requested> = asked.collect();
            // A name that begins with a dash would be read as an option of a program that runs as
            // root.
            if let Some(bad) = asked.iter().find(|asked| asked.name.starts_with('-') || asked.name.is_empty()) {
                return Err(Error::invocation(format!("'{}' is not the name of a package", bad.name)));
            }
            Ok((asked, false))
        }
        Some(Value::List(files)) => {
            let mut asked = Vec::new();
            for file in files {
                // The name in the state is the user's choice; only the file contains the real one.
                let info = ctx.call("lowpkg.bin_pkg_info", vec![file.clone()])?;
                let text = |name: &str| info.get(name).map(Value::to_string);
                asked.push(Requested {
                    name: text("name").unwrap_or_default(),
                    version: text("version"),
                    file: Some(file.to_string()),
                });
            }
            Ok((asked, true))
        }
        _ => Ok((Vec::new(), false)),
    }
}

/// The available versions of packages with a requested range.
fn available(ctx: &Context, asked: &[Requested], from_files: bool) -> Result<Map> {
    // Only a range needs the list of versions. An exact one is handed to apt as it is.
    let range = |asked: &&Requested| asked.version.as_deref().is_some_and(|version| version.starts_with(['<', '>']));
    let mut words = vec!["apt-cache", "show"];
    words.extend(asked.iter().filter(range).map(|asked| asked.name.as_str()));
    if words.len() == 2 || from_files { Ok(Map::new()) } else { Ok(repo_versions(&program_output(ctx, &words)?)) }
}

struct Situation<'a> {
    old: &'a Packages,
    available: &'a Map,
    reinstall: bool,
    ignore_epoch: bool,
    from_files: bool,
}

/// The packages by the action they need. Each list takes one call.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    install: Vec<String>,
    downgrade: Vec<String>,
    reinstall: Vec<(String, String)>,
    errors: Vec<String>,
}

impl Plan {
    fn of(asked: &[Requested], here: &Situation) -> Plan {
        let mut plan = Plan::default();
        for package in asked {
            if let Err(reason) = plan.add(package, here) {
                plan.errors.push(reason);
            }
        }
        plan
    }

    fn add(&mut self, package: &Requested, here: &Situation) -> std::result::Result<(), String> {
        let there = here.old.get(&package.name).map(|versions| versions.join(","));
        let Some(version) = &package.version else {
            let target = package.file.clone().unwrap_or_else(|| package.name.clone());
            match there {
                Some(_) if here.reinstall && !here.from_files => self.reinstall.push((package.name.clone(), target)),
                _ => self.install.push(target),
            }
            return Ok(());
        };
        let mut version = version.trim_start_matches('=').trim().to_owned();
        if version.starts_with(['<', '>']) && !here.from_files {
            version = pick(&package.name, &version, here)?;
        }
        let target = package.file.clone().unwrap_or_else(|| format!("{}={version}", package.name));
        let order = there.as_deref().map(|there| debian_version::compare(&version, there));
        match order {
            Some(order) if order.is_eq() && here.reinstall => self.reinstall.push((package.name.clone(), target)),
            // A pattern cannot be ordered, so apt has to find out itself.
            Some(order) if order.is_lt() && !version.contains('*') => self.downgrade.push(target),
            _ => self.install.push(target),
        }
        Ok(())
    }
}

/// Finds a version in a range.
fn pick(name: &str, range: &str, here: &Situation) -> std::result::Result<String, String> {
    let candidates = here.available.get(name).and_then(Value::as_list).unwrap_or_default();
    let candidates: Vec<String> = candidates.iter().map(Value::to_string).collect();
    let fits = |candidate: &&String| range.split(',').all(|part| in_range(candidate, part.trim(), here.ignore_epoch));
    // apt lists the newest version first.
    candidates.iter().find(fits).cloned().ok_or_else(|| {
        let shown = if candidates.is_empty() { "None".to_owned() } else { candidates.join(", ") };
        format!("No version matching '{name}{range}' could be found (available: {shown})")
    })
}

fn in_range(version: &str, part: &str, ignore_epoch: bool) -> bool {
    let wanted = part.trim_start_matches(['<', '>', '=', '!']);
    let sign = &part[..part.len() - wanted.len()];
    let bare = |text: &str| match text.split_once(':') {
        Some((_, rest)) if ignore_epoch => rest.to_owned(),
        _ => text.trim().to_owned(),
    };
    let order = debian_version::compare(&bare(version), &bare(wanted));
    match sign {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "!=" => order.is_ne(),
        _ => order.is_eq(),
    }
}

/// The options of a call of apt.
struct Options {
    settings: Vec<&'static str>,
    recommends: Option<bool>,
    only_upgrade: bool,
    force_yes: bool,
    skip_verify: bool,
    release: Option<String>,
    download: bool,
}

impl Options {
    fn words(&self) -> Vec<&str> {
        let mut words = vec!["-q", "-y"];
        words.extend(self.force_yes.then_some("--force-yes"));
        words.extend(&self.settings);
        words.extend(self.recommends.map(|on| if on { "--install-recommends" } else { "--no-install-recommends" }));
        words.extend(self.only_upgrade.then_some("--only-upgrade"));
        words.extend(self.skip_verify.then_some("--allow-unauthenticated"));
        words.extend(self.download.then_some("--download-only"));
        words.extend(self.release.iter().flat_map(|release| ["-t", release.as_str()]));
        words
    }
}

fn run(ctx: &Context, plan: &Plan, options: &Options, old: &Packages, from_files: bool) -> Result<Map> {
    let again: Vec<&str> = plan.reinstall.iter().map(|(_, target)| target.as_str()).collect();
    let as_words = |targets: &'_ [String]| targets.iter().map(String::clone).collect::<Vec<_>>();
    // Three calls, because --allow-downgrades and --reinstall would apply to all packages of one.
    let calls = [
        (None, as_words(&plan.install)),
        (Some("--allow-downgrades"), as_words(&plan.downgrade)),
        ((!from_files).then_some("--reinstall"), again.iter().map(|word| (*word).to_owned()).collect()),
    ];
    let mut errors = plan.errors.clone();
    // apt refuses to touch held packages.
    let freed = freed(ctx, plan)?;
    for (word, targets) in calls.iter().filter(|(_, targets)| !targets.is_empty()) {
        let mut args = options.words();
        args.extend(*word);
        args.push("install");
        args.extend(targets.iter().map(String::as_str));
        errors.extend(failure(&apt(ctx, &args)?));
    }
    let new = installed(ctx)?;
    let mut changes = differences(old, &new);
    for (name, _) in &plan.reinstall {
        let text = |packages: &Packages| packages.get(name).map_or(String::new(), |versions| versions.join(","));
        changes.insert(name.as_str(), map! { "old" => text(old), "new" => text(&new) });
    }
    for name in &freed {
        // Also after a failure, or a hold would silently be gone.
        set_held(ctx, name, true)?;
    }
    match errors.is_empty() {
        true => Ok(changes),
        false => {
            let details = map! { "errors" => errors, "changes" => changes };
            Err(problem("Problem encountered installing package(s)", details))
        }
    }
}

/// Unholds held packages that are to be installed, and returns them.
fn freed(ctx: &Context, plan: &Plan) -> Result<Vec<String>> {
    let held = selections(ctx, None, Some("hold"))?;
    let held = held.get("hold").cloned().unwrap_or_default();
    let names = plan.install.iter().chain(&plan.downgrade).map(|target| target.split('=').next().unwrap_or_default());
    let names: Vec<&str> = names.chain(plan.reinstall.iter().map(|(name, _)| name.as_str())).collect();
    let held = packed(&held);
    let freed: Vec<String> = held.text_keys().filter(|name| names.contains(name)).map(str::to_owned).collect();
    for name in &freed {
        set_held(ctx, name, false)?;
    }
    Ok(freed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    fn plan(wanted: &[(&str, &str)], reinstall: bool) -> Plan {
        let old = Packages::from([("bash".to_owned(), vec!["5.2-1".to_owned()])]);
        let asked: Vec<Requested> = wanted
            .iter()
            .map(|(name, version)| Requested {
                name: (*name).to_owned(),
                file: None,
                version: Some((*version).to_owned()).filter(|version| !version.is_empty()),
            })
            .collect();
        let available = map! { "bash" => list!["5.3-1", "5.2-1", "4.0"] };
        let here = Situation { old: &old, available: &available, reinstall, ignore_epoch: false, from_files: false };
        Plan::of(&asked, &here)
    }

    #[test]
    fn versions_decide_how_packages_are_installed() {
        let text = |targets: &[&str]| targets.iter().map(|target| (*target).to_owned()).collect::<Vec<String>>();
        let found = plan(&[("new", ""), ("bash", "=5.3-1"), ("other", "1")], false);
        assert_eq!(found.install, text(&["new", "bash=5.3-1", "other=1"]));
        assert_eq!(plan(&[("bash", "5.0")], false).downgrade, text(&["bash=5.0"]));
        assert_eq!(plan(&[("bash", "")], true).reinstall, [("bash".to_owned(), "bash".to_owned())]);
        assert_eq!(plan(&[("bash", "5.2-1")], true).reinstall, [("bash".to_owned(), "bash=5.2-1".to_owned())]);
        assert_eq!(plan(&[("bash", ">5.2")], false).install, text(&["bash=5.3-1"]));
        assert_eq!(plan(&[("bash", "<5.0")], false).downgrade, text(&["bash=4.0"]));
        assert_eq!(plan(&[("bash", ">=5.2,<5.3")], false).install, text(&["bash=5.2-1"]));
        let none = plan(&[("bash", ">6")], false).errors;
        assert_eq!(none, ["No version matching 'bash>6' could be found (available: 5.3-1, 5.2-1, 4.0)"]);
        let none = plan(&[("x", ">6")], false).errors;
        assert_eq!(none, ["No version matching 'x>6' could be found (available: None)"]);
    }
}
