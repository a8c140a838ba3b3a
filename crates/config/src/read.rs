//! Reads the files: the main one, those of `default_include`, those of `include`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use value::{Map, Value};

use crate::Role;
use crate::check;
use crate::error::Error;
use crate::glob::glob;
use crate::opts::Opts;
use crate::origin::Origin;
use crate::table::{self, Type, expand_home};

/// The maximum depth of includes.
// Two files may include each other. Salt recurses until Python gives up.
const MAX_INCLUDE_DEPTH: usize = 16;

/// Reads the main file and all its includes. A missing file sets nothing.
pub(crate) fn read_all(role: Role, path: &Path) -> Result<Opts, Error> {
    let mut reader = Reader { role, warnings: Vec::new() };
    let mut layer = reader.main(path)?.unwrap_or_default();
    let pattern = layer.map.get("default_include").cloned().unwrap_or_else(|| role.default_include().into());
    let include = layer.map.get("include").cloned().unwrap_or_default();
    // Salt's order: the main file, then `default_include`, then `include`; later ones override.
    let extra = reader.include(&pattern, path, false, 0)?;
    lay_over(&mut layer, extra);
    let extra = reader.include(&include, path, true, 0)?;
    lay_over(&mut layer, extra);
    layer.warnings = reader.warnings;
    Ok(layer)
}

/// Reads one file of options without checking their names, such as a Saltfile or the client's own file.
pub(crate) fn read_plain(path: &Path) -> Result<Map, Error> {
    Ok(document(path)?.value.into_map().unwrap_or_default())
}

struct Reader {
    role: Role,
    warnings: Vec<String>,
}

impl Reader {
    fn main(&mut self, path: &Path) -> Result<Option<Opts>, Error> {
        if !path.is_file() {
            tracing::debug!(target: "salt.config", "Missing configuration file: {}", path.display());
            return Ok(None);
        }
        match self.file(path) {
            Ok(mut layer) => {
                layer.set("conf_file", path.display().to_string());
                Ok(Some(layer))
            }
            // As in Salt, a user who may not read the file gets the defaults, but with a warning.
            Err(Error::Read { path, source }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
                self.warnings.push(format!("config: {} is not readable, defaults are used", path.display()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn file(&mut self, path: &Path) -> Result<Opts, Error> {
        tracing::debug!(target: "salt.config", "Reading configuration from {}", path.display());
        let marked = match document(path) {
            Ok(marked) => marked,
            Err(Error::Yaml { path, source }) if is_saved_schedule(&path) => {
                return self.put_aside(&path, source);
            }
            Err(error) => return Err(error),
        };
        let mut layer = Opts::default();
        let file: Arc<Path> = path.into();
        for (name, value) in marked.value.as_map().into_iter().flatten() {
            let name = name.to_string();
            let line = marked.line(&[&name]);
            layer.origins.insert(name.clone(), Origin { file: file.clone(), line });
            layer.set(&name, value.clone());
        }
        // Each file on its own, while the lines of its options are known.
        self.check(&mut layer)?;
        Ok(layer)
    }

    /// The minion writes its own schedule; a damaged file must not keep it from starting.
    fn put_aside(&mut self, path: &Path, problem: yaml::Error) -> Result<Opts, Error> {
        let mut aside = path.as_os_str().to_owned();
        aside.push("YAMLError");
        self.warnings.push(format!("Error parsing configuration file: {} - {problem}", path.display()));
        self.warnings.push(format!("Renaming to {}", aside.display()));
        std::fs::rename(path, &aside).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Ok(Opts::default())
    }

    fn check(&mut self, layer: &mut Opts) -> Result<(), Error> {
        let names: Vec<String> = layer.map.text_keys().map(str::to_owned).collect();
        for name in names {
            let Some(types) = table::types(self.role, &name) else {
                self.warnings.extend(misspelt(&name).map(|near| {
                    let place = layer.origins.get(&name).map(|origin| format!("{origin}: ")).unwrap_or_default();
                    format!("config: {place}option '{name}' is not known. Did you mean '{near}'?")
                }));
                continue;
            };
            if types.contains(&Type::None) && !types.contains(&Type::Str) && layer.map.get_str(&name) == Some("None") {
                // Salt's own sample files write Python's `None` for YAML's null.
                layer.set(&name, Value::Null);
            }
            let value = layer.map.get(&name).unwrap_or(&Value::Null);
            match check::check(types, value) {
                Ok(()) => {}
                Err(_) if value.is_null() => self.empty(layer, &name, types),
                Err(must) => return Err(layer.wrong(&name, must)),
            }
        }
        if let Some(id) = layer.map.get("id").filter(|id| !id.is_null()) {
            // An id of digits only is a number in YAML, but an id is text everywhere else.
            let id = id.to_string();
            layer.set("id", id);
        }
        Ok(())
    }

    /// An option without a value means its default.
    fn empty(&mut self, layer: &mut Opts, name: &str, types: &[Type]) {
        if !types.contains(&Type::Str)
            && let Some(origin) = layer.origins.get(name)
        {
            self.warnings.push(format!("config: {origin}: option '{name}' is empty, its default is used"));
        }
        match table::defaults(self.role).remove(name) {
            Some(default) => drop(layer.map.insert(name, default)),
            None => drop(layer.map.remove(name)),
        }
    }

    /// Reads the files of one `include` option and merges them recursively, lists included.
    fn include(&mut self, patterns: &Value, from: &Path, verbose: bool, depth: usize) -> Result<Opts, Error> {
        if depth > MAX_INCLUDE_DEPTH {
            return Err(Error::IncludeDepth { path: from.to_owned(), limit: MAX_INCLUDE_DEPTH });
        }
        let mut all = Opts::default();
        for pattern in as_texts(patterns) {
            let pattern = absolute(&pattern, from);
            let files = glob(&pattern);
            // `default_include` is quiet: most machines have no such directory.
            if files.is_empty() && verbose {
                self.warnings.push(format!(
                    "Warning parsing configuration file: \"include\" path/glob '{pattern}' matches no files"
                ));
            }
            for file in files {
                tracing::debug!(target: "salt.config", "Including configuration from '{}'", file.display());
                let mut layer = self.file(&file)?;
                if let Some(nested) = layer.map.get("include").cloned().filter(Value::truthy) {
                    let nested = self.include(&nested, &file, verbose, depth + 1)?;
                    // An included file overrides the one that includes it, as in Salt.
                    lay_over(&mut layer, nested);
                }
                merge(&mut all, layer);
            }
        }
        Ok(all)
    }
}

/// Returns the option that was probably meant by an unknown one. Operators keep custom keys in these files, which
/// modules and `config.get` read, so only names that are very similar to an option count.
fn misspelt(name: &str) -> Option<&'static str> {
    /// Shorter names are like too many words, such as `users`.
    const SHORTEST: usize = 8;
    /// Shorter ones without which nothing works as it should, and that are not like other words.
    const SHORT: [&str; 4] = ["beacons", "engines", "master", "reactor"];
    // Names with a dot or a colon belong to modules.
    if name.starts_with('_') || name.contains(['.', ':']) {
        return None;
    }
    if name.len() < SHORTEST {
        return value::near::nearest_within(name, SHORT, 1);
    }
    let slips = if name.len() < 12 { 1 } else { 2 };
    let known = table::names(Role::Master).chain(table::names(Role::Minion));
    value::near::nearest_within(name, known.filter(|name| name.len() >= SHORTEST), slips)
}

fn is_saved_schedule(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.ends_with("_schedule.conf"))
}

fn document(path: &Path) -> Result<yaml::Marked, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let name = path.display().to_string();
    let mut marked =
        yaml::load_with_marks(&text, &name).map_err(|source| Error::Yaml { path: path.to_owned(), source })?;
    match &marked.value {
        Value::Map(_) => Ok(marked),
        // An empty file, or one with only comments, is null in YAML.
        other if !other.truthy() => {
            marked.value = Map::new().into();
            Ok(marked)
        }
        other => Err(Error::NotAMap { path: path.to_owned(), kind: other.type_name() }),
    }
}

fn as_texts(value: &Value) -> Vec<String> {
    match value {
        Value::Str(text) if !text.is_empty() => vec![text.clone()],
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        _ => Vec::new(),
    }
}

fn absolute(pattern: &str, from: &Path) -> String {
    let pattern = expand_home(pattern);
    if pattern.starts_with('/') {
        return pattern;
    }
    let base: PathBuf = from.parent().unwrap_or(Path::new("")).join(pattern);
    base.display().to_string()
}

/// Merges the options of one layer over another; each option is replaced as a whole.
fn lay_over(under: &mut Opts, over: Opts) {
    under.map.update(over.map);
    under.origins.extend(over.origins);
}

fn merge(all: &mut Opts, layer: Opts) {
    for (name, value) in layer.map {
        let schedule = name == Value::from("schedule");
        match (all.map.get_value_mut(&name), value) {
            // A job of the same name is replaced, not merged.
            (Some(Value::Map(old)), Value::Map(new)) if schedule => old.update(new),
            (Some(old), new) => merge_value(old, new),
            (None, new) => drop(all.map.insert(name, new)),
        }
    }
    all.origins.extend(layer.origins);
}

fn merge_value(old: &mut Value, new: Value) {
    match (old, new) {
        (Value::Map(old), Value::Map(new)) => {
            for (key, item) in new {
                match old.get_value_mut(&key) {
                    Some(known) => merge_value(known, item),
                    None => drop(old.insert(key, item)),
                }
            }
        }
        (Value::List(old), Value::List(new)) => {
            // Two files that list the same entry give one entry.
            let fresh: Vec<Value> = new.into_iter().filter(|item| !old.contains(item)).collect();
            old.extend(fresh);
        }
        (old, new) => *old = new,
    }
}
