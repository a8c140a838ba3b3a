//! The options of the cache.

mod consul;
mod etcd;
mod mysql;

use std::time::Duration;

use store::Layout;
use value::{Map, Value};

use crate::http::Target;
use crate::redis::Server;
use crate::{Error, Result};

/// The drivers of Salt that this program does not have.
const MISSING: [&str; 1] = ["mmap_cache"];

/// The values that Salt's cache in memory holds at most by default.
const MOST_ITEMS: i64 = 1024;

/// The options of the cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub driver: Driver,
    pub layout: Layout,
    /// The time for which a cached value is valid. Zero turns the cache off.
    pub memory: Duration,
    /// The number of values in memory.
    pub most_items: usize,
}

/// The driver with its own options.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Driver {
    LocalFs,
    Redis(Server),
    Consul(crate::consul::Server),
    Etcd(crate::etcd::Server),
    MySql(crate::mysql::Server),
}

impl Settings {
    /// Reads the options of a master.
    pub(crate) fn read(options: &Map) -> Result<Self> {
        let layout = layout(options)?;
        let name = text(options, "cache")?.unwrap_or_else(|| "localfs".to_owned());
        let driver = match name.as_str() {
            "localfs" => Driver::LocalFs,
            "redis" => Driver::Redis(redis(options, layout)?),
            "consul" => Driver::Consul(consul::read(options)?),
            "etcd" => Driver::Etcd(etcd::read(options)?),
            "etcd3" => Driver::Etcd(etcd::read_v3(options)?),
            "mysql" => Driver::MySql(mysql::read(options)?),
            name if MISSING.contains(&name) => {
                return Err(Error::option("cache", format!("the driver {name} is not supported yet; {THERE_ARE}")));
            }
            name => return Err(Error::option("cache", format!("there is no driver {name:?}; {THERE_ARE}"))),
        };
        let memory = options.get("memcache_expire_seconds").and_then(Value::as_f64).unwrap_or(0.0);
        let memory = Duration::try_from_secs_f64(memory)
            .map_err(|_| Error::option("memcache_expire_seconds", "must be a number of seconds"))?;
        let most_items = whole(options, "memcache_max_items")?.unwrap_or(MOST_ITEMS);
        Ok(Settings { driver, layout, memory, most_items: usize::try_from(most_items).unwrap_or(0) })
    }
}

const THERE_ARE: &str = "the drivers are localfs, redis, consul, etcd, etcd3 and mysql";

fn layout(options: &Map) -> Result<Layout> {
    match whole(options, "cache_layout")? {
        None | Some(3008) => Ok(Layout::Since3008),
        Some(3006 | 3007) => Ok(Layout::Until3007),
        Some(other) => Err(Error::option("cache_layout", format!("must be 3006 or 3008, not {other}"))),
    }
}

fn redis(options: &Map, layout: Layout) -> Result<Server> {
    for name in ["cache.redis.cluster_mode", "cache.redis.cluster.startup_nodes"] {
        if options.get(name).is_some_and(Value::truthy) {
            return Err(Error::option(name, "clusters are not supported"));
        }
    }
    let separator = text(options, "cache.redis.separator")?.unwrap_or_else(|| "_".to_owned());
    let prefix = |name: &'static str, usual: &str| {
        let prefix = text(options, name)?.unwrap_or_else(|| usual.to_owned()) + &separator;
        // The banks below a bank are found by the slash.
        match layout == Layout::Since3008 && prefix.contains('/') {
            true => Err(Error::option(name, "neither the prefix nor the separator can contain a slash")),
            false => Ok(prefix),
        }
    };
    let (banks, keys) = match layout {
        Layout::Since3008 => {
            (prefix("cache.redis.banks_prefix", "$BANKS")?, prefix("cache.redis.keys_prefix", "$KEYS")?)
        }
        Layout::Until3007 => (prefix("cache.redis.bank_prefix", "$BANK")?, prefix("cache.redis.key_prefix", "$KEY")?),
    };
    let db = whole(options, "cache.redis.db")?.unwrap_or(0);
    Ok(Server {
        host: text(options, "cache.redis.host")?.unwrap_or_else(|| "localhost".to_owned()),
        port: port(options, "cache.redis.port", 6379)?,
        socket: text(options, "cache.redis.unix_socket_path")?.map(Into::into),
        db: u32::try_from(db).map_err(|_| Error::option("cache.redis.db", format!("{db} is not a database")))?.into(),
        password: text(options, "cache.redis.password")?,
        banks,
        keys,
        timestamps: prefix("cache.redis.timestamp_prefix", "$TSTAMP")?,
        bank_keys: prefix("cache.redis.bank_keys_prefix", "$BANKEYS")?,
        layout,
    })
}

/// Returns the address that the options for scheme, host and port describe.
fn http_target(options: &Map, names: [&'static str; 3], usual_port: u16) -> Result<Target> {
    let [scheme_name, host_name, port_name] = names;
    let scheme = text(options, scheme_name)?.unwrap_or_else(|| "http".to_owned());
    if !["http", "https"].contains(&scheme.as_str()) {
        return Err(Error::option(scheme_name, format!("must be http or https, not {scheme:?}")));
    }
    let host = text(options, host_name)?.unwrap_or_else(|| "127.0.0.1".to_owned());
    let port = port(options, port_name, usual_port)?;
    Target::new(&scheme, &host, port).map_err(|reason| Error::option(host_name, reason))
}

fn port(options: &Map, name: &'static str, usual: u16) -> Result<u16> {
    let Some(port) = whole(options, name)? else { return Ok(usual) };
    u16::try_from(port).map_err(|_| Error::option(name, format!("{port} is not a port")))
}

/// Returns an option as text. An empty one counts as missing.
fn text(options: &Map, name: &'static str) -> Result<Option<String>> {
    match options.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value @ (Value::Str(_) | Value::Int(_))) => Ok(Some(value.to_string()).filter(|text| !text.is_empty())),
        // The value is not shown: it may be a password.
        Some(other) => Err(Error::option(name, format!("must be text, not {}", other.type_name()))),
    }
}

fn whole(options: &Map, name: &'static str) -> Result<Option<i64>> {
    let Some(text) = text(options, name)? else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| Error::option(name, format!("must be a number, not {text:?}")))
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    fn refused(options: Map) -> String {
        Settings::read(&options).unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_those_of_salt() {
        let settings = Settings::read(&map! {}).unwrap();
        assert_eq!((settings.driver, settings.layout), (Driver::LocalFs, Layout::Since3008));
        assert_eq!((settings.memory, settings.most_items), (Duration::ZERO, 1024));
        let Driver::Redis(server) = Settings::read(&map! { "cache" => "redis" }).unwrap().driver else { panic!() };
        assert_eq!((server.host.as_str(), server.port, server.db, server.password), ("localhost", 6379, 0, None));
        let prefixes = (server.banks.as_str(), server.keys.as_str(), server.timestamps.as_str());
        assert_eq!(prefixes, ("$BANKS_", "$KEYS_", "$TSTAMP_"));
        let old = map! { "cache" => "redis", "cache_layout" => 3006, "cache.redis.separator" => "@" };
        let Driver::Redis(server) = Settings::read(&old).unwrap().driver else { panic!() };
        assert_eq!((server.banks.as_str(), server.keys.as_str()), ("$BANK@", "$KEY@"));
    }

    #[test]
    fn an_error_names_the_option_and_no_password() {
        assert!(refused(map! { "cache" => "x" }).starts_with("option 'cache': there is no driver \"x\""));
        assert!(refused(map! { "cache" => "mmap_cache" }).contains("the driver mmap_cache is not supported yet"));
        assert!(refused(map! { "cache_layout" => 2019 }).contains("'cache_layout'"));
        let redis = |name: &str, value: Value| {
            let mut options = map! { "cache" => "redis" };
            options.insert(name, value);
            refused(options)
        };
        assert!(redis("cache.redis.port", 70_000.into()).contains("'cache.redis.port'"));
        assert!(redis("cache.redis.db", "first".into()).contains("'cache.redis.db'"));
        assert!(redis("cache.redis.cluster_mode", true.into()).contains("'cache.redis.cluster_mode'"));
        assert!(redis("cache.redis.keys_prefix", "a/b".into()).contains("'cache.redis.keys_prefix'"));
        let wrong = redis("cache.redis.password", list!["secret"]);
        assert!(wrong.contains("'cache.redis.password'") && !wrong.contains("secret"), "{wrong}");
        assert!(refused(map! { "memcache_expire_seconds" => -1 }).contains("'memcache_expire_seconds'"));
    }
}
