//! Grains that an operator configures, and the rules for merging grains: `grains_deep_merge`, `grains_blacklist`.

use std::path::{Path, PathBuf};

use value::{Map, Value};

/// Returns the path of the minion's own grains: the file `grains` beside the configuration.
pub fn path(opts: &Map) -> Option<PathBuf> {
    let conf = Path::new(opts.get_str("conf_file")?);
    let directory = if conf.is_dir() { conf } else { conf.parent()? };
    Some(directory.join("grains"))
}

/// Returns the content of that file.
pub fn from_file(opts: &Map) -> Map {
    let Some(path) = path(opts) else { return Map::new() };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Map::new(),
        Err(error) => {
            tracing::warn!("failed to read the grains file {}: {error}", path.display());
            return Map::new();
        }
    };
    match yaml::load(&text, &path.to_string_lossy()) {
        Ok(Value::Map(grains)) => grains,
        // An empty file is not an error.
        Ok(Value::Null) => Map::new(),
        Ok(_) => {
            tracing::warn!("the grains file {} holds no map", path.display());
            Map::new()
        }
        Err(error) => {
            tracing::warn!("Bad syntax in grains file! Skipping. {error}");
            Map::new()
        }
    }
}

/// The settings for merging grains.
pub struct Filter {
    blacklist: Vec<Pattern>,
    deep: bool,
}

/// A name on the blacklist: a glob, or a regular expression for the whole name.
struct Pattern {
    text: String,
    glob: Option<regex::Regex>,
    expression: Option<regex::Regex>,
}

impl Filter {
    /// Reads the options.
    pub fn of(opts: &Map) -> Self {
        let names = opts.get("grains_blacklist").and_then(Value::as_list).unwrap_or_default();
        Filter {
            blacklist: names.iter().filter_map(Value::as_str).map(Pattern::new).collect(),
            // Salt compares with `is True`.
            deep: opts.get("grains_deep_merge") == Some(&Value::Bool(true)),
        }
    }

    /// Merges grains over others, without those on the blacklist.
    pub fn lay_over(&self, grains: &mut Map, mut found: Map) {
        found.retain(|key, _| !key.as_str().is_some_and(|key| self.blacklist.iter().any(|pattern| pattern.fits(key))));
        self.lay_unfiltered_over(grains, found);
    }

    /// Merges grains over others.
    pub fn lay_unfiltered_over(&self, grains: &mut Map, found: Map) {
        if self.deep { merge(grains, found) } else { grains.update(found) }
    }
}

impl Pattern {
    fn new(text: &str) -> Self {
        // Salt matches globs and expressions from start to end.
        let whole = |expression: &str| regex::Regex::new(&format!(r"(?s)\A(?:{expression})\z")).ok();
        Pattern { text: text.to_owned(), glob: whole(&glob_expression(text)), expression: whole(text) }
    }

    fn fits(&self, name: &str) -> bool {
        let fits = |expression: &Option<regex::Regex>| expression.as_ref().is_some_and(|regex| regex.is_match(name));
        self.text == name || fits(&self.glob) || fits(&self.expression)
    }
}

/// Converts a shell pattern to a regular expression.
fn glob_expression(glob: &str) -> String {
    let mut out = String::new();
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            // As in Python's fnmatch, a `]` right after the bracket belongs to the class.
            '[' => match rest.get(1..).and_then(|later| later.find(']')).map(|place| place + 1) {
                Some(end) => {
                    let class = rest[..end].replace('\\', "\\\\").replace('[', "\\[");
                    out.push_str(&format!(
                        "[{}]",
                        class.strip_prefix('!').map_or(class.clone(), |not| format!("^{not}"))
                    ));
                    rest = &rest[end + 1..];
                }
                None => out.push_str("\\["),
            },
            c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    out
}

/// Maps are merged recursively; anything else is replaced.
fn merge(under: &mut Map, over: Map) {
    for (key, value) in over {
        match (under.get_value_mut(&key), value) {
            (Some(Value::Map(below)), Value::Map(above)) => merge(below, above),
            (_, value) => drop(under.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn the_blacklist_takes_globs_and_expressions() {
        let filter =
            Filter::of(&map! { "grains_blacklist" => list!["cpu_*", "ip[46]_?x", "a|b", "[!z]z", "exact[", "c.d"] });
        let mut grains = Map::new();
        let names = ["cpu_flags", "ip4_gx", "ip5_gx", "a", "b", "ab", "yz", "zz", "exact[", "c.d", "cxd", "num_cpus"];
        filter.lay_over(&mut grains, names.iter().map(|name| (*name, true)).collect());
        assert_eq!(grains.text_keys().collect::<Vec<_>>(), ["ip5_gx", "ab", "num_cpus"]);
    }

    #[test]
    fn a_deep_merge_merges_nested_maps() {
        let below = map! { "a" => map! { "x" => 1, "y" => list![1] }, "b" => 1 };
        let above = map! { "a" => map! { "y" => list![2] }, "b" => map! { "c" => 2 } };
        let mut flat = below.clone();
        Filter::of(&Map::new()).lay_over(&mut flat, above.clone());
        assert_eq!(flat.get("a"), Some(&Value::from(map! { "y" => list![2] })));
        let mut deep = below;
        Filter::of(&map! { "grains_deep_merge" => true }).lay_over(&mut deep, above);
        assert_eq!(deep, map! { "a" => map! { "x" => 1, "y" => list![2] }, "b" => map! { "c" => 2 } });
    }
}
