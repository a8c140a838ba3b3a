//! `pkgrepo.managed`.

use exec::{Context, Error, KwArgs, Result, function};
use modules::pkg::{apt, sources};
use value::{Map, Value, map};

use super::{facts, grain, is_debian, would_differ};
use crate::support::{call, caught, has, is_true, over, saltenv};
use crate::{Ret, args};

/// Makes sure that a source of packages exists, as described.
#[function]
fn managed(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] ppa: Value,
    #[default(Value::Null)] copr: Value,
    #[default(true)] aptkey: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if !has(ctx, "pkg.get_repo") {
        return Ok(ret.fail("Repo management not implemented on this platform"));
    }
    let mut kwargs = kwargs.given();
    // Salt overwrites this failure later, so it only shows in test mode.
    let result = if keys_conflict(&kwargs) { Some(false) } else { None };
    // The package modules call their parameter `repo`, so it is easily confused.
    if kwargs.contains_key("repo") {
        let text =
            "'repo' is not a supported argument for this state. The 'name' argument is probably what was intended.";
        return Ok(ret.fail(text));
    }
    let (enabled, disabled) = (taken(&mut kwargs, "enabled"), taken(&mut kwargs, "disabled"));
    if enabled.is_some() && disabled.is_some() {
        return Ok(ret.fail("Only one of enabled/disabled is allowed"));
    }
    let insecure_allowed = kwargs.remove("allow_insecure_key").is_none_or(|allowed| allowed.truthy());
    let insecure = kwargs.get_str("key_url").is_some_and(|url| url.trim().starts_with("http:"));
    if insecure && !insecure_allowed {
        // The wrong way round in Salt, too: the argument has to be `True` to allow it.
        return Ok(ret.fail("Cannot have 'key_url' using http with 'allow_insecure_key' set to True"));
    }
    // Of the two at most one is given; neither means enabled.
    let on = disabled.map_or(enabled.is_none_or(|on| is_true(&on)), |off| !is_true(&off));
    let repo = settings(ctx, &name, (&ppa, &copr), on, &mut kwargs);
    let ret = Ret { result, ..ret };
    Task { name, repo, aptkey: aptkey && has_apt_key(ctx), ret }.run(ctx, kwargs)
}

fn has_apt_key(ctx: &Context) -> bool {
    #[cfg(test)]
    if let Some(said) = ctx.opts.get("__apt_key") {
        return said.truthy();
    }
    let _ = ctx;
    modules::util::which("apt-key").is_some()
}

/// As in Salt, this is noted as a failure, and the state continues.
fn keys_conflict(kwargs: &Map) -> bool {
    let given = |name: &str| kwargs.contains_key(name);
    let by_id = given("keyid") || given("keyserver");
    let ways = [by_id, given("key_url"), given("key_text")];
    ways.iter().filter(|given| **given).count() > 1
}

fn taken(kwargs: &mut Map, name: &str) -> Option<Value> {
    kwargs.remove(name).filter(|value| !value.is_null())
}

/// Completes the arguments for the package manager and returns the name of the source for it.
fn settings(ctx: &Context, name: &str, (ppa, copr): (&Value, &Value), on: bool, kwargs: &mut Map) -> String {
    kwargs.insert("name", name);
    match grain(ctx, "os_family") {
        "Debian" => {
            kwargs.insert("disabled", !on);
            if !ppa.is_null() {
                // apt's own name for it.
                return format!("ppa:{ppa}");
            }
        }
        family @ ("RedHat" | "Suse") => {
            // In yum's files `name` is the description, while the section holds the id.
            if let Some(shown) = kwargs.remove("humanname") {
                kwargs.insert("name", shown);
            }
            kwargs.insert("enabled", on);
            if family == "RedHat" && !copr.is_null() {
                return format!("copr:{copr}");
            }
        }
        "NILinuxRT" | "Poky" => drop(kwargs.insert("enabled", on)),
        _ => {}
    }
    name.to_owned()
}

struct Task {
    name: String,
    repo: String,
    aptkey: bool,
    ret: Ret,
}

impl Task {
    fn current(&self, ctx: &Context, kwargs: &Map) -> Result<Map> {
        let own = map! { "repo" => self.repo.as_str() };
        Ok(call(ctx, "pkg.get_repo", Vec::new(), over(own, kwargs))?.into_map().unwrap_or_default())
    }

    fn run(self, ctx: &Context, mut kwargs: Map) -> Result<Ret> {
        let name = &self.name;
        let mut pre = match self.current(ctx, &kwargs) {
            Ok(pre) => pre,
            Err(error) => {
                let text = format!("Failed to examine repo '{name}': {}", caught(error)?.text);
                return Ok(self.ret.fail(text));
            }
        };
        let mut wanted = match is_debian(ctx) {
            true => apt::expanded(&facts(ctx), &self.repo, &kwargs).map_err(Error::Invocation)?,
            false => kwargs.clone(),
        };
        let clean = kwargs.get("clean_file").is_some_and(Value::truthy);
        let file = kwargs.get_str("file").unwrap_or_default().to_owned();
        // With `clean_file` a right entry is not enough: other lines in the file must go.
        let stale = clean && has_others(&file, name);
        if !pre.is_empty() && !stale {
            // The place of the entry does not matter, only its content.
            pre.remove("file");
            wanted.remove("file");
            if !differs(ctx, &wanted, &pre, &kwargs) {
                return Ok(self.ret.ok(format!("Package repo '{name}' already configured")));
            }
        }
        if is_debian(ctx) {
            take_address(&mut kwargs, &wanted, &pre);
        }
        if ctx.is_test() {
            let comment = would_differ(name, "would be configured");
            return Ok(Ret { comment: comment.into(), ..self.ret }.changed(test_changes(name, &wanted, &pre)));
        }
        // Emptied only now, after the comparison and the test mode.
        if clean {
            std::fs::write(&file, "").map_err(|error| Error::io("empty", &file, &error))?;
        }
        self.apply(ctx, &kwargs, &wanted, &pre)
    }

    fn apply(self, ctx: &Context, kwargs: &Map, wanted: &Map, pre: &Map) -> Result<Ret> {
        let name = &self.name;
        let own = match is_debian(ctx) {
            true => map! { "saltenv" => saltenv(ctx), "aptkey" => self.aptkey },
            false => Map::new(),
        };
        if let Err(error) = call(ctx, "pkg.mod_repo", args![self.repo.as_str()], over(own, kwargs)) {
            let text = format!("Failed to configure repo '{name}': {error}");
            return Ok(self.ret.fail(text));
        }
        let post = match self.current(ctx, kwargs) {
            Err(error) => {
                let text = format!("Failed to confirm config of repo '{name}': {error}");
                return Ok(self.ret.fail(text));
            }
            Ok(post) => post,
        };
        // A new source is reported by name. Only for a known one is there something to compare.
        let changes = match pre.is_empty() {
            true => map! { "repo" => self.repo.as_str() },
            false => changes(wanted, &post, pre),
        };
        let text = format!("Configured package repo '{name}'");
        Ok(self.ret.ok(text).changed(changes))
    }
}

fn field(map: &Map, name: &Value) -> Value {
    map.get_value(name).cloned().unwrap_or_default()
}

fn changes(wanted: &Map, new: &Map, old: &Map) -> Map {
    let differs = wanted.keys().filter(|key| field(new, key) != field(old, key));
    differs.map(|key| (key.clone(), map! { "new" => field(new, key), "old" => field(old, key) })).collect()
}

fn test_changes(name: &str, wanted: &Map, pre: &Map) -> Map {
    if pre.is_empty() {
        map! { "repo" => name }
    } else {
        changes(wanted, wanted, pre)
    }
}

/// Returns whether a file has lines other than this one.
fn has_others(file: &str, name: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(file) else { return false };
    text.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#') && line != name.trim())
}

/// A source at another address is changed, not added.
fn take_address(kwargs: &mut Map, wanted: &Map, pre: &Map) {
    let both = |name: &str| Some((wanted.get(name)?.clone(), pre.get(name)?.clone()));
    if let Some((new, old)) = both("uri").filter(|_| !kwargs.contains_key("uri"))
        && new != old
    {
        kwargs.insert("uri", new);
    }
    if let Some((new, old)) = both("uris").filter(|_| !kwargs.contains_key("uris")) {
        let first = new.as_list().and_then(<[Value]>::first);
        if first.is_some_and(|first| !old.as_list().unwrap_or_default().contains(first)) {
            kwargs.insert("uris", new);
        }
    }
}

/// Returns whether some setting of the source differs from the wanted one.
fn differs(ctx: &Context, wanted: &Map, pre: &Map, kwargs: &Map) -> bool {
    let family = grain(ctx, "os_family");
    wanted.iter().any(|(key, new)| {
        let key = key.to_string();
        match pre.get(&key) {
            // yum's files may lack the entry, which means enabled.
            None if key == "enabled" => family != "RedHat" || !is_true(new),
            None => ["comps", "key_url"].contains(&key.as_str()),
            Some(old) => value_differs(family, &key, new, old, wanted, kwargs),
        }
    })
}

fn value_differs(family: &str, key: &str, new: &Value, old: &Value, wanted: &Map, kwargs: &Map) -> bool {
    let boolean = new.as_bool().is_some() || old.as_bool().is_some();
    match key {
        "comps" | "key_url" => sorted(new) != sorted(old),
        // Salt does not compare the line of a source that is to be disabled.
        "line" if family == "Debian" => {
            !wanted.get("disabled").is_some_and(Value::truthy) && line_differs(new, old, kwargs)
        }
        "comments" if family == "RedHat" => remarks(new) != remarks(old),
        "architectures" if new.truthy() => sorted(new) != sorted(old),
        // Files hold `1` and `0` where states have booleans.
        _ if ["RedHat", "Suse"].contains(&family) && boolean => is_true(new) != is_true(old),
        _ => new.to_string() != old.to_string(),
    }
}

fn sorted(value: &Value) -> Vec<String> {
    let mut parts: Vec<String> = match value {
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        // Python sorts the letters of a string. It compares the same on both sides, so it does no
        // harm.
        text => text.to_string().chars().map(|c| c.to_string()).collect(),
    };
    parts.sort();
    parts
}

fn remarks(value: &Value) -> Vec<String> {
    let lines: Vec<String> = match value {
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        text => text.to_string().lines().map(str::to_owned).collect(),
    };
    lines.iter().map(|line| line.trim_start_matches('#').trim().to_owned()).collect()
}

fn line_differs(new: &Value, old: &Value, kwargs: &Map) -> bool {
    let words = |line: &str| {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if words.len() > 3 {
            // The components at the end of a line may be in any order.
            words[3..].sort();
        }
        words
    };
    let (new, old) = (new.to_string(), old.to_string());
    let (old_line, old_remark) = old.split_once('#').unwrap_or((&old, ""));
    let remark = kwargs.get("comments").map(sources::combined_comments);
    words(&new) != words(old_line) || remark.is_some_and(|remark| remark != old_remark.trim())
}
