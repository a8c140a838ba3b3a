//! Determines the renderers of a text.

use value::{Map, Value};

use crate::Error;

/// A renderer with its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name, such as `jinja`.
    pub name: String,
    /// The rest of the line after the name; may be empty.
    pub argline: String,
}

/// The permitted renderers (options `renderer_whitelist` and `renderer_blacklist`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Only these, if there are any.
    pub only: Vec<String>,
    /// Never these.
    pub never: Vec<String>,
}

impl Limits {
    /// Reads the options.
    pub fn of(opts: &Map) -> Self {
        let names = |option: &str| match opts.get(option) {
            Some(Value::List(items)) => items.iter().map(Value::to_string).collect(),
            _ => Vec::new(),
        };
        Limits { only: names("renderer_whitelist"), never: names("renderer_blacklist") }
    }

    fn allow(&self, name: &str) -> bool {
        let is = |known: &String| known == name;
        (self.only.is_empty() || self.only.iter().any(is)) && !self.never.iter().any(is)
    }
}

/// The supported renderers.
const OURS: [&str; 5] = ["gpg", "jinja", "json", "stateconf", "yaml"];

/// Salt's renderers that are not supported: they are written in Python or need it.
const PYTHONS: [&str; 14] = [
    "cheetah",
    "dson",
    "genshi",
    "hjson",
    "json5",
    "mako",
    "msgpack",
    "nacl",
    "pass",
    "py",
    "pydsl",
    "pyobjects",
    "toml",
    "wempy",
];

/// Other renderers of Salt that are not supported.
const OTHERS: [&str; 2] = ["yamlex", "aws_kms"];

/// Returns the renderers named in the first line of a text (`#!…`), or else in the default. Those that are not allowed are
/// left out, with a warning. If none is left, the text renders to nothing.
///
/// # Errors
/// For renderers of Salt that are not here. A name that Salt does not know either is logged, and then there is no renderer.
pub fn pipeline(first_line: &str, default: &str, limits: &Limits) -> Result<Vec<Step>, Error> {
    // A path such as `#!/bin/sh` belongs to the file that is rendered, not to Salt.
    let named = first_line.strip_prefix("#!").filter(|pipe| !pipe.starts_with('/')).map(str::trim);
    let pipe = named.unwrap_or(default);
    let pipe = old_style(pipe).unwrap_or_else(|| pipe.to_owned());
    let mut steps = Vec::new();
    for part in pipe.split('|').map(str::trim) {
        let (name, argline) = part.split_once(' ').unwrap_or((part, ""));
        if !limits.allow(name) {
            tracing::warn!("The renderer \"{name}\" is disallowed by configuration and will be skipped.");
        } else if OURS.contains(&name) {
            steps.push(Step { name: name.to_owned(), argline: argline.trim().to_owned() });
        } else if PYTHONS.contains(&name) || OTHERS.contains(&name) {
            return Err(Error::unsupported(format!("the renderer '{name}'")));
        } else {
            tracing::error!("The renderer \"{pipe}\" is not available");
            // Salt then renders to an empty map. Falling back to the default renderer could run a template that was
            // meant as plain text.
            return Ok(Vec::new());
        }
    }
    Ok(steps)
}

/// Returns why a default pipe cannot be used, if it cannot.
pub fn unsupported(pipe: &str) -> Option<String> {
    pipeline("", pipe, &Limits::default()).err().map(|error| error.to_string())
}

/// Translates old names such as `yaml_jinja`, from before there were pipes.
fn old_style(pipe: &str) -> Option<String> {
    let (format, template) = pipe.split_once('_')?;
    let known = matches!(format, "yaml" | "json" | "yamlex") && matches!(template, "jinja" | "mako" | "wempy");
    known.then(|| format!("{template}|{format}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Vec<String> {
        let steps = pipeline(line, "jinja|yaml", &Limits::default()).unwrap();
        steps.into_iter().map(|step| format!("{}{}", step.name, step.argline)).collect()
    }

    #[test]
    fn the_first_line_or_the_default_names_the_renderers() {
        for (line, expected) in [
            ("a: 1", vec!["jinja", "yaml"]),
            ("#!yaml", vec!["yaml"]),
            ("#! jinja | yaml | gpg ", vec!["jinja", "yaml", "gpg"]),
            ("#!jinja -s|yaml", vec!["jinja-s", "yaml"]),
            ("#!yaml_jinja", vec!["jinja", "yaml"]),
            ("#!json_jinja", vec!["jinja", "json"]),
            ("#!/bin/sh", vec!["jinja", "yaml"]),
            ("#!nothing|yaml", vec![]),
            ("#!", vec![]),
        ] {
            assert_eq!(names(line), expected, "{line}");
        }
    }

    #[test]
    fn what_needs_python_is_refused_by_name() {
        for (line, name) in [("#!py", "py"), ("#!mako|yaml", "mako")] {
            let error = pipeline(line, "jinja|yaml", &Limits::default()).unwrap_err();
            assert_eq!(error.to_string(), format!("not supported: the renderer '{name}'"));
            assert!(error.is_unsupported());
        }
    }

    #[test]
    fn a_default_that_needs_python_is_told_of() {
        assert_eq!(unsupported("jinja|yaml"), None);
        assert!(unsupported("py").unwrap().contains("'py'"));
        assert!(unsupported("jinja|pyobjects").is_some());
    }

    #[test]
    fn renderers_that_are_not_allowed_are_left_out() {
        let left = |limits: &Limits| -> Vec<String> {
            pipeline("#!jinja|yaml|py", "", limits).unwrap().into_iter().map(|step| step.name).collect()
        };
        let lists = |only: &[&str], never: &[&str]| Limits {
            only: only.iter().map(|name| (*name).to_owned()).collect(),
            never: never.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(left(&lists(&["yaml"], &[])), ["yaml"]);
        assert_eq!(left(&lists(&[], &["jinja", "py"])), ["yaml"]);
        assert_eq!(left(&lists(&["jinja", "yaml"], &["jinja"])), ["yaml"]);
    }
}
