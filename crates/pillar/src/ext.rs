//! External pillars.

mod command;
mod file_tree;
mod git;
mod http;
mod shell;
mod stack;

use config::Roots;
use targeting::{Compiled, Context, Facts, TargetType};
use value::{Map, Value, map};

use crate::merge::{Strategy, merge};
use crate::{Compiler, Request};

pub use git::GitExternal;

/// An external pillar that another crate provides, such as `git`.
pub trait External: Send + Sync {
    /// Returns its name in the option `ext_pillar`.
    fn name(&self) -> &str;

    /// Returns what it adds to the pillar.
    ///
    /// # Errors
    /// The reason, which becomes an entry of `_errors`.
    fn load(&self, call: &ExternalCall) -> Result<Map, String>;
}

/// The input of an external pillar.
pub struct ExternalCall<'a> {
    /// The minion whose pillar is compiled.
    pub id: &'a str,
    /// Options, grains and functions, and the pillar that was compiled before.
    pub ctx: &'a exec::Context,
    /// The value under its name in `ext_pillar`.
    pub arguments: &'a Value,
    /// The directories of the pillar.
    pub roots: &'a Roots,
    /// The requested environment of states.
    pub saltenv: Option<&'a str>,
    /// The requested environment of pillar.
    pub pillarenv: Option<&'a str>,
    /// Additional data that the minion sent.
    pub extra_minion_data: Option<&'a Map>,
    pub(crate) compiler: &'a Compiler,
    pub(crate) request: &'a Request<'a>,
}

impl ExternalCall<'_> {
    /// Returns the options as external pillars see them, with the `id` of the master itself.
    pub(crate) fn options(&self) -> Map {
        let mut options = (*self.ctx.opts).clone();
        if let Some(id) = self.compiler.options.get("id") {
            options.insert("id", id.clone());
        }
        options
    }

    /// Merges the data of another source into `first`, as the options configure it.
    pub(crate) fn merged(&self, first: Map, second: &Map) -> Map {
        let settings = &self.compiler.settings;
        let strategy = Strategy::from_name(&settings.pillar_source_merging_strategy, &self.compiler.renderer);
        merge(first, second, strategy, settings.pillar_merge_lists)
    }

    /// Returns the arguments by name: those of a map as they are, those of a list, or a single one, in the order of the names.
    pub(crate) fn named(&self, names: &[&str]) -> Result<Map, String> {
        match self.arguments {
            Value::Map(map) => match map.keys().find(|key| !key.as_str().is_some_and(|key| names.contains(&key))) {
                Some(unknown) => Err(format!("ext_pillar() got an unexpected keyword argument '{unknown}'")),
                None => Ok(map.clone()),
            },
            Value::List(items) if items.len() > names.len() => {
                // Python counts the minion id and the pillar too, which Salt passes first.
                let takes = names.len() + 2;
                Err(format!("ext_pillar() takes {takes} positional arguments but {} were given", items.len() + 2))
            }
            Value::List(items) => Ok(names.iter().map(|name| Value::from(*name)).zip(items.iter().cloned()).collect()),
            single => Ok(names.iter().take(1).map(|name| (Value::from(*name), single.clone())).collect()),
        }
    }

    /// Returns whether the minion belongs to a node group.
    fn is_in(&self, group: &Value) -> bool {
        let context = Context { nodegroups: Some(&self.compiler.nodegroups), ..Context::default() };
        let facts = Facts { id: self.id, grains: &self.ctx.grains, pillar: &self.ctx.pillar };
        match Compiled::new(group, TargetType::Compound, &context) {
            Ok(compiled) => compiled.matches(&facts),
            Err(error) => {
                tracing::error!(minion = self.id, "node group {group}: {error}");
                false
            }
        }
    }
}

/// Salt's external pillars that Saltern does not have, or that the program did not add. Omitting them silently would
/// remove data from
/// minions.
const MISSING: [&str; 8] = ["git", "libvirt", "mysql", "pillar_ldap", "postgres", "reclass", "saltclass", "vault"];

/// Loads one external pillar; `None` if its name is unknown.
pub(crate) fn load(name: &str, call: &ExternalCall) -> Result<Option<Map>, String> {
    // Before the built-in names: an external pillar that was added, such as `git`, is no longer missing.
    if let Some(external) = call.compiler.externals.iter().find(|external| external.name() == name) {
        return external.load(call).map(Some);
    }
    match name {
        "cmd_json" => command::json(call),
        "cmd_yaml" => command::yaml(call),
        "http_json" => http::load(call, "json"),
        "http_yaml" => http::load(call, "yaml"),
        "file_tree" => file_tree::load(call),
        "nodegroups" => nodegroups(call),
        "stack" => stack::load(call),
        "extra_minion_data_in_pillar" => extra_minion_data(call),
        "gpg" => gpg(call),
        _ if MISSING.contains(&name) => return Err(format!("not supported: the external pillar '{name}'")),
        _ => {
            tracing::error!(
                "ext_pillar interface named {name} is unavailable. Make sure it is placed in the correct \
                 directory/location. Check https://docs.saltstack.com/en/latest/ref/configuration/master.html#extension-modules \
                 for details."
            );
            return Ok(None);
        }
    }
    .map(Some)
}

/// Returns the names of the minion's node groups.
fn nodegroups(call: &ExternalCall) -> Result<Map, String> {
    let arguments = call.named(&["pillar_name"])?;
    let key = arguments.get_str("pillar_name").filter(|name| !name.is_empty()).unwrap_or("nodegroups");
    let groups = call.compiler.nodegroups.iter().filter(|(_, group)| call.is_in(group));
    let names: Vec<Value> = groups.map(|(name, _)| name.clone()).collect();
    Ok(map! { key => names })
}

/// Returns the additional data that the minion sent, or parts of it.
fn extra_minion_data(call: &ExternalCall) -> Result<Map, String> {
    let include = call.named(&["include"])?.remove("include").unwrap_or_default();
    let Some(data) = call.extra_minion_data.filter(|data| !data.is_empty()) else { return Ok(Map::new()) };
    if matches!(include.as_str(), Some("*" | "<all>")) {
        return Ok(data.clone());
    }
    let mut found = Map::new();
    for key in include.as_list().unwrap_or_default().iter().map(Value::to_string) {
        let value = Value::Map(data.clone());
        if let Some(value) = value.traverse(&key, ":") {
            // As in Salt, a nested value keeps its path in the pillar.
            let below = key.split(':').rev().fold(value.clone(), |inner, part| map! { part => inner }.into());
            found.update(below.into_map().unwrap_or_default());
        }
    }
    Ok(found)
}

/// Decrypts the pillar so far.
fn gpg(call: &ExternalCall) -> Result<Map, String> {
    let gpg = render::Gpg::of(&call.ctx.opts, &call.ctx.grains, &call.ctx.pillar);
    let plain = gpg.render((*call.ctx.pillar).clone().into(), false).map_err(|error| error.to_string())?;
    Ok(plain.into_map().unwrap_or_default())
}
