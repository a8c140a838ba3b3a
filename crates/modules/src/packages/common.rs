//! Helpers that the package managers share: calling programs, comparing lists, finding versions.

use std::cmp::Ordering;
use std::path::Path;

use exec::{Context, Error, Result};
use value::{Map, Value, map};

use crate::subprocess::{self, Extra, Outcome};
use crate::util;

/// Runs a program and returns its outcome, without white space at the end of the output.
pub fn run<W: AsRef<str>>(ctx: &Context, words: &[W], extra: Extra) -> Result<Outcome> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let mut said = subprocess::quiet_with(ctx, &words, extra)?;
    for text in [&mut said.stdout, &mut said.stderr] {
        text.truncate(text.trim_end().len());
    }
    Ok(said)
}

/// Runs a program and returns its output; with `merged` its messages, too.
pub fn output<W: AsRef<str>>(ctx: &Context, words: &[W], merged: bool) -> Result<String> {
    Ok(run(ctx, words, Extra { merge: merged, ..Extra::default() })?.stdout)
}

/// Puts words before a command so that it survives the end of the minion, which it may update.
pub fn in_scope(ctx: &Context, words: Vec<String>) -> Vec<String> {
    let wanted = util::config_get(ctx, "systemd.scope").is_none_or(|on| on.truthy());
    if wanted && Path::new("/run/systemd/system").exists() && util::which("systemd-run").is_some() {
        return ["systemd-run", "--scope"].map(str::to_owned).into_iter().chain(words).collect();
    }
    words
}

/// Records that the package lists were refreshed.
pub fn clear_refresh_mark(ctx: &Context) {
    let mark = Path::new(ctx.cachedir()).join("pkg_refresh");
    match std::fs::remove_file(&mark) {
        // Another state may have removed it first.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!("{} cannot be removed: {error}", mark.display());
        }
        _ => {}
    }
}

/// Returns the packages that differ between two lists, each with its `old` and its `new` entry.
pub fn differences(old: &Map, new: &Map) -> Map {
    let part = |list: &Map, name: &Value| list.get_value(name).cloned().unwrap_or_else(|| "".into());
    let names = old.keys().chain(new.keys().filter(|name| old.get_value(name).is_none()));
    let differs = names.filter(|name| old.get_value(name) != new.get_value(name));
    differs.map(|name| (name.clone(), map! { "old" => part(old, name), "new" => part(new, name) })).collect()
}

/// Takes a failure with errors and changes, or the changes.
pub fn outcome(what: &str, errors: Vec<String>, changes: Map) -> Result<Map> {
    match errors.is_empty() {
        true => Ok(changes),
        false => Err(Error::detailed(what, map! { "errors" => errors, "changes" => changes })),
    }
}

/// The name or names a call about holding packages is for: `name`, `pkgs` or `sources`, without versions.
pub fn targets(name: Option<&str>, pkgs: &Value, sources: &Value) -> Result<Vec<String>> {
    let name = name.filter(|name| !name.is_empty());
    if name.is_none() && !pkgs.truthy() && !sources.truthy() {
        return Err(Error::invocation("One of name, pkgs, or sources must be specified."));
    }
    if pkgs.truthy() && sources.truthy() {
        return Err(Error::invocation("Only one of pkgs or sources can be specified."));
    }
    let first = |item: &Value| match item {
        Value::Map(map) => map.keys().next().map_or_else(String::new, Value::to_string),
        other => other.to_string(),
    };
    Ok(match if pkgs.truthy() { pkgs } else { sources } {
        Value::List(items) => items.iter().map(first).collect(),
        other if other.truthy() => vec![first(other)],
        _ => name.map(str::to_owned).into_iter().collect(),
    })
}

/// Splits ">= 1.0" into the sign and the version.
pub fn split_comparison(text: &str) -> (&str, &str) {
    // Longer signs come first, or `<` would hide `<=`.
    const SIGNS: [&str; 10] = ["<=>", "!=", ">=", "<=", ">>", "<<", "<>", ">", "<", "="];
    let sign = SIGNS.into_iter().find(|sign| text.starts_with(sign)).unwrap_or_default();
    let rest = &text[sign.len()..];
    let version = rest.strip_prefix(char::is_whitespace).unwrap_or(rest);
    match version.is_empty() || version.contains(['<', '>', '=']) {
        // Not one comparison but several, or a sign without a version: it is taken as an exact
        // version.
        true => ("", text),
        false => (sign, version),
    }
}

/// Returns whether an order fulfils a comparison sign. Unknown signs are never fulfilled.
pub fn meets(order: Ordering, sign: &str) -> bool {
    match sign {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        "==" => order.is_eq(),
        ">=" => order.is_ge(),
        ">" => order.is_gt(),
        "!=" => order.is_ne(),
        _ => false,
    }
}

/// Returns the first version that fulfils a condition such as ">=1.0".
pub fn matching<'a>(
    wanted: &str,
    versions: &'a [String],
    compare: impl Fn(&str, &str) -> Ordering,
) -> Option<&'a String> {
    let (sign, version) = split_comparison(wanted);
    let sign = if sign.is_empty() { "==" } else { sign };
    versions.iter().find(|candidate| meets(compare(candidate, version), sign))
}

/// Replaces names with `*` by the installed packages they mean.
pub fn widened(installed: &Map, mut wanted: Map) -> Map {
    let patterns: Vec<String> = wanted.text_keys().filter(|name| name.contains('*')).map(str::to_owned).collect();
    let mut found = Map::new();
    for pattern in patterns {
        let version = wanted.remove(&pattern).unwrap_or_default();
        let names = installed.text_keys().filter(|name| targeting::fnmatch(name, &pattern));
        // As in Salt, of several patterns the last one counts.
        found = names.map(|name| (name.to_owned(), version.clone())).collect();
    }
    wanted.update(found);
    wanted
}

/// A number, word, text with commas or list as a list of texts.
pub fn texts(value: Option<&Value>) -> Vec<String> {
    value.map(util::split_input).unwrap_or_default()
}

/// The packages of a call with their versions, or files; nothing when there are none.
pub enum Targets {
    /// Names with versions.
    Packages(Map),
    /// Paths of files.
    Files(Vec<String>),
    /// Advisories.
    Advisories(Vec<String>),
    /// Nothing to do.
    None,
}

/// Parses the targets of a call with `pkg_resource.parse_targets`.
pub fn parse_targets(ctx: &Context, args: Vec<Value>, kwargs: Map) -> Result<Targets> {
    let call = exec::Call { args, kwargs };
    let parsed = ctx.call_with("pkg_resource.parse_targets", call)?.into_list().unwrap_or_default();
    let kind = parsed.get(1).map(Value::to_string).unwrap_or_default();
    let all = |items: Vec<Value>| items.iter().map(Value::to_string).collect::<Vec<_>>();
    Ok(match parsed.into_iter().next() {
        Some(Value::Map(packages)) if !packages.is_empty() => {
            // A dash at the beginning would make it an option of a program that runs as root.
            if let Some(bad) = packages.text_keys().find(|name| name.starts_with('-') || name.is_empty()) {
                return Err(Error::invocation(format!("'{bad}' is not the name of a package")));
            }
            Targets::Packages(packages)
        }
        Some(Value::List(items)) if !items.is_empty() && kind == "advisory" => Targets::Advisories(all(items)),
        Some(Value::List(items)) if !items.is_empty() => Targets::Files(all(items)),
        _ => Targets::None,
    })
}

/// A version in the order of Python's `LooseVersion`.
#[derive(PartialEq, Eq)]
pub struct Loose(pub String);

impl Ord for Loose {
    fn cmp(&self, other: &Self) -> Ordering {
        crate::pkg_resource::compare_loosely(&self.0, &other.0, false).cmp(&0)
    }
}

impl PartialOrd for Loose {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_split() {
        assert_eq!(split_comparison(">=1.0"), (">=", "1.0"));
        assert_eq!(split_comparison("> 1.0"), (">", "1.0"));
        assert_eq!(split_comparison("1.0"), ("", "1.0"));
        assert_eq!(split_comparison(">=1,<2"), ("", ">=1,<2"));
        let versions = ["3", "2", "1"].map(str::to_owned);
        let find = |wanted: &str| matching(wanted, &versions, |a, b| a.cmp(b)).map(String::as_str);
        assert_eq!((find("<3"), find("2"), find(">3"), find("=1")), (Some("2"), Some("2"), None, None));
    }

    #[test]
    fn lists_are_compared() {
        let old = map! { "a" => "1", "b" => "1", "c" => "1" };
        let new = map! { "a" => "2", "b" => "1", "d" => "1" };
        let expected = map! {
            "a" => map! { "old" => "1", "new" => "2" },
            "c" => map! { "old" => "1", "new" => "" },
            "d" => map! { "old" => "", "new" => "1" },
        };
        assert_eq!(differences(&old, &new), expected);
        let wanted = widened(&old, map! { "b*" => "1", "z" => () });
        assert_eq!(wanted, map! { "b" => "1", "z" => () });
    }
}
