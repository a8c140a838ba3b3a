//! Installing packages.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::available::{refresh, repo_packages};
use super::reads::list_downloaded;
use super::{Manager, call, holds, options};
use crate::lowpkg::rpm as lowpkg;
use crate::packages::common::{self, Targets};
use crate::packages::rpm::{self, Listing};
use crate::util::is_true;

/// Installs or upgrades packages; returns the changes.
///
/// ``pkgs`` is a list of names or of ``name: version``, ``sources`` a list of ``name: file``. With
/// ``update_holds=True`` held packages are unheld during the installation.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.install <package name>
///     salt '*' pkg.install pkgs='["foo", {"bar": "1.2.3-4.el5"}]'
///     salt '*' pkg.install sources='[{"foo": "salt://foo.rpm"}]'
#[function]
pub(super) fn install(
    ctx: &Context,
    name: Option<String>,
    #[default(false)] refresh: Value,
    #[default(false)] skip_verify: bool,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    #[default(false)] downloadonly: bool,
    #[default(false)] reinstall: Value,
    #[default(true)] normalize: bool,
    #[default(false)] update_holds: bool,
    #[default("base")] saltenv: String,
    #[default(false)] ignore_epoch: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let mut kwargs = kwargs.given();
    // YAML turns `version: 1.0` into a number.
    if let Some(version) = kwargs.get("version").filter(|version| !version.is_null()).map(Value::to_string) {
        kwargs.insert("version", version);
    }
    if is_true(&refresh) {
        self::refresh(ctx, &kwargs, true)?;
    }
    let split = kwargs.get("split_arch").is_none_or(Value::truthy);
    let mut more = map! { "saltenv" => saltenv, "normalize" => normalize && split };
    more.update(kwargs.clone());
    let targets = common::parse_targets(ctx, vec![name.into(), pkgs, sources], more)?;
    if matches!(targets, Targets::None) {
        return Ok(Map::new());
    }
    let wanted = InstallOptions { reinstall: is_true(&reinstall), ignore_epoch, split, kwargs: &kwargs };
    let before = Before::of(ctx, &kwargs, downloadonly)?;
    let plan = wanted.plan(ctx, targets, &before)?;
    let mut words = options(&kwargs);
    words.extend(skip_verify.then(|| "--nogpgcheck".to_owned()));
    // Dnf5 accepts the option only behind the verb.
    words.extend((downloadonly && Manager::of(ctx)? != Manager::Dnf5).then(|| "--downloadonly".to_owned()));
    plan.run(ctx, &words, update_holds, &before)
}

/// The installed packages before anything was done.
struct Before {
    shown: Map,
    versions: Map,
    attr: Value,
    downloaded: bool,
}

impl Before {
    fn of(ctx: &Context, kwargs: &Map, downloaded: bool) -> Result<Before> {
        let attr = kwargs.get("diff_attr").cloned().unwrap_or_default();
        let shown = packages_before(ctx, &attr, downloaded)?;
        let versions = match downloaded {
            true => shown.clone(),
            false => rpm::list(ctx, Listing { as_list: true, ..Listing::default() })?,
        };
        Ok(Before { shown, versions, attr, downloaded })
    }
}

fn packages_before(ctx: &Context, attr: &Value, downloaded: bool) -> Result<Map> {
    match downloaded {
        true => list_downloaded(ctx, KwArgs::default()),
        false => rpm::list(ctx, Listing::default().with(Some(attr))),
    }
}

/// The arguments of `install` that decide how a package is installed.
struct InstallOptions<'a> {
    reinstall: bool,
    ignore_epoch: bool,
    split: bool,
    kwargs: &'a Map,
}

/// A package by its name in lists, and its argument for dnf.
type Pair = (String, String);

/// The packages by the action they need. Each list takes one call.
#[derive(Debug, Default)]
struct Plan {
    install: Vec<Pair>,
    downgrade: Vec<Pair>,
    reinstall: Vec<Pair>,
    errors: Vec<String>,
    advisories: bool,
}

impl InstallOptions<'_> {
    fn plan(&self, ctx: &Context, targets: Targets, before: &Before) -> Result<Plan> {
        let mut plan = Plan::default();
        match targets {
            Targets::Packages(packages) => self.add_packages(ctx, packages, before, &mut plan)?,
            Targets::Files(files) => {
                for file in files {
                    match lowpkg::info_of_file(ctx, &file)? {
                        Some(info) => self.place(&info.name, &info.version, file, before, &mut plan),
                        // A file that rpm cannot read is left to the package manager, which reports why.
                        None => {
                            tracing::error!("{file} tells no version, so none is compared");
                            plan.install.push((String::new(), file));
                        }
                    }
                }
            }
            Targets::Advisories(ids) => {
                plan.advisories = true;
                let known = super::patches::patches(ctx, false)?;
                if let Some(id) = ids.iter().find(|id| !known.contains_key(id)) {
                    return Err(Error::execution(format!("Advisory id \"{id}\" not found")));
                }
                plan.install = ids.into_iter().map(|id| (id.clone(), id)).collect();
            }
            Targets::None => {}
        }
        Ok(plan)
    }

    fn add_packages(&self, ctx: &Context, packages: Map, before: &Before, plan: &mut Plan) -> Result<()> {
        // Only patterns and comparisons need the list of available packages, which is slow.
        let open =
            |version: &Value| version.as_str().is_some_and(|text| text.contains('*') || text.starts_with(['<', '>']));
        let asked: Vec<String> =
            packages.iter().filter(|(_, version)| open(version)).map(|(name, _)| name.to_string()).collect();
        let available = match asked.is_empty() {
            true => Map::new(),
            false => repo_packages(ctx, &asked, &without(self.kwargs, "byrepo"))?,
        };
        for (name, version) in &packages {
            let name = name.to_string();
            if version.is_null() {
                let again = self.reinstall && before.shown.contains_key(&name);
                let place = if again { &mut plan.reinstall } else { &mut plan.install };
                place.push((name.clone(), name));
                continue;
            }
            match self.target(ctx, &name, &version.to_string(), &available)? {
                Ok((name, version, word)) => self.place(&name, &version, word, before, plan),
                Err(why) => plan.errors.push(why),
            }
        }
        Ok(())
    }

    /// Returns name, version and word of a package that is wanted in a certain version.
    fn target(
        &self,
        ctx: &Context,
        asked: &str,
        version: &str,
        available: &Map,
    ) -> Result<std::result::Result<(String, String, String), String>> {
        let candidates = |name: &str| -> Vec<String> {
            available.get(name).and_then(Value::as_list).unwrap_or_default().iter().map(Value::to_string).collect()
        };
        let mut version = version.trim_start_matches('=').to_owned();
        if version.starts_with(['<', '>']) {
            let offered = candidates(asked);
            let order = |a: &str, b: &str| rpm::compare(a, b, self.ignore_epoch);
            let Some(found) = common::matching(&version, &offered, order) else {
                let known = if offered.is_empty() { "None".to_owned() } else { offered.join(", ") };
                return Ok(Err(format!("No version matching '{asked}{version}' could be found (available: {known})")));
            };
            version = found.clone();
        }
        let bare = |version: &str| version.split_once(':').map_or(version, |(_, rest)| rest).to_owned();
        // Yum does not know what to do with an epoch in a name.
        if Manager::of(ctx)? == Manager::Yum && self.ignore_epoch {
            version = bare(&version);
        }
        let (name, arch) = self.split(ctx, asked);
        if version.contains('*') {
            let offered = candidates(name);
            let Some(found) = offered.iter().find(|candidate| targeting::fnmatch(candidate, &version)) else {
                let known = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
                let text = format!("No version matching '{version}' found for package '{name}' (available: {known})");
                return Ok(Err(text));
            };
            version = found.clone();
        }
        // The package manager finds `name-version` in every epoch.
        let shown = if self.ignore_epoch { version.clone() } else { bare(&version) };
        Ok(Ok((name.to_owned(), version, format!("{name}-{shown}{arch}"))))
    }

    fn split<'n>(&self, ctx: &Context, name: &'n str) -> (&'n str, String) {
        split(ctx, name, self.split)
    }

    /// Decides by the installed versions how a package is installed.
    fn place(&self, name: &str, version: &str, word: String, before: &Before, plan: &mut Plan) {
        let there = rpm::versions(&before.versions, name);
        let order = |other: &&str| rpm::compare(version, other, self.ignore_epoch);
        let pair = (name.to_owned(), word);
        if self.reinstall && !there.is_empty() {
            // Any other version than the installed one cannot be "reinstalled" and is left out, as
            // Salt does.
            if there.iter().any(|other| order(other).is_eq()) {
                plan.reinstall.push(pair);
            }
        } else if there.is_empty()
            || there.iter().any(|other| order(other).is_ge())
            // Kernels stand beside each other. An older one is installed, not downgraded to.
            || ["kernel", "kernel-devel"].contains(&name)
        {
            plan.install.push(pair);
        } else {
            plan.downgrade.push(pair);
        }
    }
}

/// Returns a name without its architecture, and the architecture with its dot, if it is to be split off.
pub(super) fn split<'n>(ctx: &Context, name: &'n str, split: bool) -> (&'n str, String) {
    match name.rsplit_once('.') {
        Some((bare, arch)) if rpm::is_arch(arch) && (split || arch != rpm::osarch(ctx)) => (bare, format!(".{arch}")),
        _ => (name, String::new()),
    }
}

fn without(kwargs: &Map, name: &str) -> Map {
    let mut kwargs = kwargs.clone();
    kwargs.remove(name);
    kwargs
}

/// The held packages, whether they are unheld, and those that were left out.
struct Held {
    names: Vec<String>,
    let_go: bool,
    prevented: Vec<String>,
}

impl Plan {
    fn run(mut self, ctx: &Context, options: &[String], update_holds: bool, before: &Before) -> Result<Map> {
        let names = match holds::names(ctx) {
            Ok(names) => names,
            // Without the plug-in nothing is held.
            Err(Error::Invocation(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut held = Held { names, let_go: update_holds, prevented: Vec::new() };
        // Without `--best` dnf succeeds silently when it cannot install a requested package. Dnf5 takes the options
        // only behind the verb.
        let best = ["--best", "--allowerasing"].map(str::to_owned);
        let manager = Manager::of(ctx)?;
        let mut first = vec!["-y".to_owned()];
        first.extend((manager == Manager::Dnf).then_some(best.clone()).into_iter().flatten());
        first.extend_from_slice(options);
        first.push(if self.advisories { "update" } else { "install" }.to_owned());
        first.extend((manager == Manager::Dnf5).then_some(best).into_iter().flatten());
        let (install, downgrade, again) = (
            std::mem::take(&mut self.install),
            std::mem::take(&mut self.downgrade),
            std::mem::take(&mut self.reinstall),
        );
        self.step(ctx, first, &install, &mut held)?;
        for (word, pairs) in [("downgrade", &downgrade), ("reinstall", &again)] {
            let start = [&["-y".to_owned()], options, &[word.to_owned()]].concat();
            self.step(ctx, start, pairs, &mut held)?;
        }
        rpm::changed(ctx);
        let new = packages_before(ctx, &before.attr, before.downloaded)?;
        let mut changes = common::differences(&before.shown, &new);
        // A reinstalled package has the same version before and after, so a comparison shows
        // nothing.
        for (name, _) in &again {
            let part = |list: &Map| list.get(name).cloned().unwrap_or_else(|| "".into());
            changes.insert(name.as_str(), map! { "old" => part(&before.shown), "new" => part(&new) });
        }
        if !held.prevented.is_empty() {
            self.errors.push(format!(
                "The following package(s) could not be updated because they are being held: {}. Set 'update_holds' to True \
                 to temporarily unhold these packages so that they can be updated.",
                held.prevented.join(", ")
            ));
        }
        let kind = if again.is_empty() { "" } else { "/reinstalling" };
        common::outcome(&format!("Error occurred installing{kind} package(s)"), self.errors, changes)
    }

    /// Makes one call of the manager.
    fn step(&mut self, ctx: &Context, start: Vec<String>, pairs: &[Pair], held: &mut Held) -> Result<()> {
        let (kept, mut free): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(|(name, _)| held.names.contains(name));
        let kept_names: Vec<String> = kept.iter().map(|(name, _)| name.clone()).collect();
        // Held packages are kept out of the call. The package manager would leave them alone
        // without a word or fail as a whole.
        if !held.let_go {
            held.prevented.extend(kept_names);
            return self.call(ctx, start, &free);
        }
        if kept.is_empty() {
            return self.call(ctx, start, &free);
        }
        match holds::change(ctx, &kept_names, false) {
            Ok(outcome) => {
                for pair in kept {
                    match outcome.get(&pair.0).and_then(|entry| entry.get("result")).is_some_and(Value::truthy) {
                        true => free.push(pair),
                        false => self.errors.push(pair.0.clone()),
                    }
                }
                self.call(ctx, start, &free)?;
            }
            Err(error) => {
                let names = kept_names.join(", ");
                self.errors.push(format!("Error encountered unholding packages {names}: {error}"));
            }
        }
        // The holds come back whatever happened between.
        holds::change(ctx, &kept_names, true).map(drop)
    }

    fn call(&mut self, ctx: &Context, mut words: Vec<String>, pairs: &[&Pair]) -> Result<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        let package_word = |word: &str| if self.advisories { format!("--advisory={word}") } else { word.to_owned() };
        words.extend(pairs.iter().map(|(_, word)| package_word(word)));
        let said = call(ctx, &words, true)?;
        if said.retcode != Some(0) {
            self.errors.push(said.stdout);
        }
        Ok(())
    }
}
