//! Gathers high data: the SLS files a minion gets from top files, their data, and what they include.

mod include;
mod merge_tops;
mod sources;
mod top;

use targeting::fnmatch;
use value::{Map, Value};

use crate::{declare, high};

pub use sources::{Failed, Sls, Sources};
pub use top::{Minion, TopError, only, verify};

/// The `order` of the first state without an explicit one. As in Salt, smaller numbers are left for explicit orders,
/// which therefore come first.
const FIRST_ORDER: i64 = 10_000;

/// The largest depth of includes.
const DEEPEST: usize = 300;

/// Settings that affect gathering.
#[derive(Clone, Debug)]
pub struct Options {
    /// The only environment of the run (`saltenv`), if set.
    pub saltenv: Option<String>,
    /// The environment whose top file is the only one used (`state_top_saltenv`).
    pub state_top_saltenv: Option<String>,
    /// The merging strategy: `merge`, `merge_all` or `same`.
    pub top_file_merging_strategy: String,
    /// The environment whose top file replaces missing ones with `same` (`default_top`).
    pub default_top: String,
    /// The environments whose top files are read, in order (`env_order`).
    pub env_order: Vec<String>,
    /// True if states run in file order (`state_auto_order`).
    pub state_auto_order: bool,
    /// True if the states of `master_tops` come first (`master_tops_first`).
    pub master_tops_first: bool,
}

impl Options {
    /// Reads the settings from a minion's options.
    pub fn new(opts: &Map) -> Self {
        let text = |key: &str| opts.get_str(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let flag = |key: &str, default: bool| opts.get(key).map_or(default, Value::truthy);
        let order = opts.get("env_order").and_then(Value::as_list).unwrap_or_default();
        Options {
            saltenv: text("saltenv"),
            state_top_saltenv: text("state_top_saltenv"),
            top_file_merging_strategy: text("top_file_merging_strategy").unwrap_or_else(|| "merge".into()),
            default_top: text("default_top").unwrap_or_else(|| "base".into()),
            env_order: order.iter().map(Value::to_string).collect(),
            state_auto_order: flag("state_auto_order", true),
            master_tops_first: flag("master_tops_first", false),
        }
    }
}

/// Environments with the SLS names, or patterns, that a minion gets.
pub type Matches = Map;

/// Gathers the high data of one run.
pub struct Gatherer<'a> {
    sources: &'a dyn Sources,
    options: Options,
    next_order: i64,
    /// The files rendered so far, as `saltenv:sls`.
    rendered: std::collections::HashSet<String>,
    /// The SLS names of each environment, cached on first use.
    available: indexmap::IndexMap<String, Vec<String>>,
    envs: Option<Vec<String>>,
}

impl<'a> Gatherer<'a> {
    /// Creates a gatherer for a source.
    pub fn new(sources: &'a dyn Sources, options: Options) -> Self {
        Gatherer {
            sources,
            options,
            next_order: FIRST_ORDER,
            rendered: std::collections::HashSet::new(),
            available: indexmap::IndexMap::new(),
            envs: None,
        }
    }

    /// Returns the environments, always including `base`.
    pub fn envs(&mut self) -> Result<Vec<String>, String> {
        if let Some(envs) = &self.envs {
            return Ok(envs.clone());
        }
        let theirs = self.sources.envs()?;
        let mut order: Vec<String> = Vec::new();
        for env in &self.options.env_order {
            if !order.contains(env) {
                order.push(env.clone());
            }
        }
        // `env_order` not only sorts the environments but also restricts them to those it lists.
        let envs = match (order.is_empty(), theirs.is_empty()) {
            (false, false) => order.into_iter().filter(|env| theirs.contains(env)).collect(),
            (false, true) => order,
            (true, _) => {
                let mut envs = vec!["base".to_owned()];
                envs.extend(theirs.into_iter().filter(|env| env != "base"));
                envs
            }
        };
        self.envs = Some(envs.clone());
        Ok(envs)
    }

    fn has_env(&mut self, saltenv: &str) -> Result<bool, String> {
        Ok(saltenv == "base" || self.envs()?.iter().any(|env| env == saltenv))
    }

    /// Returns the SLS names of an environment.
    pub fn states(&mut self, saltenv: &str) -> Result<&[String], String> {
        if !self.available.contains_key(saltenv) {
            let states = self.sources.states(saltenv)?;
            self.available.insert(saltenv.to_owned(), states);
        }
        Ok(&self.available[saltenv])
    }

    /// Returns the SLS names of an environment that match a pattern.
    fn fitting(&mut self, saltenv: &str, pattern: &str) -> Result<Vec<String>, String> {
        let states = self.states(saltenv)?;
        Ok(states.iter().filter(|sls| fnmatch(sls, pattern)).cloned().collect())
    }

    /// Renders everything a minion gets and merges it. Returns the high data and the errors.
    pub fn high(&mut self, matches: &Matches) -> (Map, Vec<String>) {
        let mut high = Map::new();
        let mut all_errors = Vec::new();
        for (saltenv, states) in matches {
            let saltenv = saltenv.to_string();
            for pattern in states.as_list().unwrap_or_default() {
                let pattern = pattern.to_string();
                match self.pattern(&saltenv, &pattern, matches, &mut high) {
                    Ok(errors) => all_errors.extend(errors),
                    Err(error) => all_errors.push(error),
                }
            }
        }
        high::clean_duplicate_extends(&mut high);
        (high, all_errors)
    }

    fn pattern(
        &mut self,
        saltenv: &str,
        pattern: &str,
        matches: &Matches,
        high: &mut Map,
    ) -> Result<Vec<String>, String> {
        let mut all_errors = Vec::new();
        let place = if self.has_env(saltenv)? {
            Some(saltenv)
        } else if self.has_env("__env__")? {
            Some("__env__")
        } else {
            all_errors.push(format!("No matching salt environment for environment '{saltenv}' found"));
            None
        };
        let mut files = match place {
            Some(place) => self.fitting(place, pattern)?,
            None => Vec::new(),
        };
        if files.is_empty() {
            // A file that is not listed may still exist.
            files.push(pattern.to_owned());
        }
        for sls in files {
            // An earlier file may have included this one.
            if self.rendered.contains(&format!("{saltenv}:{sls}")) {
                continue;
            }
            let (state, mut errors) = self.sls(&sls, saltenv, matches);
            if !state.is_empty() {
                high::merge_included_states(high, state, &mut errors);
            }
            // Only the message about this very file is replaced; the same error about one of its includes keeps its
            // text.
            let this = format!("SLS {pattern} in saltenv");
            for error in &mut errors {
                if error.contains("is not available") && error.contains(&this) {
                    *error = format!("No matching sls found for '{pattern}' in env '{saltenv}'");
                }
            }
            all_errors.extend(errors);
        }
        Ok(all_errors)
    }

    /// Adds rendered data that is not a file of the server (`state.template`). `sls` is its name.
    pub fn template(&mut self, data: Value, sls: &str, saltenv: &str) -> (Map, Vec<String>) {
        let file = Sls { data, is_init: false };
        self.take(file, sls, saltenv, &Map::new(), 0)
    }

    /// Adds the declarations of one file. Returns its includes.
    fn declared(&mut self, state: &mut Map, place: declare::Place, errors: &mut Vec<String>) -> Vec<Value> {
        let include = match state.remove("include") {
            None => Vec::new(),
            Some(Value::List(include)) => include,
            Some(other) => {
                errors.push(format!("Include Declaration in SLS {} is not formed as a list", place.sls));
                // As in Salt, a malformed list stays in the data and is then taken for an ID.
                state.insert("include", other);
                Vec::new()
            }
        };
        declare::extend(state, place, errors);
        declare::exclude(state, place, errors);
        declare::states(state, place, errors);
        include
    }
}
