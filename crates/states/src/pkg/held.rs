//! `pkg.held` and `pkg.unheld`.

use exec::{Context, KwArgs, Result, function};
use regex::Regex;
use value::{Map, Value, map};

use super::{empty_list, failed};
use crate::Ret;
use crate::support::{call, has};

/// The held packages, and whether their versions are known.
struct Locks {
    entries: Map,
    with_versions: bool,
}

const NO_LIST: &str = "No any function to get the list of held packages available.\n\
    Check if the package manager supports package locking.";

impl Locks {
    fn read(ctx: &Context) -> Result<Option<Locks>> {
        // zypper lists locks with their versions, while yum and apt list holds. The first function
        // that exists decides.
        if has(ctx, "pkg.list_locks") {
            let entries = call(ctx, "pkg.list_locks", Vec::new(), Map::new())?.into_map().unwrap_or_default();
            return Ok(Some(Locks { entries, with_versions: true }));
        }
        let mut entries = Map::new();
        if has(ctx, "pkg.list_holds") {
            // yum's versionlock writes `name-epoch:version-release.*`.
            let form = Regex::new(r"^(.+)-(\d+):(.*)\.\*").expect("the pattern is fixed");
            let holds = call(ctx, "pkg.list_holds", Vec::new(), map! { "full" => true })?;
            for hold in holds.as_list().unwrap_or_default().iter().map(Value::to_string) {
                match form.captures(&hold) {
                    Some(found) => {
                        // An epoch of 0 is implied and never written in a state.
                        let epoch = if &found[2] == "0" { String::new() } else { format!("{}:", &found[2]) };
                        entries.insert(&found[1], map! { "version" => format!("{epoch}{}", &found[3]) });
                    }
                    None => drop(entries.insert(hold, Map::new())),
                }
            }
        } else if has(ctx, "pkg.get_selections") {
            let holds = call(ctx, "pkg.get_selections", Vec::new(), map! { "state" => "hold" })?;
            let names = holds.get("hold").and_then(Value::as_list).unwrap_or_default();
            entries.extend(names.iter().map(|name| (name.clone(), Map::new())));
        } else {
            return Ok(None);
        }
        Ok(Some(Locks { entries, with_versions: false }))
    }

    fn version(&self, name: &str) -> Option<String> {
        let version = self.entries.get(name)?.get("version")?.to_string();
        // zypper reports a version as `= 1.2`.
        Some(version.trim_start_matches(['=', ' ']).to_owned())
    }

    /// The names of kept packages; other things can be kept, too.
    fn packages(&self) -> Vec<String> {
        // zypper also locks patches and patterns. `replace` must not release those.
        let is_package = |entry: &Value| entry.get("type").is_none_or(|kind| kind.as_str() == Some("package"));
        let kept = self.entries.iter().filter(|(_, entry)| is_package(entry));
        kept.map(|(name, _)| name.to_string()).collect()
    }
}

/// Returns whether the answer to holding a package reports success.
fn good(answer: &Map, name: &str) -> bool {
    answer.get(name).and_then(|entry| entry.get("result")).is_some_and(Value::truthy)
}

fn first_of(pkg: &Value) -> (String, Value) {
    match pkg.as_map().and_then(|map| map.iter().next()) {
        Some((name, version)) => (name.to_string(), version.clone()),
        None => (pkg.to_string(), Value::Null),
    }
}

struct Outcome {
    ret: Ret,
    comments: Vec<String>,
}

impl Outcome {
    fn new(name: &str) -> Self {
        Outcome { ret: Ret::new(name).ok(""), comments: Vec::new() }
    }

    fn unhold(&mut self, ctx: &Context, state: &str, package: &str) -> Result<()> {
        let answer = hold(ctx, "pkg.unhold", state, package.into())?;
        if !good(&answer, package) {
            self.ret.result = Some(false);
        }
        let comment = answer.get(package).and_then(|entry| entry.get("comment")).filter(|text| text.truthy());
        self.comments.extend(comment.map(Value::to_string));
        self.ret.changes.update(answer);
        Ok(())
    }

    fn finish(self) -> Ret {
        let comment = self.comments.join("\n");
        let nothing = self.ret.changes.is_empty() && comment.is_empty();
        Ret { comment: if nothing { "No changes made".into() } else { comment.into() }, ..self.ret }
    }
}

fn hold(ctx: &Context, fun: &str, state: &str, package: Value) -> Result<Map> {
    let kwargs = map! { "name" => state, "pkgs" => value::list![package] };
    Ok(call(ctx, fun, Vec::new(), kwargs)?.into_map().unwrap_or_default())
}

/// Makes sure that packages are held; with `replace` no others are.
#[function]
fn held(
    ctx: &Context,
    name: String,
    version: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(false)] replace: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = kwargs;
    if empty_list(&pkgs) && !replace {
        return Ok(Ret::new(name).ok("No packages to be held provided"));
    }
    let pkgs = match pkgs {
        Value::Null if version.as_ref().is_some_and(|version| !version.is_empty()) => {
            vec![map! { name.as_str() => version }.into()]
        }
        // An explicit empty list with `replace` means to release everything, so only a missing one
        // falls back to the name.
        Value::Null => vec![name.as_str().into()],
        given => given.into_list().unwrap_or_default(),
    };
    let Some(locks) = Locks::read(ctx)? else { return Ok(failed(&name, NO_LIST)) };
    if !has(ctx, "pkg.hold") {
        return Ok(failed(&name, "`hold` function is not implemented for the package manager."));
    }
    let mut outcome = Outcome::new(&name);
    for pkg in &pkgs {
        hold_one(ctx, &name, pkg, &locks, &mut outcome)?;
    }
    if replace {
        let wanted: Vec<String> = pkgs.iter().map(|pkg| first_of(pkg).0).collect();
        for package in locks.packages().into_iter().filter(|package| !wanted.contains(package)) {
            if ctx.is_test() {
                outcome.comments.push(format!("The following package would be unheld: {package}"));
            } else {
                outcome.unhold(ctx, &name, &package)?;
            }
        }
    }
    Ok(outcome.finish())
}

fn hold_one(ctx: &Context, state: &str, pkg: &Value, locks: &Locks, outcome: &mut Outcome) -> Result<()> {
    let (package, version) = first_of(pkg);
    let kept = locks.entries.contains_key(&package);
    let same = locks.version(&package) == (!version.is_null()).then(|| version.to_string());
    // Where locks have no versions, being held is all that can be compared.
    if kept && (!locks.with_versions || same) {
        return Ok(());
    }
    if ctx.is_test() {
        let shown = if version.truthy() { format!(" (version = {version})") } else { String::new() };
        outcome.comments.push(match kept {
            true => format!("The following package's hold rule would be updated: {package}{shown}"),
            false => format!("The following package would be held: {package}{shown}"),
        });
        return Ok(());
    }
    let mut freed = false;
    if kept {
        // A lock cannot be changed in place. If the release fails, the new hold is tried all the
        // same.
        freed = good(&hold(ctx, "pkg.unhold", state, package.as_str().into())?, &package);
    }
    let answer = hold(ctx, "pkg.hold", state, pkg.clone())?;
    let done = good(&answer, &package);
    if !done {
        outcome.ret.result = Some(false);
    }
    outcome.comments.push(match (freed, done) {
        (true, true) => format!("Package {package} was updated with hold rule"),
        (false, true) => format!("Package {package} is now being held"),
        (_, false) => format!("Package {package} was not held"),
    });
    outcome.ret.changes.update(answer);
    Ok(())
}

/// Makes sure that packages are not held; with `all` that none are.
#[function]
fn unheld(
    ctx: &Context,
    name: String,
    version: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(false)] all: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = kwargs;
    if empty_list(&pkgs) && !all {
        return Ok(Ret::new(name).ok("No packages to be unheld provided"));
    }
    let wanted: Map = match pkgs {
        Value::Null => map! { name.as_str() => version },
        given => given.as_list().unwrap_or_default().iter().map(first_of).collect(),
    };
    let Some(locks) = Locks::read(ctx)? else { return Ok(failed(&name, NO_LIST)) };
    let mut outcome = Outcome::new(&name);
    for package in locks.packages() {
        let kept = if locks.with_versions { locks.version(&package) } else { None };
        let asked = wanted.get(&package);
        // A version in the state releases only a lock of that version. A lock without one matches any.
        let fits =
            asked.is_some_and(|asked| kept.as_ref().is_none_or(|kept| kept.is_empty() || asked.as_str() == Some(kept)));
        if !all && !fits {
            continue;
        }
        if ctx.is_test() {
            let shown = match asked.filter(|version| version.truthy()) {
                // Salt shows the version of the lock here, not the one of the state.
                Some(_) => format!(" (version = {})", Value::from(kept)),
                None => String::new(),
            };
            outcome.comments.push(format!("The following package would be unheld: {package}{shown}"));
        } else {
            outcome.unhold(ctx, &name, &package)?;
        }
    }
    Ok(outcome.finish())
}
