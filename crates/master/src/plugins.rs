//! Warns about options for Python plug-ins, which Saltern cannot load.

use config::Master;
use value::{Map, Value};

/// Logs which options have no effect.
pub fn warn(config: &Master) {
    for complaint in complaints(config) {
        tracing::warn!("{complaint}");
    }
}

/// Options with built-in values.
const BUILT_IN: [(&str, &[&str]); 1] = [("keys.cache_driver", &["localfs_key", "localfs"])];

fn complaints(config: &Master) -> Vec<String> {
    let option = |name: &str| config.raw.get(name).filter(|value| value.truthy());
    let mut all = Vec::new();
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

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn each_plugin_is_named_once_and_built_in_ones_are_not() {
        let options = map! {
            "renderer" => "py",
            "keys.cache_driver" => "mysql",
            "fileserver_backend" => list!["roots", "git", "hg"],
            "master_tops" => map! { "ext_nodes" => "nodes", "cobbler" => true },
        };
        let found = complaints(&Master::from_options(options).unwrap());
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].contains("'renderer'") && found[0].contains("'py'"), "{found:?}");
        assert!(found[1].contains("hgfs") && found[2].contains("cobbler") && found[3].contains("mysql"), "{found:?}");
    }
}
