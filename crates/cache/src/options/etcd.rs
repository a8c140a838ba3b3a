//! The options of the drivers `etcd` and `etcd3`.

use value::{Map, Value};

use super::{http_target, text};
use crate::etcd::{Api, Server};
use crate::http::{Identity, Target, Trust};
use crate::{Error, Result};

/// The redirects that are followed with `etcd.allow_redirect`.
const REDIRECTS: usize = 3;

const PREFIX: &str = "etcd.path_prefix";
const PROFILE: &str = "etcd.cache_profile";
const PROTOCOL: &str = "etcd.protocol";

/// Reads the options of the driver `etcd`.
pub(super) fn read(options: &Map) -> Result<Server> {
    let mut target = target(options)?;
    if options.get("etcd.allow_redirect").is_some_and(Value::truthy) {
        target.redirects = REDIRECTS;
    }
    let prefix = match options.get(PREFIX) {
        // An empty one is the root.
        Some(Value::Str(prefix)) => prefix.to_string(),
        _ => text(options, PREFIX)?.unwrap_or_else(|| "salt_cache".to_owned()),
    };
    let suffix = text(options, "etcd.timestamp_suffix")?.unwrap_or_else(|| ".tstamp".to_owned());
    server(options, target, &prefix, Api::V2 { suffix })
}

/// Reads the options of the driver `etcd3`. They may be in a profile, with the exception of the prefix.
pub(super) fn read_v3(options: &Map) -> Result<Server> {
    let own = profile(options)?;
    let prefix = match options.get(PREFIX) {
        None => "salt_cache".to_owned(),
        Some(Value::Null) => String::new(),
        Some(_) => text(options, PREFIX)?.unwrap_or_default(),
    };
    if prefix.trim_matches('/').is_empty() {
        return Err(Error::option(PREFIX, "must not be empty: flushing a bank could remove what others have in etcd"));
    }
    server(own, protected(own)?, &prefix, Api::V3)
}

/// Returns the options that `etcd.cache_profile` names, or all options.
fn profile(options: &Map) -> Result<&Map> {
    let Some(name) = text(options, PROFILE)? else { return Ok(options) };
    let Some(Value::Map(profile)) = options.get(name.as_str()) else {
        return Err(Error::option(PROFILE, format!("there is no option {name:?} with a map")));
    };
    // Masters of Salt do not read it there, so they would have another store.
    match profile.contains_key(PREFIX) {
        true => {
            Err(Error::option(PREFIX, format!("is not read in the profile {name:?}; it must stand beside {PROFILE}")))
        }
        false => Ok(profile),
    }
}

/// Returns the address with the certificates of the driver `etcd3`, which turn TLS on. Those of `etcd` count, too.
fn protected(options: &Map) -> Result<Target> {
    let mut target = target(options)?;
    // As the client of Salt does.
    target.proxies = true;
    if let Some(path) = text(options, "etcd.ca")? {
        target.trust = Trust::File { option: "etcd.ca", path: path.into() };
    }
    match (text(options, "etcd.client_cert")?, text(options, "etcd.client_key")?) {
        (Some(path), Some(key)) => {
            let key = Some(("etcd.client_key", key.into()));
            target.identity = Some(Identity { option: "etcd.client_cert", path: path.into(), key });
        }
        (None, None) => {}
        (Some(_), None) => return Err(Error::option("etcd.client_cert", "needs etcd.client_key")),
        (None, Some(_)) => return Err(Error::option("etcd.client_key", "needs etcd.client_cert")),
    }
    if target.trust == Trust::System && target.identity.is_none() {
        return Ok(target);
    }
    match text(options, PROTOCOL)?.as_deref() {
        Some("http") => Err(Error::option(PROTOCOL, "must be https with certificates")),
        _ => target.with_tls().map_err(|reason| Error::option("etcd.host", reason)),
    }
}

/// Returns the address, and the certificates that the driver `etcd` has.
fn target(options: &Map) -> Result<Target> {
    if options.get("etcd.srv_domain").is_some_and(Value::truthy) {
        return Err(Error::option("etcd.srv_domain", "servers are not looked up in DNS; name one with etcd.host"));
    }
    let mut target = http_target(options, [PROTOCOL, "etcd.host", "etcd.port"], 2379)?;
    if let Some(path) = text(options, "etcd.ca_cert")? {
        target.trust = Trust::File { option: "etcd.ca_cert", path: path.into() };
    }
    target.identity =
        text(options, "etcd.cert")?.map(|path| Identity { option: "etcd.cert", path: path.into(), key: None });
    Ok(target)
}

fn server(options: &Map, target: Target, prefix: &str, api: Api) -> Result<Server> {
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
        reconnect: options.get("etcd.allow_reconnect").is_none_or(Value::truthy),
        api,
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
        assert_eq!((server.prefix.as_str(), &server.api), ("salt_cache", &Api::V2 { suffix: ".tstamp".into() }));
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
        assert_eq!((server.target.redirects, server.api), (REDIRECTS, Api::V2 { suffix: ".time".into() }));
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

    #[test]
    fn etcd3_has_the_options_of_its_own() {
        let server = read_v3(&map! {}).unwrap();
        assert_eq!((server.prefix.as_str(), &server.api), ("salt_cache", &Api::V3));
        assert_eq!(server.target.address(), "http://127.0.0.1:2379");
        let options = map! {
            "etcd.host" => "kv.example", "etcd.ca" => "/etc/ca.pem", "etcd.client_cert" => "/etc/own.pem",
            "etcd.client_key" => "/etc/own.key", "etcd.username" => "salt", "etcd.password" => "secret",
            "etcd.path_prefix" => "a//b/",
        };
        let server = read_v3(&options).unwrap();
        assert_eq!((server.target.address().as_str(), server.prefix.as_str()), ("https://kv.example:2379", "a//b"));
        assert_eq!(server.login, Some(("salt".into(), "secret".into())));
        assert_eq!(server.target.trust, Trust::File { option: "etcd.ca", path: "/etc/ca.pem".into() });
        let key = Some(("etcd.client_key", "/etc/own.key".into()));
        let identity = Identity { option: "etcd.client_cert", path: "/etc/own.pem".into(), key };
        assert_eq!(server.target.identity, Some(identity));
    }

    #[test]
    fn etcd3_takes_the_certificates_of_etcd() {
        let server = read_v3(&map! { "etcd.ca_cert" => "/etc/ca.pem", "etcd.cert" => "/etc/own.pem" }).unwrap();
        assert_eq!(server.target.address(), "https://127.0.0.1:2379");
        let identity = Identity { option: "etcd.cert", path: "/etc/own.pem".into(), key: None };
        assert_eq!(server.target.identity, Some(identity));
    }

    #[test]
    fn etcd3_reads_a_profile_with_the_exception_of_the_prefix() {
        let profile = map! { "etcd.host" => "kv.example", "etcd.port" => 4001 };
        let mut options = map! {
            "etcd.cache_profile" => "store", "store" => profile.clone(), "etcd.host" => "other", "etcd.path_prefix" => "/a",
        };
        let server = read_v3(&options).unwrap();
        assert_eq!((server.target.address().as_str(), server.prefix.as_str()), ("http://kv.example:4001", "a"));
        let mut with_prefix = profile;
        with_prefix.insert("etcd.path_prefix", "/b");
        options.insert("store", with_prefix);
        assert!(read_v3(&options).unwrap_err().to_string().contains("'etcd.path_prefix'"));
        options.insert("etcd.cache_profile", "none");
        assert!(read_v3(&options).unwrap_err().to_string().contains("'etcd.cache_profile'"));
    }

    #[test]
    fn etcd3_refuses_what_would_be_dangerous() {
        for (options, name) in [
            (map! { "etcd.path_prefix" => "" }, "'etcd.path_prefix'"),
            (map! { "etcd.path_prefix" => "//" }, "'etcd.path_prefix'"),
            (map! { "etcd.path_prefix" => Value::Null }, "'etcd.path_prefix'"),
            (map! { "etcd.client_cert" => "/a" }, "'etcd.client_cert'"),
            (map! { "etcd.client_key" => "/a" }, "'etcd.client_key'"),
            (map! { "etcd.ca" => "/a", "etcd.protocol" => "http" }, "'etcd.protocol'"),
            (map! { "etcd.srv_domain" => "example.com" }, "'etcd.srv_domain'"),
            (map! { "etcd.username" => "salt" }, "'etcd.username'"),
        ] {
            let error = read_v3(&options).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
