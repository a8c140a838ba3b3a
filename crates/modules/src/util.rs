//! Small things several modules need: Salt's ways to read an argument, to merge, to find an option.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use exec::{Context, Error, Result};
use value::{Map, Value};

/// Returns whether an argument of a state is one that the engine takes for itself.
pub use state::keywords::is_internal;

/// Reads an argument that is a list or a text with commas; nothing when it was not given.
pub fn split_input(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        other => other.to_string().split(',').map(|part| part.trim().to_owned()).collect(),
    }
}

/// Returns whether a value means yes, as Salt reads words and numbers.
pub fn is_true(value: &Value) -> bool {
    match value {
        // Salt's `is_true`: texts of numbers count like numbers, and of all others only "true" is
        // true.
        Value::Str(text) => match text.trim().parse::<f64>() {
            Ok(number) => number > 0.0,
            Err(_) => text.eq_ignore_ascii_case("true"),
        },
        Value::Int(number) => *number > 0,
        Value::Float(number) => *number > 0.0,
        other => other.truthy(),
    }
}

/// Returns whether a path is a file we may run.
pub fn is_executable(path: &Path) -> bool {
    // For root `access` allows any file with some execute bit.
    nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
        && path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Finds a program as the shell would.
pub fn which(name: &str) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        let path = PathBuf::from(name);
        return is_executable(&path).then_some(path);
    }
    search_path(std::env::var_os("PATH")).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

/// The folders of a search path, and the usual ones it lacks: daemons and `cron` often have a short one.
fn search_path(path: Option<OsString>) -> impl Iterator<Item = PathBuf> {
    let mut folders: Vec<PathBuf> = path.iter().flat_map(std::env::split_paths).collect();
    let usual = ["/sbin", "/bin", "/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from);
    // A service may have a short PATH, without `sbin`.
    let lacking: Vec<PathBuf> = usual.into_iter().filter(|folder| !folders.contains(folder)).collect();
    folders.extend(lacking);
    folders.into_iter()
}

/// Returns whether a module has the program it needs. In tests all programs exist.
pub fn is_installed(program: &str) -> bool {
    cfg!(test) || which(program).is_some()
}

/// Finds a program for a function that runs it. In tests all programs exist except those that the test takes away.
pub fn program(ctx: &Context, name: &str) -> Option<String> {
    if cfg!(test)
        && let Some(missing) = ctx.opts.get("__missing_programs")
    {
        let missing = missing.as_list().is_some_and(|list| list.contains(&name.into()));
        return (!missing).then(|| format!("/usr/sbin/{name}"));
    }
    which(name).map(|path| path.to_string_lossy().into_owned())
}

/// Fails, in Salt's words, when a program that a function needs does not exist.
///
/// # Errors
/// [`Error::CommandNotFound`].
pub fn needs(ctx: &Context, program_name: &str) -> Result<()> {
    let missing = || Error::CommandNotFound(format!("The '{program_name}' binary was not found in $PATH."));
    program(ctx, program_name).map(drop).ok_or_else(missing)
}

/// Returns an option as `config.get` finds it: options, grains, pillar, and the master's options in the pillar.
pub fn config_get(ctx: &Context, name: &str) -> Option<Value> {
    // With `pillar_opts` the master's configuration is part of the pillar.
    let in_pillar = ctx.pillar.get("master").and_then(Value::as_map);
    let places = [Some(&*ctx.opts), Some(&*ctx.grains), Some(&*ctx.pillar), in_pillar];
    places.into_iter().flatten().find_map(|map| map.get(name).cloned())
}

/// Follows a path of keys in a map.
pub fn traverse<'a>(map: &'a Map, path: &str, delimiter: &str) -> Option<&'a Value> {
    // A key that has the delimiter itself cannot be found, as in Salt.
    if delimiter.is_empty() || !path.contains(delimiter) {
        return map.get(path).or_else(|| step(map, path));
    }
    let (first, rest) = path.split_once(delimiter)?;
    step(map, first)?.traverse(rest, delimiter)
}

fn step<'a>(map: &'a Map, key: &str) -> Option<&'a Value> {
    // YAML makes numbers of keys such as `80`, but a path is text.
    map.get(key).or_else(|| map.get_value(&Value::Int(key.parse().ok()?)))
}

/// Lays one map over another, map by map (Salt's `dictupdate.update`); lists are replaced, or joined on demand.
pub fn merge_maps(base: &mut Map, over: Map, join_lists: bool) {
    for (key, value) in over {
        match (base.get_value_mut(&key), value) {
            (Some(Value::Map(below)), Value::Map(above)) => merge_maps(below, above, join_lists),
            (Some(Value::List(below)), Value::List(above)) if join_lists => {
                // Salt appends only missing items.
                let new: Vec<Value> = above.into_iter().filter(|item| !below.contains(item)).collect();
                below.extend(new);
            }
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// The arguments of `filter_by` of grains and pillar.
#[derive(Debug, Default)]
pub struct FilterBy {
    /// The entries by pattern.
    pub lookup: Map,
    /// Laid over what was found.
    pub merge: Option<Value>,
    /// The key that is used when nothing matches.
    pub default: Value,
    /// The key of the entry that the found one is merged into.
    pub base: Option<String>,
}

impl FilterBy {
    /// Picks the entry whose pattern matches the value (each of the values, in their order, if it is a list).
    pub fn pick(self, found: Option<&Value>) -> Result<Value> {
        let values: &[Value] = match found {
            Some(Value::List(items)) => items,
            Some(single) => std::slice::from_ref(single),
            None => &[],
        };
        let fits = |value: &Value| {
            let text = value.to_string();
            let hit = self.lookup.iter().find(|(key, _)| targeting::fnmatch(&text, &key.to_string()));
            hit.map(|(_, entry)| entry).filter(|entry| !entry.is_null())
        };
        // A grain may be a list, and the first of its items that matches decides.
        let picked = values.iter().find_map(fits).or_else(|| self.lookup.get_value(&self.default));
        let mut result = picked.cloned().unwrap_or_default();
        if let Some(base) = self.base.as_deref().and_then(|base| self.lookup.get(base)) {
            result = over_base(base.clone(), result)?;
        }
        match self.merge.filter(Value::truthy) {
            Some(merge) => laid_over(result, merge),
            None => Ok(result),
        }
    }
}

fn over_base(base: Value, result: Value) -> Result<Value> {
    match (base, result) {
        (base, Value::Null) => Ok(base),
        (Value::Map(mut base), Value::Map(result)) => {
            merge_maps(&mut base, result, false);
            Ok(base.into())
        }
        (Value::Map(_), _) => Err(Error::execution("filter_by default and look-up values must both be dictionaries.")),
        (_, result) => Ok(result),
    }
}

fn laid_over(result: Value, merge: Value) -> Result<Value> {
    match (result, merge) {
        (Value::Null, merge @ Value::Map(_)) => Ok(merge),
        (Value::Map(mut result), Value::Map(merge)) => {
            merge_maps(&mut result, merge, false);
            Ok(result.into())
        }
        (_, Value::Map(_)) => Err(Error::execution("Cannot update using non-dict types in dictupdate.update()")),
        _ => Err(Error::execution("filter_by merge argument must be a dictionary.")),
    }
}

/// The template engines that Salt knows. Only Jinja exists here.
const ENGINES: [&str; 7] = ["jinja", "mako", "py", "wempy", "genshi", "cheetah", "file_pattern"];

/// Checks that a text does not need the template engine it is to go through: text without jinja's marks renders to
/// itself.
///
/// # Errors
/// For any other text, and for engines that do not exist.
pub fn plain_template(engine: Option<&str>, text: &str) -> Result<()> {
    match engine {
        None => Ok(()),
        Some("jinja") if !["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) => Ok(()),
        Some(engine) if ENGINES.contains(&engine) => {
            Err(Error::execution(format!("not supported: rendering with template engine '{engine}'")))
        }
        Some(engine) => {
            Err(Error::execution(format!("Attempted to render file paths with unavailable engine {engine}")))
        }
    }
}

/// Writes a file so that a reader sees the old or the new content, never half of it.
pub fn replace_file(path: &Path, content: &[u8], mode: u32) -> std::io::Result<()> {
    rt::disk::replace(path, content, mode, rt::disk::Durability::Disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn a_list_and_a_text_with_commas_say_the_same() {
        assert_eq!(split_input(&"a, b".into()), ["a", "b"]);
        assert_eq!(split_input(&list!["a", 2]), ["a", "2"]);
        assert_eq!(split_input(&Value::Int(3)), ["3"]);
        assert!(split_input(&Value::Null).is_empty());
    }

    #[test]
    fn maps_merge_deeply_and_lists_are_replaced() {
        let mut base = map! { "a" => map! { "x" => 1, "y" => 2 }, "l" => list![1, 2] };
        merge_maps(&mut base, map! { "a" => map! { "y" => 3 }, "l" => list![2, 3] }, false);
        assert_eq!(base, map! { "a" => map! { "x" => 1, "y" => 3 }, "l" => list![2, 3] });
        merge_maps(&mut base, map! { "l" => list![3, 4] }, true);
        assert_eq!(base.get("l"), Some(&list![2, 3, 4]));
    }

    #[test]
    fn a_lookup_takes_the_first_value_that_fits() {
        let lookup = || map! { "Deb*" => map! { "p" => "apt" }, "default" => "none", "base" => map! { "q" => 1 } };
        let filter = |found: Option<Value>, base: Option<&str>, merge: Option<Value>| {
            let base = base.map(str::to_owned);
            FilterBy { lookup: lookup(), merge, default: "default".into(), base }.pick(found.as_ref())
        };
        assert_eq!(filter(Some("Debian".into()), None, None).unwrap(), map! { "p" => "apt" }.into());
        assert_eq!(filter(Some(list!["x", "Debian"]), None, None).unwrap(), map! { "p" => "apt" }.into());
        assert_eq!(filter(Some("Arch".into()), None, None).unwrap(), "none".into());
        assert_eq!(filter(None, None, None).unwrap(), "none".into());
        let merged = filter(Some("Debian".into()), Some("base"), Some(map! { "r" => 2 }.into())).unwrap();
        assert_eq!(merged, map! { "q" => 1, "p" => "apt", "r" => 2 }.into());
        assert!(filter(Some("Debian".into()), None, Some(1.into())).is_err());
    }

    #[test]
    fn only_text_without_marks_goes_through_unrendered() {
        assert!(plain_template(None, "{{ x }}").is_ok());
        assert!(plain_template(Some("jinja"), "plain {").is_ok());
        assert!(plain_template(Some("jinja"), "{{ x }}").unwrap_err().to_string().starts_with("not supported"));
        assert!(plain_template(Some("foo"), "x").unwrap_err().to_string().contains("unavailable engine foo"));
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(which("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(which("no-such-program-here"), None);
        assert_eq!(which("/bin/sh"), Some("/bin/sh".into()));
        let folders: Vec<_> = search_path(Some("/opt/bin:/usr/bin".into())).collect();
        let expected = ["/opt/bin", "/usr/bin", "/sbin", "/bin", "/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];
        assert_eq!(folders, expected.map(PathBuf::from));
        assert_eq!(search_path(None).count(), 6);
    }
}
