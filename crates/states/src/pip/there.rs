//! Checks whether a Python package is installed as requested.

use std::cmp::Ordering;

use exec::{Context, Result};
use modules::pip::pep440::{self, Condition, Requirement};
use value::{Map, Value, map};

use crate::args;
use crate::support::{call, call_with_kwargs, over};

/// A requested package.
pub struct RequestedPackage {
    /// Its normalized name; empty for addresses that do not contain it.
    pub prefix: String,
    /// The requirement as it was written.
    pub text: String,
    /// The conditions on the version.
    pub conditions: Vec<Condition>,
}

const VCS: [&str; 4] = ["git+", "svn+", "hg+", "bzr+"];

impl RequestedPackage {
    /// Reads a requirement. The inner error is the comment on a wrong one.
    pub fn read(ctx: &Context, text: &str) -> Result<std::result::Result<RequestedPackage, String>> {
        let found = match pep440::requirement(text) {
            Ok(found) => found,
            // An address of a version control system names its package only behind `#egg=`, if at
            // all.
            Err(_) if VCS.iter().any(|vcs| text.starts_with(vcs)) => Requirement::default(),
            // The most common mistake gets a specific message.
            Err(_) if text.contains('=') && !text.contains("==") => {
                let comment =
                    format!("Invalid version specification in package {text}. '=' is not supported, use '==' instead.");
                return Ok(Err(comment));
            }
            Err(why) => return Ok(Err(format!("pip raised an exception while parsing '{text}': {why}"))),
        };
        let Requirement { name, conditions } = found;
        let prefix = match name {
            Some(name) => call(ctx, "pip.normalize", args![name], Map::new())?.to_string(),
            None => String::new(),
        };
        Ok(Ok(RequestedPackage { prefix, text: text.to_owned(), conditions }))
    }
}

/// The arguments for looking at installed packages.
pub struct Look {
    pub place: Map,
    pub index: Map,
    pub kwargs: Map,
    pub ignore_installed: Value,
    pub force_reinstall: Value,
    pub upgrade: bool,
}

/// Finds a package by its name, without regard to upper and lower case.
pub fn version_in(list: &Value, name: &str) -> Option<String> {
    let list = list.as_map()?;
    let found = list.iter().find(|(known, _)| known.to_string().eq_ignore_ascii_case(name));
    found.map(|(_, version)| version.to_string())
}

impl Look {
    /// Returns the comment on a package that is installed as requested, or None if it must be installed.
    pub fn satisfied(&self, ctx: &Context, wanted: &RequestedPackage, listed: &Value) -> Result<Option<String>> {
        let asked;
        // Listing everything failed before, so only this package is queried.
        let listed = if listed.truthy() {
            listed
        } else {
            asked = call(ctx, "pip.list", args![wanted.prefix.as_str()], over(self.place.clone(), &self.kwargs))?;
            &asked
        };
        // Salt compares with `is False`. Any other value, None as well, counts as on.
        let off = |value: &Value| *value == Value::Bool(false);
        let Some(version) = version_in(listed, &wanted.prefix).filter(|_| off(&self.ignore_installed)) else {
            return Ok(None);
        };
        if !off(&self.force_reinstall) {
            return Ok(None);
        }
        let there = format!("Python package {} was already installed", wanted.text);
        if !self.upgrade {
            return Ok(fulfils(&version, &wanted.conditions).then_some(there));
        }
        // No available version fulfils the conditions, so the installed one must do.
        let Some(newest) = self.newest(ctx, wanted)? else {
            let text = "was already installed and\nthe available upgrade doesn't fulfills the version requirements";
            return Ok(Some(format!("Python package {} {text}", wanted.prefix)));
        };
        Ok((pep440::compare(&version, &newest) == Some(Ordering::Equal)).then_some(there))
    }

    /// Returns the newest available version that fulfils the conditions.
    fn newest(&self, ctx: &Context, wanted: &RequestedPackage) -> Result<Option<String>> {
        let named = |kind: &str| wanted.conditions.iter().any(|(_, version)| version.contains(kind));
        let early = map! {
            // Early versions are only considered if the wanted version is one itself.
            "include_alpha" => named("a"), "include_beta" => named("b"), "include_rc" => named("rc"),
        };
        let mut kwargs = over(early, &self.place);
        // `pip.list_all_versions` does not know the argument.
        kwargs.remove("env_vars");
        kwargs.update(self.index.clone());
        let versions = call(ctx, "pip.list_all_versions", args![wanted.prefix.as_str()], kwargs)?;
        let versions = versions.into_list().unwrap_or_default();
        let mut newest_first = versions.iter().rev().map(Value::to_string);
        Ok(newest_first.find(|version| fulfils(version, &wanted.conditions)))
    }
}

/// Returns whether an installed or offered version fulfils all conditions; pre-releases count as others do.
fn fulfils(version: &str, conditions: &[Condition]) -> bool {
    conditions.iter().all(|condition| pep440::meets(version, condition))
}

/// Lists the packages of a place. After a warning None, and then packages are queried one by one.
pub fn listed(ctx: &Context, place: &Map) -> Result<Value> {
    match call_with_kwargs(ctx, "pip.list", place.clone()) {
        Err(error) => {
            tracing::warn!("installed Python packages cannot be listed: {error}");
            Ok(Value::Bool(false))
        }
        listed => listed,
    }
}
