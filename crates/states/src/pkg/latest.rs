//! `pkg.latest`.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value, map};

use super::{empty_list, failed, refresh_wanted, resolved, targets};
use crate::Ret;
use crate::support::{call, caught, join, over, saltenv};

/// Makes sure that packages are the newest available ones.
#[function]
fn latest(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] refresh: Value,
    #[default(Value::Null)] fromrepo: Value,
    #[default(false)] skip_verify: Value,
    #[default(Value::Null)] pkgs: Value,
    #[default(true)] watch_flags: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    // Only Gentoo's emerge has flags; Salt accepts the argument everywhere.
    let _ = watch_flags;
    let refresh = refresh_wanted(ctx, &refresh);
    let mut kwargs = kwargs.given();
    if kwargs.get("sources").is_some_and(Value::truthy) {
        return Ok(failed(&name, "The \"sources\" parameter is not supported."));
    }
    if empty_list(&pkgs) {
        return Ok(Ret::new(name).ok("No packages to install provided"));
    }
    let wanted: Vec<Value> = match pkgs.truthy() {
        // Versions in the list are ignored: this state always goes for the newest.
        true => modules::pkg_resource::repack(ctx, &pkgs, true)?.keys().cloned().collect(),
        false => vec![name.as_str().into()],
    };
    if wanted.is_empty() {
        return Ok(failed(&name, "Invalidly formatted \"pkgs\" parameter. See minion log."));
    }
    kwargs.insert("saltenv", saltenv(ctx));
    let (wanted, refresh) = resolved(ctx, wanted.into(), refresh, &kwargs)?;
    let wanted = wanted.into_list().unwrap_or_default();
    let own = map! { "fromrepo" => fromrepo.clone(), "refresh" => refresh };
    let newest = match call(ctx, "pkg.latest_version", wanted.clone(), over(own, &kwargs)) {
        Ok(found) => by_name(found, &wanted),
        Err(error) => {
            let text = "An error was encountered while checking the newest available version of package(s)";
            return Ok(failed(&name, format!("{text}: {}", caught(error)?.text)));
        }
    };
    let current = match call(ctx, "pkg.version", wanted.clone(), kwargs.clone()) {
        Ok(found) => by_name(found, &wanted),
        Err(error) => return Ok(failed(&name, caught(error)?.text)),
    };
    let (mut found, mut problems) = (Map::new(), Vec::new());
    for package in wanted.iter().map(Value::to_string) {
        let known = |map: &Map| map.get(&package).filter(|version| version.truthy()).cloned();
        match known(&newest) {
            // `pkg.latest_version` answers with an empty text for a package that is up to date.
            Some(version) => drop(found.insert(package, version)),
            // Neither available nor installed: probably a misspelt name.
            None if known(&current).is_none() => problems.push(format!("No information found for '{package}'.")),
            None => {}
        }
    }
    if !problems.is_empty() {
        return Ok(failed(&name, problems.join(" ")));
    }
    let task = Task { name, targets: found, current, pkgs };
    if task.targets.is_empty() {
        return Ok(Ret::new(task.name).ok(all_there(&wanted)));
    }
    if ctx.is_test() {
        return task.would(ctx);
    }
    task.apply(ctx, over(map! { "fromrepo" => fromrepo, "skip_verify" => skip_verify }, &kwargs))
}

/// A single answer is that for the first name.
fn by_name(answer: Value, names: &[Value]) -> Map {
    match answer {
        Value::Map(map) => map,
        // Execution functions return a bare version when they get a single name.
        single => names.first().map(|name| map! { name.clone() => single }).unwrap_or_default(),
    }
}

fn all_there(wanted: &[Value]) -> String {
    match wanted {
        [one] => format!("Package {one} is already up-to-date"),
        // Salt lists at most ten names, to keep the comment readable.
        many if many.len() > 10 => format!("All {} packages are up-to-date.", many.len()),
        many => format!("All packages are up-to-date ({}).", sorted(many.iter().map(Value::to_string))),
    }
}

fn sorted(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.join(", ")
}

struct Task {
    name: String,
    targets: Map,
    current: Map,
    pkgs: Value,
}

impl Task {
    /// The packages of the list that are up to date.
    fn up_to_date(&self) -> Vec<String> {
        let list = self.pkgs.as_list().unwrap_or_default();
        list.iter().map(Value::to_string).filter(|name| !self.targets.contains_key(name)).collect()
    }

    fn names(&self) -> String {
        sorted(self.targets.keys().map(Value::to_string))
    }

    fn would(self, ctx: &Context) -> Result<Ret> {
        let mut comments = vec![format!("The following packages would be installed/upgraded: {}", self.names())];
        let mut up_to_date = self.up_to_date();
        if !up_to_date.is_empty() {
            up_to_date.sort();
            let version = |name: &String| self.current.get(name).map(Value::to_string).unwrap_or_default();
            let shown = join(up_to_date.iter().map(|name| format!("{name} ({})", version(name))), ", ");
            comments.push(match up_to_date.len() <= 10 {
                true => format!("The following packages are already up-to-date: {shown}"),
                false => format!("{} packages are already up-to-date", up_to_date.len()),
            });
        }
        let changes = targets::installable(ctx, &self.targets, &self.current)?;
        Ok(Ret::new(self.name).would(comments.join("\n")).changed(changes))
    }

    fn apply(self, ctx: &Context, kwargs: Map) -> Result<Ret> {
        let names: Vec<Value> = self.targets.keys().cloned().collect();
        // `pkg.latest_version` has just read the lists.
        let own = map! { "name" => Value::Null, "refresh" => false, "pkgs" => names };
        let changes = match call(ctx, "pkg.install", Vec::new(), over(own, &kwargs)) {
            Ok(changes) => changes.into_map().unwrap_or_default(),
            Err(error) => {
                let text = "An error was encountered while installing package(s)";
                return Ok(failed(&self.name, format!("{text}: {}", caught(error)?.text)));
            }
        };
        // There was something to upgrade, so no change means that the package manager kept it back.
        if changes.is_empty() {
            let comment = self.nothing_changed();
            return Ok(failed(&self.name, comment));
        }
        let fine = |name: &&str| {
            let Some(change) = changes.get(name).filter(|change| change.truthy()) else { return false };
            let Some(new) = change.get("new").filter(|new| !new.is_null()).map(Value::to_string) else { return true };
            let wanted = self.targets.get(name).map(Value::to_string).unwrap_or_default();
            // Several installed versions, such as those of kernels, come as one text with commas.
            wanted == "latest" || new.split(',').any(|version| version == wanted)
        };
        let (good, bad): (Vec<&str>, Vec<&str>) = self.targets.text_keys().partition(fine);
        let mut comments = Vec::new();
        let listed = |names: Vec<&str>| sorted(names.into_iter().map(str::to_owned));
        let all_fine = bad.is_empty();
        if !bad.is_empty() {
            comments.push(format!("The following packages failed to update: {}", listed(bad)));
        }
        if !good.is_empty() {
            comments.push(format!("The following packages were successfully installed/upgraded: {}", listed(good)));
        }
        let up_to_date = self.up_to_date();
        if !up_to_date.is_empty() {
            // The blank at the end of the other text is Salt's.
            comments.push(match up_to_date.len() <= 10 {
                true => format!("The following packages were already up-to-date: {}", sorted(up_to_date.into_iter())),
                false => format!("{} packages were already up-to-date ", up_to_date.len()),
            });
        }
        let mut ret = Ret::new(self.name.as_str()).ok(comments.join(" ")).changed(changes);
        ret.result = Some(all_fine);
        Ok(ret)
    }

    fn nothing_changed(&self) -> String {
        let count = self.targets.len();
        let mut comment = match count {
            1 => format!("Package {} failed to update.", self.names()),
            2..=10 => {
                let text = "The following targeted packages failed to update. See debug log for details";
                format!("{text}: ({}).", self.names())
            }
            _ => format!("{count} targeted packages failed to update. See debug log for details."),
        };
        let up_to_date = self.up_to_date();
        match up_to_date.len() {
            0 => {}
            1..=10 => {
                let names = sorted(up_to_date.into_iter());
                comment.push_str(&format!(" The following packages were already up-to-date: {names}"));
            }
            many => comment.push_str(&format!("{many} packages were already up-to-date")),
        }
        comment
    }
}
