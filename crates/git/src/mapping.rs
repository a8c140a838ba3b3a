//! Maps references of a remote to environments, and environments to paths.

use std::collections::{BTreeMap, BTreeSet};

use targeting::{Glob, PyRegex};

use crate::remote::RefType;
use crate::{Remote, Role, values};

impl Remote {
    /// Returns the branch, tag or commit of an environment; `None` if the environment is not served.
    pub fn reference<'a>(&'a self, env: &'a str) -> Option<&'a str> {
        if let Some(reference) = &self.all_saltenvs {
            return Some(reference);
        }
        // Before the options of environments: a `ref` for `base` has already become the option `base`.
        if env == "base" {
            return Some(&self.base);
        }
        let own = self.of_env(env, |env| env.reference.as_deref());
        if self.disable_saltenv_mapping { own } else { own.or(Some(env)) }
    }

    /// Returns the directory of the repository that an environment serves.
    pub fn root_in(&self, env: &str) -> &str {
        self.of_env(env, |env| env.root.as_deref()).unwrap_or(&self.root).trim_end_matches('/')
    }

    /// Returns the mountpoint of an environment.
    pub fn mountpoint_in(&self, env: &str) -> &str {
        self.of_env(env, |env| env.mountpoint.as_deref()).unwrap_or(&self.mountpoint).trim_end_matches('/')
    }

    /// Returns an option of an environment, from the remote or else from the options for all remotes.
    fn of_env<'a, T: ?Sized>(&'a self, env: &str, pick: impl Fn(&'a crate::SaltEnv) -> Option<&'a T>) -> Option<&'a T> {
        // Only gitfs has options per environment.
        if self.role != Role::GitFs {
            return None;
        }
        let own = self.saltenv.get(env).and_then(&pick);
        own.or_else(|| self.global_saltenv.get(env).and_then(&pick))
    }

    /// Returns whether an environment is served at all.
    pub fn is_exposed(&self, env: &str) -> bool {
        is_listed(env, &self.saltenv_whitelist, &self.saltenv_blacklist)
    }

    /// Returns the names of the environments of these references.
    pub fn envs<'a>(&self, refs: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        let mapped = self.mapped();
        let mut envs = BTreeSet::new();
        // A commit is not among the references, so its environment is added here.
        if values::is_hex(&self.base) {
            envs.insert("base".to_owned());
        }
        for name in refs {
            let name = name.strip_prefix("refs/").unwrap_or(name);
            let Some((kind, name)) = name.split_once('/') else { continue };
            let name = match kind {
                // In `remotes/origin/main` the remote's name is not part of the branch.
                "remotes" if self.ref_types.contains(&RefType::Branch) => {
                    name.split_once('/').map_or(name, |(_, name)| name)
                }
                "tags" if self.ref_types.contains(&RefType::Tag) => name,
                _ => continue,
            };
            match mapped.get(name) {
                Some(named) => envs.extend(named.iter().map(|env| (*env).to_owned())),
                None if name == self.base => drop(envs.insert("base".to_owned())),
                None if !self.disable_saltenv_mapping => drop(envs.insert(name.to_owned())),
                None => {}
            }
        }
        // Environments mapped to a commit: no reference has its name.
        envs.extend(mapped.values().flatten().map(|env| (*env).to_owned()));
        // The lists apply to names of environments, not to branches.
        envs.retain(|env| self.is_exposed(env));
        envs
    }

    /// Returns the environments by the reference that they are mapped to.
    fn mapped(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut mapped: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let own = |env: &String| self.saltenv.get(env).is_some_and(|own| own.reference.is_some());
        let global = self.global_saltenv.iter().filter(|(env, _)| !own(env));
        for (env, conf) in self.saltenv.iter().chain(global) {
            if let Some(reference) = &conf.reference {
                mapped.entry(reference).or_default().push(env);
            }
        }
        mapped
    }
}

/// Returns whether a name is allowed: by the first list, if it has entries, and not by the second.
pub fn is_listed(name: &str, whitelist: &[String], blacklist: &[String]) -> bool {
    let matches = |patterns: &[String]| patterns.iter().any(|pattern| matches(name, pattern));
    (whitelist.is_empty() || matches(whitelist)) && !matches(blacklist)
}

/// Returns whether a name matches a glob or a regular expression.
fn matches(name: &str, pattern: &str) -> bool {
    Glob::new(pattern).matches(name) || PyRegex::whole(pattern).is_ok_and(|regex| regex.is_match(name))
}
