//! The options of the driver `etcd`.

use value::{Map, Value};

use super::{http_target, text};
use crate::etcd::Server;
use crate::http::{Identity, Trust};
use crate::{Error, Result};

/// The redirects that are followed with `etcd.allow_redirect`.
const REDIRECTS: usize = 3;

pub(super) fn read(options: &Map) -> Result<Server> {
    if options.get("etcd.srv_domain").is_some_and(Value::truthy) {
        return Err(Error::option("etcd.srv_domain", "servers are not looked up in DNS; name one with etcd.host"));
    }
    let mut target = http_target(options, ["etcd.protocol", "etcd.host", "etcd.port"], 2379)?;
    if options.get("etcd.allow_redirect").is_some_and(Value::truthy) {
        target.redirects = REDIRECTS;
    }
    if let Some(path) = text(options, "etcd.ca_cert")? {
        target.trust = Trust::File { option: "etcd.ca_cert", path: path.into() };
    }
    target.identity =
        text(options, "etcd.cert")?.map(|path| Identity { option: "etcd.cert", path: path.into(), key: None });
    let prefix = match options.get("etcd.path_prefix") {
        // An empty one is the root.
        Some(Value::Str(prefix)) => prefix.to_string(),
        _ => text(options, "etcd.path_prefix")?.unwrap_or_else(|| "salt_cache".to_owned()),
    };
    let login = match (text(options, "etcd.username")?, text(options, "etcd.password")?) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        (Some(_), None) => return Err(Error::option("etcd.username", "needs etcd.password")),
        (None, Some(_)) => return Err(Error::option("etcd.password", "needs etcd.username")),
    };
    Ok(Server {
        target,
        login,
        prefix: prefix.trim_matches('/').to_owned(),
        suffix: text(options, "etcd.timestamp_suffix")?.unwrap_or_else(|| ".tstamp".to_owned()),
        reconnect: options.get("etcd.allow_reconnect").is_none_or(Value::truthy),
    })
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn defaults_are_those_of_salt() {
        let server = read(&map! {}).unwrap();
        assert_eq!(server.target.address(), "http://127.0.0.1:2379");
        assert_eq!((server.prefix.as_str(), server.suffix.as_str()), ("salt_cache", ".tstamp"));
        assert!(server.reconnect);
        assert_eq!((server.login, server.target.redirects, server.target.trust), (None, 0, Trust::System));
    }

    #[test]
    fn options_are_obeyed_and_no_password_is_shown() {
        let options = map! {
            "etcd.host" => "kv.example", "etcd.port" => 4001, "etcd.protocol" => "https", "etcd.username" => "salt",
            "etcd.password" => "secret", "etcd.ca_cert" => "/etc/ca.pem", "etcd.cert" => "/etc/own.pem",
            "etcd.path_prefix" => "/a/b/", "etcd.allow_redirect" => true, "etcd.timestamp_suffix" => ".time",
            "etcd.allow_reconnect" => false,
        };
        let server = read(&options).unwrap();
        assert!(!format!("{server:?}").contains("secret"), "{server:?}");
        assert_eq!((server.target.address().as_str(), server.prefix.as_str()), ("https://kv.example:4001", "a/b"));
        assert_eq!(server.login, Some(("salt".into(), "secret".into())));
        let identity = Identity { option: "etcd.cert", path: "/etc/own.pem".into(), key: None };
        assert_eq!(server.target.identity, Some(identity));
        assert_eq!((server.target.redirects, server.suffix.as_str()), (REDIRECTS, ".time"));
        assert!(!server.reconnect);
        assert_eq!(read(&map! { "etcd.path_prefix" => "" }).unwrap().prefix, "");
    }

    #[test]
    fn an_error_names_the_option_and_no_password() {
        for (name, value) in [
            ("etcd.srv_domain", Value::from("example.com")),
            ("etcd.protocol", "ftp".into()),
            ("etcd.host", "a/b".into()),
            ("etcd.port", "many".into()),
            ("etcd.password", "secret".into()),
            ("etcd.username", "salt".into()),
        ] {
            let mut options = map! {};
            options.insert(name, value);
            let error = read(&options).unwrap_err().to_string();
            assert!(error.contains(name) && !error.contains("secret"), "{error}");
        }
    }
}
