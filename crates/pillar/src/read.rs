//! Reading one SLS file.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use value::{Map, Value};

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadError {
    pub text: String,
    /// The file is good but asks for something that is missing here; that may be told to anyone.
    pub unsupported: bool,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Files that were parsed, with what tells that they changed.
#[derive(Default)]
pub(crate) struct Parsed(Mutex<HashMap<PathBuf, (Stamp, Content)>>);

type Content = Arc<Result<Value, ReadError>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    inode: u64,
    len: u64,
}

impl Parsed {
    /// Returns what is in a file. Nothing, white space or comments alone are an empty map.
    pub fn read(&self, path: &Path, renderer: &str) -> Content {
        let stamp = match std::fs::metadata(path) {
            Ok(state) => Stamp { modified: state.modified().ok(), inode: state.ino(), len: state.len() },
            Err(error) => return Arc::new(Err(failed(path, &error))),
        };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, content)) = lock().get(path).filter(|(known, _)| *known == stamp) {
            return Arc::clone(content);
        }
        let content = Arc::new(read(path, renderer));
        lock().insert(path.to_owned(), (stamp, Arc::clone(&content)));
        content
    }
}

fn failed(path: &Path, error: &std::io::Error) -> ReadError {
    ReadError { text: format!("failed to read {}: {error}", path.display()), unsupported: false }
}

fn read(path: &Path, renderer: &str) -> Result<Value, ReadError> {
    let bytes = std::fs::read(path).map_err(|error| failed(path, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        ReadError { text: format!("{} is not valid UTF-8 at byte {at}", path.display()), unsupported: false }
    })?;
    parse(&text, path, renderer)
}

fn parse(text: &str, path: &Path, renderer: &str) -> Result<Value, ReadError> {
    if text.trim().is_empty() {
        return Ok(Map::new().into());
    }
    check_renderers(text, path, renderer)?;
    let value = yaml::load(text, yaml::UNNAMED).map_err(|error| in_salts_words(&error))?;
    if !value.truthy() {
        return Ok(Map::new().into());
    }
    if has_map_for_key(&value) {
        return Err(ReadError { text: "Invalid YAML, possible double curly-brace".into(), unsupported: false });
    }
    Ok(value)
}

/// Refuses whatever is more than YAML: other renderers, and templates where templates are looked for.
fn check_renderers(text: &str, path: &Path, renderer: &str) -> Result<(), ReadError> {
    let first = text.lines().next().unwrap_or_default();
    let named = first.strip_prefix("#!").filter(|pipe| !pipe.starts_with('/')).map(str::trim);
    let pipe = named.unwrap_or(renderer);
    let unsupported = |what: String| {
        Err(ReadError { text: format!("not supported: {what} in {}", path.display()), unsupported: true })
    };
    // An older way to write it.
    let pipe = if pipe == "yaml_jinja" { "jinja|yaml" } else { pipe };
    let parts: Vec<&str> = pipe.split('|').map(|part| part.split_whitespace().next().unwrap_or_default()).collect();
    if let Some(other) = parts.iter().find(|part| !matches!(**part, "jinja" | "yaml")) {
        return unsupported(format!("the renderer '{other}'"));
    }
    if parts.last() != Some(&"yaml") {
        return unsupported(format!("the renderers '{pipe}'"));
    }
    if !parts.contains(&"jinja") {
        return Ok(());
    }
    let line = text.lines().position(|line| ["{{", "{%", "{#"].iter().any(|sign| line.contains(sign)));
    match line {
        Some(line) => unsupported(format!("a Jinja template (line {})", line + 1)),
        None => Ok(()),
    }
}

/// What the scanner finds Salt shows without the place, the rest in full.
fn in_salts_words(error: &yaml::Error) -> ReadError {
    let text = match error.kind {
        yaml::Kind::Scanner if error.problem == "found character '\\t' that cannot start any token" => {
            "Illegal tab character".to_owned()
        }
        yaml::Kind::Scanner => error.problem.clone(),
        _ => error.to_string(),
    };
    ReadError { text, unsupported: false }
}

fn has_map_for_key(value: &Value) -> bool {
    match value {
        Value::Map(map) => map.iter().any(|(key, value)| matches!(key, Value::Map(_)) || has_map_for_key(value)),
        Value::List(items) => items.iter().any(has_map_for_key),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> ReadError {
        parse(text, Path::new("/srv/pillar/x.sls"), "jinja|yaml").unwrap_err()
    }

    #[test]
    fn what_needs_more_than_yaml_is_refused_by_name() {
        for (text, expected) in [
            ("a: 1\nb: {{ x }}\n", "not supported: a Jinja template (line 2) in /srv/pillar/x.sls"),
            ("{% set x = 1 %}\n", "not supported: a Jinja template (line 1) in /srv/pillar/x.sls"),
            ("#!py\n", "not supported: the renderer 'py' in /srv/pillar/x.sls"),
            ("#!mako|yaml\na: 1", "not supported: the renderer 'mako' in /srv/pillar/x.sls"),
            ("#!jinja|yaml|gpg\na: 1", "not supported: the renderer 'gpg' in /srv/pillar/x.sls"),
            ("#!jinja\na: 1", "not supported: the renderers 'jinja' in /srv/pillar/x.sls"),
        ] {
            let error = error(text);
            assert!(error.unsupported);
            assert_eq!(error.text, expected);
        }
    }

    #[test]
    fn plain_yaml_passes_under_any_of_its_names() {
        for text in ["a: 1", "#!yaml\na: 1", "#!jinja|yaml\na: 1", "#!yaml_jinja\na: 1", "#!/bin/sh\na: 1"] {
            assert_eq!(parse(text, Path::new("x"), "jinja|yaml").unwrap().get("a"), Some(&Value::Int(1)), "{text}");
        }
        assert_eq!(
            parse("#!yaml\na: '{{ x }}'", Path::new("x"), "jinja|yaml").unwrap().get("a"),
            Some(&"{{ x }}".into())
        );
        assert_eq!(parse("# nothing\n", Path::new("x"), "yaml").unwrap(), Map::new().into());
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sls");
        let parsed = Parsed::default();
        for content in ["a: 1", "a: 22"] {
            std::fs::write(&path, content).unwrap();
            let first = parsed.read(&path, "yaml");
            assert_eq!(first.as_ref().as_ref().unwrap(), &yaml::load(content, "x").unwrap());
            assert!(Arc::ptr_eq(&first, &parsed.read(&path, "yaml")));
        }
    }
}
