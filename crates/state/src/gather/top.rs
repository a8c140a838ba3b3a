//! Top files: which states apply to a minion.

use std::collections::HashSet;

use targeting::{Compiled, Facts, TargetType};
use value::{Map, Value, list};

use super::merge_tops::{Tops, merge};
use super::{Failed, Gatherer, Matches};

/// The minion that top files are matched against.
#[derive(Clone, Copy)]
pub struct Minion<'a> {
    /// The minion id.
    pub id: &'a str,
    /// The grains.
    pub grains: &'a Map,
    /// The pillar.
    pub pillar: &'a Map,
    /// The option `nodegroups`.
    pub nodegroups: Option<&'a Map>,
}

/// The reasons why there is no data from top files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopError {
    /// A top file does not render or is malformed.
    Render(String),
    /// The source of the files is unavailable.
    Unreachable(String),
}

impl std::fmt::Display for TopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TopError::Render(why) | TopError::Unreachable(why) => f.write_str(why),
        }
    }
}

impl Gatherer<'_> {
    /// Returns the top data: environments with targets and their states.
    ///
    /// # Errors
    /// Fails if a top file does not render or is unavailable.
    pub fn top(&mut self) -> Result<Map, TopError> {
        let mut tops = Tops::new();
        for env in self.top_envs()? {
            let top = self.sources.top(&env).map_err(TopError::Render)?;
            let top = match top {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Map(top)) => top,
                Some(_) => return Err(TopError::Render(format!("The top file of '{env}' is not a dictionary"))),
            };
            tops.insert(env, vec![top]);
        }
        self.include_tops(&mut tops)?;
        merge(tops, &self.options.top_file_merging_strategy, &self.options.default_top).map_err(TopError::Render)
    }

    fn top_envs(&mut self) -> Result<Vec<String>, TopError> {
        match self.options.saltenv.clone().or_else(|| self.options.state_top_saltenv.clone()) {
            Some(only) => Ok(vec![only]),
            None => self.envs().map_err(TopError::Unreachable),
        }
    }

    /// Adds the top files that others include, each only once.
    fn include_tops(&mut self, tops: &mut Tops) -> Result<(), TopError> {
        let envs: Vec<String> = tops.keys().cloned().collect();
        for env in envs {
            let mut done = HashSet::new();
            let mut next = 0;
            while let Some(top) = tops[&env].get(next) {
                // As in Salt, an included top file cannot include others.
                let include = if next == 0 { top.get("include").cloned() } else { None };
                next += 1;
                for pattern in include.and_then(Value::into_list).unwrap_or_default() {
                    let files = self.fitting(&env, &pattern.to_string()).map_err(TopError::Unreachable)?;
                    for sls in files.into_iter().filter(|sls| done.insert(sls.clone())) {
                        match self.sources.render(&sls, &env) {
                            Ok(file) => tops[&env].push(file.data.into_map().unwrap_or_default()),
                            Err(Failed::Render(why)) => return Err(TopError::Render(why)),
                            Err(Failed::Unreachable(why)) => return Err(TopError::Unreachable(why)),
                            // The pattern only matched names that were listed; the file may have vanished since.
                            Err(Failed::NotFound) => {}
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the states of the minion from the top data and from `master_tops`.
    ///
    /// # Errors
    /// Fails if the master cannot be reached.
    pub fn matches(&mut self, top: &Map, minion: Minion<'_>) -> Result<Matches, String> {
        let mut matches = Map::new();
        let saltenv = self.options.saltenv.clone();
        for (env, targets) in top {
            if saltenv.as_deref().is_some_and(|only| env.as_str() != Some(only)) {
                continue;
            }
            for (target, states) in targets.as_map().into_iter().flatten() {
                // Subfilters are targets below a target. A stack replaces recursion, because their depth comes from the
                // file.
                let mut waiting = vec![(target.clone(), states.clone())];
                while let Some((target, states)) = waiting.pop() {
                    let states = match states {
                        Value::List(states) => states,
                        one => vec![one],
                    };
                    if is_meant(&target, &states, minion) {
                        waiting.extend(self.add_states(&mut matches, env, &states)?);
                    }
                }
            }
        }
        self.add_master_tops(&mut matches)?;
        Ok(matches)
    }

    /// Adds the states of a target that matches the minion. Returns its nested targets.
    fn add_states(
        &mut self,
        matches: &mut Matches,
        env: &Value,
        states: &[Value],
    ) -> Result<Vec<(Value, Value)>, String> {
        matches.entry_or_insert_with(env.clone(), || list![]);
        let mut below = Vec::new();
        for state in states {
            match state {
                Value::Str(_) => push(matches, env, state),
                Value::Map(map) => {
                    for (target, states) in map.get("subfilter").and_then(Value::as_map).into_iter().flatten() {
                        below.push((target.clone(), states.clone()));
                    }
                    // As with Python's `popitem`, the last entry is an environment and its state. Matchers such as
                    // `match: grain` look the same, but do not name an environment.
                    let last = map.iter().rfind(|(key, _)| key.as_str() != Some("subfilter"));
                    if let Some((Value::Str(other), sls)) = last
                        && self.has_env(other)?
                    {
                        push(matches, &other.into(), sls);
                    }
                }
                _ => {}
            }
        }
        // The last entry is taken from the stack first.
        below.reverse();
        Ok(below)
    }

    fn add_master_tops(&mut self, matches: &mut Matches) -> Result<(), String> {
        for (env, states) in self.sources.master_tops()? {
            let theirs = states.into_list().unwrap_or_default();
            let ours = matches.get_value(&env).and_then(Value::as_list).map(<[Value]>::to_vec).unwrap_or_default();
            // Duplicates are removed from the second list only, so the first keeps its order.
            let (mut first, second) = if self.options.master_tops_first { (theirs, ours) } else { (ours, theirs) };
            let more: Vec<Value> = second.into_iter().filter(|sls| !first.contains(sls)).collect();
            first.extend(more);
            matches.insert(env, Value::List(first));
        }
        Ok(())
    }

    /// Returns, for each environment, the states the minion gets and those it does not.
    pub fn usage(&mut self, matches: &Matches) -> Result<Map, String> {
        let mut usage = Map::new();
        let mut envs = self.envs()?;
        if !envs.iter().any(|env| env == "base") {
            envs.insert(0, "base".into());
        }
        for env in envs {
            let wanted = matches.get(&env).and_then(Value::as_list).unwrap_or_default();
            let states = self.states(&env)?;
            let (used, unused): (Vec<&String>, Vec<&String>) =
                states.iter().partition(|sls| wanted.iter().any(|wanted| wanted.as_str() == Some(sls)));
            let (all, counts) = (states.len(), (used.len(), unused.len()));
            let names = |list: Vec<&String>| list.into_iter().map(String::as_str).collect::<Value>();
            usage.insert(
                env,
                value::map! {
                    "used" => names(used), "unused" => names(unused),
                    "count_all" => all, "count_used" => counts.0, "count_unused" => counts.1,
                },
            );
        }
        Ok(usage)
    }
}

fn push(matches: &mut Matches, env: &Value, sls: &Value) {
    if let Value::List(states) = matches.entry_or_insert_with(env.clone(), || list![]) {
        states.push(sls.clone());
    }
}

/// Returns whether a target of a top file matches the minion. The matcher is given among the states; the default is
/// `compound`.
fn is_meant(target: &Value, states: &[Value], minion: Minion) -> bool {
    // As in Salt, the last `match` wins.
    let named = states.iter().rev().find_map(|state| state.get("match"));
    let name = named.map_or_else(|| "compound".to_owned(), Value::to_string);
    let kind = match TargetType::from_name(&name) {
        Ok(kind) => kind,
        Err(_) => {
            tracing::error!("Attempting to match with unknown matcher: {name}");
            return false;
        }
    };
    let around = targeting::Context { nodegroups: minion.nodegroups, ..targeting::Context::default() };
    match Compiled::new(target, kind, &around) {
        Ok(compiled) => compiled.matches(&Facts { id: minion.id, grains: minion.grains, pillar: minion.pillar }),
        Err(error) => {
            tracing::error!("failed to read the {name} target {target} of a top file: {error}");
            false
        }
    }
}

/// Returns the errors in the structure of the top data, in Salt's words.
pub fn verify(top: &Map) -> Vec<String> {
    let mut errors = Vec::new();
    for (env, targets) in top.iter().filter(|(env, _)| env.as_str() != Some("include")) {
        if env.as_str().is_none() {
            errors.push(format!("Environment {env} in top file is not formed as a string"));
        }
        if env.as_str() == Some("") {
            errors.push("Empty saltenv statement in top file".into());
        }
        let Some(targets) = targets.as_map() else {
            errors.push(format!("The top file matches for saltenv {env} are not formatted as a dict"));
            continue;
        };
        for (target, states) in targets {
            let Some(states) = states.as_list() else {
                errors.push(format!(
                    "Malformed topfile: state declarations for matcher {} in saltenv {} are not formed as a list (got {})",
                    value::python::repr(target),
                    value::python::repr(env),
                    states.type_name()
                ));
                continue;
            };
            errors.extend(states.iter().flat_map(|state| verify_state(env, state)));
        }
    }
    errors
}

fn verify_state(env: &Value, state: &Value) -> Vec<String> {
    match state {
        Value::Map(map) => {
            let empty = map.values().filter(|value| !value.truthy());
            empty
                .map(|value| format!("Improperly formatted top file matcher in saltenv {state}: {value} file"))
                .collect()
        }
        Value::Str(sls) if sls.is_empty() => vec![format!("Environment {env} contains an empty sls index")],
        _ => Vec::new(),
    }
}

/// Keeps only the states that a list names.
pub fn only(matches: Matches, whitelist: &[String]) -> Matches {
    if whitelist.is_empty() {
        return matches;
    }
    let mut kept = Map::new();
    for (env, states) in &matches {
        for sls in states.as_list().unwrap_or_default() {
            if whitelist.iter().any(|wanted| sls.as_str() == Some(wanted)) {
                push(&mut kept, env, sls);
            }
        }
    }
    kept
}
