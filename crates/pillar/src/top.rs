//! Top files: which SLS files a minion gets.

use std::collections::{HashMap, HashSet};

use config::Roots;
use targeting::{Compiled, Context, Facts, TargetType, list_match};
use value::{Map, Value, map};

use crate::Compiler;
use crate::files::Files;
use crate::read::{self, Reader};

/// The merged contents of all top files: by environment, by target, the entries.
#[derive(Default)]
pub(crate) struct Top {
    envs: Vec<(Value, Vec<Target>)>,
    /// SLS files that may be missing, by environment.
    pub may_be_missing: HashMap<String, HashSet<String>>,
}

/// A target with its entries.
struct Target {
    target: Value,
    order: i64,
    matcher: Option<Value>,
    files: Vec<String>,
}

/// The requested environments.
pub(crate) struct RequestedEnvs<'a> {
    pub saltenv: Option<&'a str>,
    pub pillarenv: Option<&'a str>,
}

/// A malformed top file. Salt fails with an error of Python there, and shows the same text.
const MALFORMED: &str = "Error encountered while rendering pillar top file.";

impl Top {
    /// Reads and merges the top files of all environments that count.
    pub fn gather(
        compiler: &Compiler,
        files: &Files,
        reader: &Reader,
        wanted: &RequestedEnvs,
        errors: &mut Vec<String>,
    ) -> Self {
        let tops = read_tops(compiler, files, reader, wanted, errors);
        let mut top = Top::default();
        for file in &tops {
            if top.add(file).is_none() {
                errors.push(MALFORMED.to_owned());
                return Top::default();
            }
        }
        for (_, targets) in &mut top.envs {
            // The sort is stable: targets of equal order keep that of the file.
            targets.sort_by_key(|target| target.order);
        }
        top
    }

    /// Returns the SLS files of a minion by environment, in order.
    pub fn matches(
        &self,
        facts: &Facts,
        groups: &Map,
        wanted: &RequestedEnvs,
        errors: &mut Vec<String>,
    ) -> Vec<(String, Vec<String>)> {
        let mut matches: Vec<(String, Vec<String>)> = Vec::new();
        for (env, targets) in &self.envs {
            let env = env.to_string();
            if wanted.pillarenv.is_some_and(|only| only != env) {
                continue;
            }
            for target in targets {
                if !target.matches_minion(facts, groups, errors) {
                    continue;
                }
                let place = matches.iter().position(|(known, _)| *known == env).unwrap_or_else(|| {
                    matches.push((env.clone(), Vec::new()));
                    matches.len() - 1
                });
                for file in &target.files {
                    if !matches[place].1.contains(file) {
                        matches[place].1.push(file.clone());
                    }
                }
            }
        }
        matches
    }

    /// Returns all entries by environment and target.
    pub fn to_map(&self) -> Map {
        let entries = |target: &Target| -> Value {
            let matcher = target.matcher.iter().map(|matcher| Value::from(map! { "match" => matcher.clone() }));
            matcher.chain(target.files.iter().map(Value::from)).collect()
        };
        let targets = |targets: &[Target]| -> Map {
            targets.iter().map(|target| (target.target.clone(), entries(target))).collect()
        };
        self.envs.iter().map(|(env, found)| (env.clone(), targets(found))).collect()
    }

    /// Adds one file; `None` if it is malformed.
    fn add(&mut self, file: &Map) -> Option<()> {
        for (env, targets) in file {
            if env.as_str() == Some("include") {
                continue;
            }
            match targets {
                Value::Map(targets) => {
                    for (target, entries) in targets {
                        self.add_target(env, target, entries)?;
                    }
                }
                // Python loops over an empty list or string without an error, but fails to look up targets in other
                // ones.
                Value::List(targets) if targets.is_empty() => {}
                Value::Str(targets) if targets.is_empty() => {}
                _ => return None,
            }
        }
        Some(())
    }

    /// A repeated target replaces its earlier entries, but keeps its place.
    fn add_target(&mut self, env: &Value, target: &Value, entries: &Value) -> Option<()> {
        let mut new = Target { target: target.clone(), order: 0, matcher: None, files: Vec::new() };
        let mut may_be_missing = false;
        for entry in in_a_loop(entries)? {
            match &entry {
                Value::Map(options) => {
                    if let Some(matcher) = options.get("match") {
                        new.matcher = Some(matcher.clone());
                    }
                    if let Some(order) = options.get("order") {
                        new.order = order_of(order)?;
                    }
                    may_be_missing |= options.get("ignore_missing").is_some_and(Value::truthy);
                }
                Value::Str(file) if !new.files.contains(file) => new.files.push(file.clone()),
                _ => {}
            }
        }
        if may_be_missing {
            self.may_be_missing.entry(env.to_string()).or_default().extend(new.files.iter().cloned());
        }
        let place = self.envs.iter().position(|(known, _)| known == env).unwrap_or_else(|| {
            self.envs.push((env.clone(), Vec::new()));
            self.envs.len() - 1
        });
        let targets = &mut self.envs[place].1;
        match targets.iter_mut().find(|known| known.target == new.target) {
            Some(known) => *known = new,
            None => targets.push(new),
        }
        Some(())
    }
}

/// As in Python, a list is iterated by items, a map by keys, and a string by characters.
fn in_a_loop(entries: &Value) -> Option<Vec<Value>> {
    match entries {
        Value::List(items) => Some(items.clone()),
        Value::Map(map) => Some(map.keys().cloned().collect()),
        Value::Str(text) => Some(text.chars().map(|letter| Value::from(letter.to_string())).collect()),
        _ => None,
    }
}

fn order_of(order: &Value) -> Option<i64> {
    match order {
        // As in Salt, an order that is not a number counts as 0.
        Value::Str(text) => Some(text.trim().parse().unwrap_or(0)),
        Value::Float(number) => Some(*number as i64),
        other => other.as_i64(),
    }
}

impl Target {
    fn matches_minion(&self, facts: &Facts, groups: &Map, errors: &mut Vec<String>) -> bool {
        // Targets of pillar top files are compound by default, as those of state top files.
        let name = self.matcher.as_ref().map_or_else(|| "compound".to_owned(), Value::to_string);
        let kind = match TargetType::from_name(&name) {
            Ok(TargetType::List) => return list_match(&self.target, facts.id),
            Ok(TargetType::CompoundPillarExact) | Err(_) => {
                errors.push(format!("Attempting to match with unknown matcher: {name}"));
                return false;
            }
            Ok(kind) => kind,
        };
        let context = Context { nodegroups: Some(groups), ..Context::default() };
        match Compiled::new(&self.target, kind, &context) {
            Ok(compiled) => compiled.matches(facts),
            Err(error) => {
                tracing::error!(minion = facts.id, "pillar top file: {error}");
                false
            }
        }
    }
}

/// Reads the top file of each environment, then the files it includes.
fn read_tops(
    compiler: &Compiler,
    files: &Files,
    reader: &Reader,
    wanted: &RequestedEnvs,
    errors: &mut Vec<String>,
) -> Vec<Map> {
    let mut tops: Vec<(String, Vec<Map>)> = Vec::new();
    let mut includes: Vec<(String, Vec<String>)> = Vec::new();
    for env in envs(compiler, files, wanted) {
        let Some(path) = files.find(top_path(&compiler.state_top), &env) else { continue };
        match &*reader.read(read::SlsFile { path: &path, sls: "", env: &env, defaults: None }) {
            Ok(Value::Map(top)) => {
                let mut top = top.clone();
                let included = top.remove("include");
                includes.push((
                    env.clone(),
                    included.as_ref().and_then(in_a_loop).unwrap_or_default().iter().map(Value::to_string).collect(),
                ));
                tops.push((env, vec![top]));
            }
            Ok(_) => errors.push(MALFORMED.to_owned()),
            Err(error) => {
                // As in Salt, the first one that fails prevents the others.
                errors.push(format!("Rendering Primary Top file failed, render error:\n{error}"));
                tracing::error!("Pillar rendering failed: {} in {}", error, path.display());
                break;
            }
        }
    }
    for (env, names) in includes {
        let mut done = HashSet::new();
        for name in names.iter().filter(|name| done.insert((*name).clone())) {
            read_included(files, reader, (&env, name), &mut tops, errors);
        }
    }
    tops.into_iter().flat_map(|(_, tops)| tops).collect()
}

/// As in Salt, a missing file is skipped.
fn read_included(
    files: &Files,
    reader: &Reader,
    (env, name): (&str, &str),
    tops: &mut [(String, Vec<Map>)],
    errors: &mut Vec<String>,
) {
    let Some(sls) = files.sls(name, env) else { return tracing::error!("top file {name} does not exist") };
    match &*reader.read(read::SlsFile { path: &sls.path, sls: "", env, defaults: None }) {
        Ok(Value::Map(top)) => {
            tops.iter_mut().filter(|(known, _)| known == env).for_each(|(_, tops)| tops.push(top.clone()))
        }
        Ok(_) => errors.push(MALFORMED.to_owned()),
        Err(error) => errors.push(format!("Rendering Top file {name} failed, render error:\n{error}")),
    }
}

/// Returns the environments whose top files are read.
fn envs(compiler: &Compiler, files: &Files, wanted: &RequestedEnvs) -> Vec<String> {
    if let Some(env) = wanted.pillarenv {
        return if has(&files.roots, env) { vec![env.to_owned()] } else { Vec::new() };
    }
    let mut envs = files.envs();
    if compiler.settings.pillar_source_merging_strategy == "none" {
        let only = wanted.saltenv.unwrap_or("base");
        envs.retain(|env| env == only);
    }
    envs
}

fn has(roots: &Roots, env: &str) -> bool {
    roots.get(env).is_some()
}

fn top_path(name: &str) -> &str {
    name.strip_prefix("salt://").unwrap_or(name)
}
