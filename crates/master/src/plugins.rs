//! Warns about options for Python plug-ins, which Saltern cannot load.

use config::Master;
use value::{Map, Value};

/// Logs which options have no effect.
pub fn warn(config: &Master) {
    for complaint in complaints(config) {
        tracing::warn!("{complaint}");
    }
}

/// Options for Python plug-ins, and the effect they would have. Any value that is not empty is logged.
const PLUGINS: [(&str, &str); 1] =
    [("external_auth", "external authentication is not supported yet; requests that use it are refused")];

/// Options with built-in values.
const BUILT_IN: [(&str, &[&str]); 1] = [("keys.cache_driver", &["localfs_key", "localfs"])];

fn complaints(config: &Master) -> Vec<String> {
    let option = |name: &str| config.raw.get(name).filter(|value| value.truthy());
    let plugins = PLUGINS.iter().filter(|(name, _)| option(name).is_some());
    let mut all: Vec<String> = plugins
        .map(|(name, why)| format!("option '{name}'{} has no effect here: {why}", named(option(name))))
        .collect();
    if let Some(why) = render::unsupported(config.raw.get_str("renderer").unwrap_or_default()) {
        all.push(format!("option 'renderer': {why}; every pillar file without a first line of its own (#!) fails"));
    }
    if config.files.fileserver_backend.iter().any(|name| name == "minionfs") && !config.files.file_recv {
        all.push("option 'fileserver_backend': minionfs serves nothing while 'file_recv' is off".into());
    }
    let unknown =
        config.files.fileserver_backend.iter().filter(|name| !["roots", "gitfs", "minionfs"].contains(&name.as_str()));
    all.extend(unknown.map(|name| format!("option 'fileserver_backend': {name} is not supported; it is passed over")));
    for name in option("master_tops").and_then(Value::as_map).into_iter().flat_map(Map::keys) {
        if name.as_str() != Some(state::tops::EXT_NODES) {
            all.push(format!("option 'master_tops': {name} is not supported; it is passed over"));
        }
    }
    for (name, built_in) in BUILT_IN {
        let Some(value) = option(name).and_then(Value::as_str).filter(|value| !built_in.contains(value)) else {
            continue;
        };
        all.push(format!(
            "option '{name}': {value} is a Python plug-in, which cannot be loaded; {} is used",
            built_in[0]
        ));
    }
    all
}

/// Returns the plug-ins in the value of an option, for a message: the entries of a list, or the names of its maps.
fn named(value: Option<&Value>) -> String {
    let entries = value.and_then(Value::as_list).unwrap_or_default();
    let name = |entry: &Value| match entry {
        Value::Map(map) => map.iter().next().map(|(name, _)| name.to_string()),
        other => other.as_str().map(str::to_owned),
    };
    let names: Vec<_> = entries.iter().filter_map(name).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn each_plugin_is_named_once_and_built_in_ones_are_not() {
        let options = map! {
            "external_auth" => map! { "pam" => map! {} },
            "renderer" => "py",
            "keys.cache_driver" => "mysql",
            "fileserver_backend" => list!["roots", "git", "hg"],
            "master_tops" => map! { "ext_nodes" => "nodes", "cobbler" => true },
        };
        let found = complaints(&Master::from_options(options).unwrap());
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[0].contains("'external_auth'"), "{found:?}");
        assert!(found[1].contains("'renderer'") && found[1].contains("'py'"), "{found:?}");
        assert!(found[2].contains("hgfs") && found[3].contains("cobbler") && found[4].contains("mysql"), "{found:?}");
    }
}
