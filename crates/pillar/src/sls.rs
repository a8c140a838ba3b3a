//! Renders SLS files with their includes, merged in order.

use std::collections::{HashMap, HashSet};

use targeting::Glob;
use value::{Map, Value};

use crate::Compiler;
use crate::files::Files;
use crate::merge::{Strategy, merge};
use crate::read::{Reader, SlsFile};

/// The rendering of a pillar's files.
pub(crate) struct Renderer<'a, 'f> {
    pub compiler: &'a Compiler,
    pub files: &'f mut Files<'a>,
    pub reader: &'f Reader<'a>,
    pub strategy: Strategy,
    pub may_be_missing: &'f HashMap<String, HashSet<String>>,
    pub errors: Vec<String>,
    /// The data of files that were rendered for the current environment, without their includes.
    read: HashMap<String, Value>,
    /// The current depth of includes.
    depth: usize,
}

/// More nested includes than any tree has.
const DEPTH_LIMIT: usize = 200;

impl<'a, 'f> Renderer<'a, 'f> {
    pub fn new(
        compiler: &'a Compiler,
        files: &'f mut Files<'a>,
        reader: &'f Reader<'a>,
        strategy: Strategy,
        may_be_missing: &'f HashMap<String, HashSet<String>>,
    ) -> Self {
        let (errors, read, depth) = (Vec::new(), HashMap::new(), 0);
        Renderer { compiler, files, reader, strategy, may_be_missing, errors, read, depth }
    }

    /// Merges all files of all environments into a map.
    pub fn render(&mut self, start: Map, matches: Vec<(String, Vec<String>)>) -> Map {
        let mut pillar = start;
        for (env, wanted) in self.in_order(matches) {
            // The same name is another file in the next environment.
            self.read.clear();
            for name in self.expand(&wanted, &env) {
                let mut errors = Vec::new();
                let content = self.file(&name, &env, None, &mut errors);
                self.errors.extend(errors);
                match content {
                    Some(Value::Map(content)) => pillar = self.merged(pillar, &content),
                    Some(_) => tracing::error!("The rendered pillar sls file, '{name}' is not a map"),
                    None => {}
                }
            }
        }
        pillar
    }

    /// Sorts the environments: first those in `env_order`, then the others as they were. Later ones win when merged.
    fn in_order(&self, mut matches: Vec<(String, Vec<String>)>) -> Vec<(String, Vec<String>)> {
        let order = &self.compiler.env_order;
        let place = |env: &String| order.iter().position(|known| known == env).unwrap_or(usize::MAX);
        // The sort is stable, so environments outside `env_order` keep their order.
        matches.sort_by_key(|(env, _)| place(env));
        matches
    }

    /// Replaces patterns by the names they match; one that matches nothing stays as it is.
    fn expand(&mut self, wanted: &[String], env: &str) -> Vec<String> {
        let known = self.files.envs().iter().any(|known| known == env);
        let mut names = Vec::new();
        for pattern in wanted {
            if !known {
                self.errors.push(format!("No matching pillar environment for environment '{env}' found"));
            }
            let glob = Glob::new(pattern);
            let before = names.len();
            if !glob.is_literal() {
                names.extend(self.files.names(env).iter().filter(|name| glob.matches(name)).cloned());
            }
            // A name without a match stays, so that the missing file is reported under it.
            if names.len() == before {
                names.push(pattern.clone());
            }
        }
        names
    }

    fn merged(&self, first: Map, second: &Map) -> Map {
        merge(first, second, self.strategy, self.compiler.settings.pillar_merge_lists)
    }

    /// Renders a file and merges its includes; `None` if it is missing without that being an error. `defaults` are variables that
    /// the including file passes to its template.
    fn file(&mut self, name: &str, env: &str, defaults: Option<&Map>, errors: &mut Vec<String>) -> Option<Value> {
        let Some(sls) = self.files.sls(name, env) else { return self.missing(name, env, errors) };
        let content = match &*self.reader.read(SlsFile { path: &sls.path, sls: name, env, defaults }) {
            Ok(content) => content.clone(),
            Err(error) => {
                errors.push(self.failure(name, error));
                self.read.insert(name.to_owned(), Value::Null);
                // A file that failed counts as empty, and the minion's pillar is compiled without it.
                return None;
            }
        };
        let Value::Map(mut content) = content else {
            errors.push(format!("SLS '{name}' does not render to a dictionary"));
            self.read.insert(name.to_owned(), content.clone());
            return Some(content);
        };
        let includes = match content.get("include") {
            Some(Value::List(_)) => content.remove("include").and_then(Value::into_list).unwrap_or_default(),
            Some(_) => {
                errors.push(format!("Include Declaration in SLS '{name}' is not formed as a list"));
                Vec::new()
            }
            None => Vec::new(),
        };
        // Before the includes are read, so that a file that includes itself, directly or not, finds this entry and
        // stops.
        self.read.insert(name.to_owned(), Value::Map(content.clone()));
        if includes.is_empty() || self.depth >= DEPTH_LIMIT {
            return Some(content.into());
        }
        self.depth += 1;
        let package = package(name, sls.is_init);
        let included = self.includes(&includes, &package, (env, defaults), errors);
        self.depth -= 1;
        Some(self.with_includes(content, included).into())
    }

    /// The including file wins over its includes, unless `pillar_includes_override_sls` is set.
    fn with_includes(&self, content: Map, included: Vec<Map>) -> Map {
        if self.compiler.settings.pillar_includes_override_sls {
            return included.iter().fold(content, |all, part| self.merged(all, part));
        }
        let mut parts = included.into_iter();
        match parts.next() {
            None => content,
            Some(first) => {
                let all = parts.fold(first, |all, part| self.merged(all, &part));
                self.merged(all, &content)
            }
        }
    }

    fn missing(&mut self, name: &str, env: &str, errors: &mut Vec<String>) -> Option<Value> {
        if self.may_be_missing.get(env).is_some_and(|names| names.contains(name)) {
            tracing::debug!("Skipping ignored and missing SLS '{name}' in environment '{env}'");
            return None;
        }
        if self.files.roots.get(env).is_none_or(<[_]>::is_empty) {
            tracing::debug!(
                "Specified SLS '{name}' in environment '{env}' was not found. This could be because SLS '{name}' is in an \
                 environment other than '{env}', but '{env}' is included in that environment's Pillar top file. It could \
                 also be due to environment '{env}' not being defined in 'pillar_roots'."
            );
            return None;
        }
        let text = format!("Specified SLS '{name}' in environment '{env}' is not available on the salt master");
        tracing::error!("{text}");
        errors.push(text);
        self.read.insert(name.to_owned(), Map::new().into());
        Some(Map::new().into())
    }

    /// Details of an error may contain secrets of the file, so minions get them only if the master's options allow it.
    fn failure(&self, name: &str, error: &render::Error) -> String {
        let text = format!("Rendering SLS '{name}' failed, render error:\n{error}");
        tracing::error!(critical = true, "{text}");
        if error.is_unsupported() || !self.compiler.settings.pillar_safe_render_error {
            return text;
        }
        format!("Rendering SLS '{name}' failed. Please see master log for details.")
    }

    /// Returns the data of each included file, below the key it is included under.
    fn includes(
        &mut self,
        includes: &[Value],
        package: &[&str],
        (env, defaults): (&str, Option<&Map>),
        errors: &mut Vec<String>,
    ) -> Vec<Map> {
        let mut parts = Vec::new();
        // As in Salt, defaults of one entry are also those of the entries after it that have no options.
        let mut defaults = defaults.cloned();
        // As in Salt, the errors of one file count again for each later file that was rendered before.
        let mut last_errors = Vec::new();
        for include in includes {
            let Include { name, key, defaults: given } = Include::read(include);
            defaults = given.or(defaults);
            for name in self.included_names(&name, package, env) {
                let content = match self.read.get(&name) {
                    Some(known) => Some(known.clone()),
                    None => {
                        last_errors.clear();
                        self.file(&name, env, defaults.as_ref(), &mut last_errors)
                    }
                };
                match content.filter(Value::truthy) {
                    Some(Value::Map(content)) => parts.push(below(&key, content)),
                    Some(_) => tracing::error!("The included pillar sls file, '{name}' is not a map"),
                    None => {}
                }
                errors.extend(last_errors.iter().cloned());
            }
        }
        parts
    }

    /// A name that begins with a dot is relative to the including file, but is also looked up from the root.
    fn included_names(&mut self, name: &str, package: &[&str], env: &str) -> Vec<String> {
        let known = self.files.names(env);
        let matching = |pattern: &str| {
            let glob = Glob::new(pattern);
            known.iter().filter(|name| glob.matches(name)).cloned().collect::<Vec<_>>()
        };
        // A pattern is matched before and after it is resolved, as in Salt, so a relative name may include two files.
        let mut names = matching(&name.trim_start_matches('.').replace('/', "."));
        let full = match name.strip_prefix('.') {
            Some(rest) => package.iter().copied().chain([rest]).collect::<Vec<_>>().join("."),
            None => name.to_owned(),
        };
        names.extend(matching(&full));
        if names.is_empty() {
            names.push(full);
        }
        names
    }
}

/// An entry of `include`: a name, or a name with options.
struct Include {
    name: String,
    /// The path of keys below which the data goes.
    key: Option<String>,
    /// Names for the template of the included file; none at all when the entry has no options.
    defaults: Option<Map>,
}

impl Include {
    fn read(entry: &Value) -> Self {
        match entry {
            Value::Map(map) => {
                let Some((name, options)) = map.iter().next() else {
                    return Include { name: String::new(), key: None, defaults: None };
                };
                let key = options.get("key").filter(|key| key.truthy()).map(Value::to_string);
                let defaults = options.get("defaults").and_then(Value::as_map).cloned();
                Include { name: name.to_string(), key, defaults: Some(defaults.unwrap_or_default()) }
            }
            other => Include { name: other.to_string(), key: None, defaults: None },
        }
    }
}

fn below(key: &Option<String>, content: Map) -> Map {
    let Some(key) = key else { return content };
    key.split(':').rev().fold(content, |inner, part| value::map! { part => inner })
}

/// Returns the parts of the name of a file's directory.
fn package(name: &str, is_init: bool) -> Vec<&str> {
    let mut parts: Vec<&str> = name.split('.').collect();
    if !is_init {
        parts.pop();
    }
    parts
}
