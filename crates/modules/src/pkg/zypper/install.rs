//! Installing packages.

use std::sync::LazyLock;

use exec::{Context, Error, KwArgs, Result, function};
use regex::Regex;
use value::{Map, Value};

use super::call::{Zypper, attribute};
use super::{patches, products, reads, repos};
use crate::packages::common::{self, Loose, Targets};
use crate::packages::rpm::{self, Listing};

/// The number of packages in one call.
// As in Salt. A line of arguments has its limits, and so has the patience of the solver.
pub(super) const BATCH: usize = 500;

/// Installs or upgrades packages; returns the changes.
///
/// ``pkgs`` is a list of names or of ``name: version``, ``sources`` a list of ``name: file``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.install <package name>
///     salt '*' pkg.install pkgs='["foo", {"bar": "<1.2.3-4"}]'
#[function]
fn install(
    ctx: &Context,
    name: Option<String>,
    #[default(false)] refresh: bool,
    #[default(Value::Null)] fromrepo: Value,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    #[default(Value::Null)] downloadonly: Value,
    #[default(false)] skip_verify: bool,
    #[default(Value::Null)] version: Value,
    #[default(false)] ignore_repo_failure: bool,
    #[default(false)] no_recommends: bool,
    root: Option<String>,
    kwargs: KwArgs,
) -> Result<Map> {
    let kwargs = kwargs.given();
    if refresh {
        repos::refresh(ctx, root.as_deref(), &kwargs)?;
    }
    let several = !pkgs.is_null() || !sources.is_null();
    let args = vec![name.clone().into(), pkgs, sources];
    let mut asked = common::parse_targets(ctx, args, kwargs.clone())?;
    if matches!(asked, Targets::None) {
        return Ok(Map::new());
    }
    // A version beside several packages would mean all of them, so it is left out.
    if let Some(name) = name.filter(|_| version.truthy()) {
        let found = chosen_version(ctx, &name, &version.to_string(), root.as_deref())?;
        match found.filter(|_| !several) {
            Some(version) => asked = Targets::Packages([(name, version)].into_iter().collect()),
            None => tracing::warn!("the version {version} of {name} is not regarded"),
        }
    }
    let (targets, advisories) = targets(ctx, asked, root.as_deref())?;
    let download = downloadonly.truthy();
    let look = Look { attr: kwargs.get("diff_attr").cloned(), root, includes: kinds(&targets), download };
    let old = look.list(ctx)?;
    let mut words: Vec<String> = Vec::new();
    words.extend(skip_verify.then(|| "--no-gpg-checks".to_owned()));
    words.extend((!refresh).then(|| "--no-refresh".to_owned()));
    words.extend(["install".to_owned(), "--auto-agree-with-licenses".into()]);
    let capability = kwargs.get("resolve_capabilities").is_some_and(Value::truthy);
    words.push(if capability { "--capability" } else { "--name" }.to_owned());
    words.extend(download.then(|| "--download-only".to_owned()));
    if fromrepo.truthy() {
        // Without force zypper would not exchange a package for the same version of another repo.
        words.extend(["--force", "--force-resolution", "--from"].map(str::to_owned));
        words.push(fromrepo.to_string());
    }
    words.extend(no_recommends.then(|| "--no-recommends".to_owned()));
    let targets = if advisories { targets.iter().map(|id| format!("patch:{id}")).collect() } else { targets };
    let zypper = Zypper { tolerant: ignore_repo_failure, scope: true, ..Zypper::at(look.root.as_deref()) };
    run(ctx, &zypper, &words, &targets)?;
    rpm::changed(ctx);
    Ok(common::differences(&old, &look.list(ctx)?))
}

/// The settings of the two listings, before and after an installation.
struct Look {
    attr: Option<Value>,
    root: Option<String>,
    includes: Vec<String>,
    download: bool,
}

impl Look {
    fn list(&self, ctx: &Context) -> Result<Map> {
        if self.download {
            return products::downloaded(ctx, self.root.as_deref());
        }
        let wanted = Listing { root: self.root.clone(), ..Listing::default() }.with(self.attr.as_ref());
        reads::installed(ctx, wanted, &self.includes)
    }
}

/// The kinds of things that are no packages among names such as `pattern:base`.
pub(super) fn kinds(names: &[String]) -> Vec<String> {
    let kind = |name: &String| match name.split(':').collect::<Vec<_>>()[..] {
        // `pattern:base` or `patch:…`: things that rpm does not list and zypper has to.
        [kind, _, ..] => Some(kind.to_owned()),
        _ => None,
    };
    let mut kinds: Vec<String> = names.iter().filter_map(kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Returns the words for zypper and whether they are ids of advisories.
fn targets(ctx: &Context, asked: Targets, root: Option<&str>) -> Result<(Vec<String>, bool)> {
    match asked {
        Targets::Packages(packages) => {
            let word = |(name, version): (&Value, &Value)| match version {
                Value::Null => name.to_string(),
                version => {
                    let text = version.to_string();
                    let (sign, version) = common::split_comparison(&text);
                    format!("{name}{}{version}", if sign.is_empty() { "=" } else { sign })
                }
            };
            Ok((packages.iter().map(word).collect(), false))
        }
        Targets::Advisories(ids) => {
            let known = patches::patches(ctx, false, root)?;
            match ids.iter().find(|id| !known.contains_key(id)) {
                Some(id) => Err(Error::execution(format!("Advisory id \"{id}\" not found"))),
                None => Ok((ids, true)),
            }
        }
        Targets::Files(files) => Ok((files, false)),
        Targets::None => Ok((Vec::new(), false)),
    }
}

static LOWER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^The selected package '([^']+)'.+has lower version").expect("the pattern is fixed"));

/// Installs packages; those that zypper calls a downgrade are installed by a second call.
fn run(ctx: &Context, zypper: &Zypper, words: &[String], targets: &[String]) -> Result<()> {
    let mut lower = Vec::new();
    for batch in targets.chunks(BATCH) {
        let said = zypper.call(ctx, &[words, batch].concat())?;
        lower.extend(said.stdout.lines().filter_map(|line| Some(LOWER.captures(line)?[1].to_owned())));
    }
    // Zypper refuses to go back without `--force` but ends well. So its answer is searched and it
    // is called again.
    for batch in lower.chunks(BATCH) {
        let forced = [words, &["--force".to_owned()], batch].concat();
        Zypper { scope: false, ..zypper.clone() }.call(ctx, &forced)?;
    }
    Ok(())
}

/// Returns the newest version that matches a pattern such as `>1.2*`, with its sign.
fn chosen_version(ctx: &Context, name: &str, wanted: &str, root: Option<&str>) -> Result<Option<String>> {
    // The wanted version may have a pattern, which zypper does not know.
    let exact: String = wanted.chars().filter(|c| !"<>=+".contains(*c)).collect();
    let sign = wanted.replace(&exact, "");
    if !["", "<", "<=", "=", ">=", ">"].contains(&sign.as_str()) {
        return Err(Error::execution(format!("Zypper do not supports operator \"{sign}\".")));
    }
    let found = Zypper::looking(root).elements(ctx, &["se", "-xv", name], "solvable")?;
    if found.is_empty() {
        return Err(Error::execution(format!("No packages found matching '{name}'")));
    }
    let versions = found.iter().map(|package| attribute(package, "edition")).filter(|version| !version.is_empty());
    let newest =
        versions.filter(|version| targeting::fnmatch(version, &exact)).map(|version| Loose(version.to_owned())).max();
    Ok(newest.map(|version| format!("{sign}{}", version.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_before_names() {
        let names = ["pattern:base", "vim", "patch:x", "pattern:y"].map(str::to_owned);
        assert_eq!(kinds(&names), ["patch", "pattern"]);
    }
}
