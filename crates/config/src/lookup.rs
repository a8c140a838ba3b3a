//! `config.get`: looks a key up in options, grains, pillar and a few defaults.

use std::sync::LazyLock;

use value::{Map, Value, list, map};

/// The defaults of `config.get`.
pub static DEFAULTS: LazyLock<Map> = LazyLock::new(|| {
    map! {
        "mongo.db" => "salt",
        "mongo.password" => "",
        "mongo.port" => 27017,
        "mongo.user" => "",
        "redis.db" => "0",
        "redis.host" => "salt",
        "redis.port" => 6379,
        "test.foo" => "unconfigured",
        "ca.cert_base_path" => "/etc/pki",
        "solr.cores" => list![],
        "solr.host" => "localhost",
        "solr.port" => "8983",
        "solr.baseurl" => "/solr",
        "solr.type" => "master",
        "solr.request_timeout" => Value::Null,
        "solr.init_script" => "/etc/rc.d/solr",
        "solr.dih.import_options" => map! {
            "clean" => false, "optimize" => true, "commit" => true, "verbose" => false,
        },
        "solr.backup_path" => Value::Null,
        "solr.num_backups" => 1,
        "poudriere.config" => "/usr/local/etc/poudriere.conf",
        "poudriere.config_dir" => "/usr/local/etc/poudriere.d",
        "ldap.uri" => "",
        "ldap.server" => "localhost",
        "ldap.port" => "389",
        "ldap.tls" => false,
        "ldap.no_verify" => false,
        "ldap.anonymous" => true,
        "ldap.scope" => 2,
        "ldap.attrs" => Value::Null,
        "ldap.binddn" => "",
        "ldap.bindpw" => "",
        "hosts.file" => "/etc/hosts",
        "aliases.file" => "/etc/aliases",
        "virt" => map! { "tunnel" => false, "images" => "/srv/salt-images" },
        "docker.exec_driver" => "docker-exec",
        "docker.compare_container_networks" => map! {
            "static" => list!["Aliases", "Links", "IPAMConfig"],
            "automatic" => list!["IPAddress", "Gateway", "GlobalIPv6Address", "IPv6Gateway"],
        },
    }
});

/// The sources of `config.get`. A missing source is skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup<'a> {
    /// The options.
    pub opts: Option<&'a Map>,
    /// The grains.
    pub grains: Option<&'a Map>,
    /// The pillar.
    pub pillar: Option<&'a Map>,
    /// The options of the master, if the pillar contains them under `master`.
    pub master: Option<&'a Map>,
}

impl<'a> Lookup<'a> {
    /// Returns the first value found under a path such as `pkg:apache`, in the order options, grains, pillar, master,
    /// defaults.
    pub fn get(&self, key: &str, delimiter: &str) -> Option<Value> {
        self.sources().find_map(|source| traverse(source, key, delimiter))
    }

    fn sources(&self) -> impl Iterator<Item = &'a Map> + use<'a> {
        let defaults: &'static Map = &DEFAULTS;
        [self.opts, self.grains, self.pillar, self.master, Some(defaults)].into_iter().flatten()
    }
}

fn traverse(map: &Map, path: &str, delimiter: &str) -> Option<Value> {
    let (first, rest) = match path.split_once(delimiter) {
        Some((first, rest)) if !delimiter.is_empty() => (first, Some(rest)),
        _ => (path, None),
    };
    // Keys in YAML may be numbers or booleans. The path is text, so the part is also tried as the value that YAML would
    // make of it.
    let value = map.get(first).or_else(|| map.get_value(&yaml::args::parse_cli_arg(first)))?;
    match rest {
        Some(rest) => value.traverse(rest, delimiter).cloned(),
        None => Some(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_first_and_defaults_last() {
        let opts = map! { "a" => map! { "b" => 1 }, "test.foo" => "set" };
        let pillar = map! { "a" => map! { "b" => 2, "c" => 3 }, "p" => list!["x"] };
        let lookup = Lookup { opts: Some(&opts), pillar: Some(&pillar), ..Lookup::default() };
        assert_eq!(lookup.get("a:b", ":"), Some(Value::Int(1)));
        assert_eq!(lookup.get("a:c", ":"), Some(Value::Int(3)));
        assert_eq!(lookup.get("p:0", ":"), Some(Value::from("x")));
        assert_eq!(lookup.get("test.foo", ":"), Some(Value::from("set")));
        assert_eq!(lookup.get("redis.port", ":"), Some(Value::Int(6379)));
        assert_eq!(lookup.get("none", ":"), None);
    }
}
