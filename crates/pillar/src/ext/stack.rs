//! `stack`: YAML files, listed in configuration files and rendered with Jinja, are merged in order.
//!
//! The lists, and the keys that control merging (`__: overwrite`), are those of Salt's `pillar.stack`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use render::{Renderer, Roots, Template};
use value::{Map, Value, map};

use super::ExternalCall;

/// The strategies for merging a value with the existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Overwrite,
    MergeFirst,
    MergeLast,
    Remove,
}

/// The maximum depth of merged data.
const MAX_DEPTH: usize = 256;

impl Strategy {
    fn of(name: &Value) -> Result<Self, String> {
        match name.as_str() {
            Some("overwrite") => Ok(Strategy::Overwrite),
            Some("merge-first") => Ok(Strategy::MergeFirst),
            Some("merge-last") => Ok(Strategy::MergeLast),
            Some("remove") => Ok(Strategy::Remove),
            _ => Err(format!(
                "Unknown strategy \"{name}\", should be one of ('overwrite', 'merge-first', 'merge-last', 'remove')"
            )),
        }
    }
}

pub fn load(call: &ExternalCall) -> Result<Map, String> {
    let mut stack = Map::new();
    for cfg in listed(call)? {
        let path = PathBuf::from(&cfg);
        if !path.is_file() {
            tracing::info!("Ignoring pillar stack cfg \"{cfg}\": file does not exist");
            continue;
        }
        stack = Stack::new(call, &path).laid_over(stack)?;
    }
    Ok(stack)
}

/// Returns the configuration files: those that are named, and those that depend on a value of pillar, grains or options.
fn listed(call: &ExternalCall) -> Result<Vec<String>, String> {
    let text = |value: &Value| value.to_string();
    let pillarenv = environment(call);
    match call.arguments {
        Value::List(paths) => Ok(paths.iter().map(text).collect()),
        Value::Map(matchers) => {
            let mut all = Vec::new();
            for (matcher, cases) in matchers {
                let matcher = matcher.to_string();
                let (place, key) =
                    matcher.split_once(':').ok_or_else(|| format!("stack: {matcher} names no place and key"))?;
                let place = match place {
                    "pillar" => (*call.ctx.pillar).clone(),
                    "grains" => (*call.ctx.grains).clone(),
                    "opts" => call.options(),
                    other => {
                        return Err(format!(
                            "Unknown traverse option \"{other}\", should be one of dict_keys(['pillar', 'grains', 'opts'])"
                        ));
                    }
                };
                let found = Value::Map(place).traverse(key, ":").cloned().unwrap_or_default();
                let is_case = |case: &Value| {
                    if case.as_str() == Some("__env__") { found.as_str() == Some(&pillarenv) } else { *case == found }
                };
                let paths = cases.as_map().and_then(|cases| cases.iter().find(|(case, _)| is_case(case)));
                match paths.map(|(_, paths)| paths) {
                    None => {}
                    Some(Value::List(paths)) => all.extend(paths.iter().map(text)),
                    Some(path) => all.push(text(path)),
                }
            }
            Ok(all.into_iter().map(|path| path.replace("__env__", &pillarenv)).collect())
        }
        Value::Null => Ok(Vec::new()),
        path => Ok(vec![text(path)]),
    }
}

fn environment(call: &ExternalCall) -> String {
    call.pillarenv.or(call.saltenv).filter(|env| !env.is_empty()).unwrap_or("base").to_owned()
}

/// One configuration file.
struct Stack<'a> {
    call: &'a ExternalCall<'a>,
    cfg: &'a Path,
    base: PathBuf,
    renderer: Renderer,
}

impl<'a> Stack<'a> {
    fn new(call: &'a ExternalCall<'a>, cfg: &'a Path) -> Self {
        let base = cfg.parent().unwrap_or(Path::new("/")).to_owned();
        let mut ctx = call.ctx.clone();
        let mut opts = (*ctx.opts).clone();
        // As in Salt, these are rendered with an engine without options, in which names may be undefined.
        for name in ["jinja_env", "jinja_sls_env"] {
            opts.remove(name);
        }
        opts.insert("allow_undefined", true);
        ctx.opts = Arc::new(opts);
        let roots = base.clone();
        let renderer = Renderer::new(ctx, Arc::new(Roots::new(move |_: &str| vec![roots.clone()])));
        Stack { call, cfg, base, renderer }
    }

    fn laid_over(&self, mut stack: Map) -> Result<Map, String> {
        let list = self.render(self.cfg, &stack, None).map_err(|error| format!("{}: {error}", self.cfg.display()))?;
        for item in items(&list) {
            let paths = config::glob::glob(&self.base.join(&item).to_string_lossy());
            if paths.is_empty() {
                let base = self.base.display();
                tracing::info!("Ignoring pillar stack template \"{item}\": can't find from root dir \"{base}\"");
            }
            for path in paths {
                let shown = path.display().to_string();
                let text = self.render(&path, &stack, Some(&shown));
                let text =
                    text.map_err(|error| format!("Stack pillar template render error in {shown}:\n\"{error}\""))?;
                let data = yaml::load(&text, &shown)
                    .map_err(|error| format!("Stack pillar yaml parsing error in {shown}:\n{error}\n{text}"))?;
                if let Value::Map(entry) = data {
                    // Merged at once, because the templates of later files see the stack so far.
                    stack = merge(stack, entry, 0)?;
                }
            }
        }
        Ok(stack)
    }

    fn render(&self, path: &Path, stack: &Map, ymlpath: Option<&str>) -> Result<String, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let ctx = self.call.ctx;
        let mut context = map! {
            "__opts__" => self.call.options(), "__grains__" => (*ctx.grains).clone(),
            "__stack__" => map! { "cfg_path" => self.cfg.display().to_string() },
            "minion_id" => self.call.id, "pillar" => (*ctx.pillar).clone(), "pillarenv" => self.call.pillarenv,
            "stack" => stack.clone(),
        };
        if let Some(path) = ymlpath {
            context.insert("ymlpath", path);
        }
        let template = Template { text: &text, engine: "jinja", context: Some(&context), ..Template::default() };
        self.renderer.template(&template).map_err(|error| error.to_string())
    }
}

/// Returns the entries of a list: a YAML list, or lines.
fn items(text: &str) -> Vec<String> {
    let items: Vec<String> = match yaml::load(text, "<unicode string>") {
        Ok(Value::List(items)) => items.iter().map(Value::to_string).collect(),
        _ => text.lines().map(str::to_owned).collect(),
    };
    items.into_iter().filter(|item| !item.trim().is_empty()).collect()
}

/// Removes the keys that control merging, so that they do not end up in the pillar.
fn cleaned(value: Value, depth: usize) -> Value {
    match value {
        Value::Map(mut map) if depth < MAX_DEPTH => {
            map.remove("__");
            Value::Map(map.into_iter().map(|(key, value)| (key, cleaned(value, depth + 1))).collect())
        }
        Value::List(mut items) if items.first().is_some_and(|first| first.get("__").is_some()) => {
            items.remove(0);
            Value::List(items)
        }
        other => other,
    }
}

fn merge(mut stack: Map, mut entry: Map, depth: usize) -> Result<Map, String> {
    if depth > MAX_DEPTH {
        return Err(format!("the pillar is nested deeper than {MAX_DEPTH}"));
    }
    let strategy = entry.remove("__").map_or(Ok(Strategy::MergeLast), |name| Strategy::of(&name))?;
    if strategy == Strategy::Overwrite {
        return Ok(cleaned(Value::Map(entry), 0).into_map().unwrap_or_default());
    }
    for (key, value) in entry {
        if strategy == Strategy::Remove {
            stack.remove_value(&key);
            continue;
        }
        let Some(present) = stack.get_value_mut(&key) else {
            stack.insert(key, cleaned(value, 0));
            continue;
        };
        let (mut below, mut above) = (std::mem::take(present), value);
        // The existing value takes precedence, so the two swap their roles.
        if strategy == Strategy::MergeFirst {
            (below, above) = (cleaned(above, 0), below);
        }
        *present = match (below, above) {
            (Value::Map(below), Value::Map(above)) => merge(below, above, depth + 1)?.into(),
            (Value::List(below), Value::List(above)) => merge_lists(below, above)?.into(),
            (_, above) => cleaned(above, 0),
        };
    }
    Ok(stack)
}

fn merge_lists(mut stack: Vec<Value>, mut entry: Vec<Value>) -> Result<Vec<Value>, String> {
    let strategy = match entry.first().and_then(|first| first.get("__")).cloned() {
        Some(name) => {
            entry.remove(0);
            Strategy::of(&name)?
        }
        None => Strategy::MergeLast,
    };
    Ok(match strategy {
        Strategy::Overwrite => entry,
        Strategy::Remove => {
            stack.retain(|item| !entry.contains(item));
            stack
        }
        Strategy::MergeFirst => entry.into_iter().chain(stack).collect(),
        Strategy::MergeLast => stack.into_iter().chain(entry).collect(),
    })
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn keys_control_merging() {
        let stack = || map! { "a" => list![1, 2], "m" => map! { "x" => 1, "y" => 2 }, "t" => "old" };
        let merged = |entry: Map| merge(stack(), entry, 0).unwrap();
        assert_eq!(merged(map! { "a" => list![3], "t" => "new" }).get("a"), Some(&list![1, 2, 3]));
        let first =
            map! { "a" => list![map! { "__" => "merge-first" }, 0], "m" => map! { "__" => "overwrite", "z" => 3 } };
        let merged_first = merged(first);
        assert_eq!(merged_first.get("a"), Some(&list![0, 1, 2]));
        assert_eq!(merged_first.get("m"), Some(&map! { "z" => 3 }.into()));
        let removed =
            merged(map! { "a" => list![map! { "__" => "remove" }, 2], "m" => map! { "__" => "remove", "x" => () } });
        assert_eq!(removed.get("a"), Some(&list![1]));
        assert_eq!(removed.get("m"), Some(&map! { "y" => 2 }.into()));
        let whole = merged(map! { "__" => "merge-first", "t" => "new", "a" => list![9] });
        assert_eq!((whole.get_str("t"), whole.get("a")), (Some("old"), Some(&list![9, 1, 2])));
        assert!(merge(stack(), map! { "__" => "guess" }, 0).is_err());
    }

    #[test]
    fn lists_are_yaml_or_lines() {
        assert_eq!(items("- a.yml\n- b/*.yml\n"), ["a.yml", "b/*.yml"]);
        assert_eq!(items("a.yml\n\n  \nb.yml"), ["a.yml", "b.yml"]);
    }
}
