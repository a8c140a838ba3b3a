//! The options of the driver `mysql`.

use std::path::PathBuf;

use value::{Map, Value};

use super::{port, text};
use crate::mysql::{Identity, Server, Tls};
use crate::{Error, Result};

/// The options after `mysql.`: those of Salt's driver, and those that it hands on to its library PyMySQL. `config::effects` says
/// which of them have no effect.
const KNOWN: [&str; 20] = [
    "charset",
    "connect_timeout",
    "database",
    "db",
    "fresh_connection",
    "host",
    "passwd",
    "password",
    "port",
    "read_timeout",
    "ssl_ca",
    "ssl_cert",
    "ssl_disabled",
    "ssl_key",
    "ssl_verify_cert",
    "ssl_verify_identity",
    "table_name",
    "unix_socket",
    "user",
    "write_timeout",
];

pub(super) fn read(options: &Map) -> Result<Server> {
    let mut names = options.iter().filter_map(|(name, _)| name.as_str()?.strip_prefix("mysql."));
    if let Some(name) = names.find(|name| !KNOWN.contains(name)) {
        return Err(Error::unknown(&format!("mysql.{name}"), "the cache driver mysql does not support it"));
    }
    // Salt lets the names of its library win.
    let either = |name, of_library| match text(options, of_library)? {
        Some(value) => Ok(Some(value)),
        None => text(options, name),
    };
    let table = text(options, "mysql.table_name")?.unwrap_or_else(|| "salt".to_owned());
    if !is_identifier(&table) {
        return Err(Error::option("mysql.table_name", "must be 1 to 64 letters, digits, _ or $"));
    }
    // Salt's library connects as the user that runs the master.
    let usual_user = || text(options, "user").map(|user| user.unwrap_or_else(|| "root".to_owned()));
    Ok(Server {
        host: text(options, "mysql.host")?.unwrap_or_else(|| "127.0.0.1".to_owned()),
        port: port(options, "mysql.port", 3306)?,
        socket: text(options, "mysql.unix_socket")?.map(Into::into),
        user: text(options, "mysql.user")?.map_or_else(usual_user, Ok)?,
        password: either("mysql.password", "mysql.passwd")?,
        database: either("mysql.database", "mysql.db")?.unwrap_or_else(|| "salt_cache".to_owned()),
        table,
        tls: tls(options)?,
        fresh: switch(options, "mysql.fresh_connection")?.unwrap_or(false),
    })
}

/// As with Salt's library, any of the options turns TLS on. Certificates are checked unless an option says otherwise.
fn tls(options: &Map) -> Result<Option<Tls>> {
    let path = |name| Ok::<_, Error>(text(options, name)?.map(PathBuf::from));
    let (ca, certificate, key) = (path("mysql.ssl_ca")?, path("mysql.ssl_cert")?, path("mysql.ssl_key")?);
    let check = switch(options, "mysql.ssl_verify_cert")?;
    let check_name = switch(options, "mysql.ssl_verify_identity")?;
    let wanted =
        ca.is_some() || certificate.is_some() || key.is_some() || check == Some(true) || check_name == Some(true);
    if switch(options, "mysql.ssl_disabled")? == Some(true) || !wanted {
        return Ok(None);
    }
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) => None,
        (Some(_), None) => return Err(Error::option("mysql.ssl_cert", "needs mysql.ssl_key")),
        (None, Some(_)) => return Err(Error::option("mysql.ssl_key", "needs mysql.ssl_cert")),
    };
    // With Salt's library, too, a name is checked only together with the certificate.
    let check = check.unwrap_or(true) || check_name == Some(true);
    Ok(Some(Tls { ca, identity, check, check_name: check_name.unwrap_or(true) }))
}

fn switch(options: &Map, name: &'static str) -> Result<Option<bool>> {
    match options.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(on)) => Ok(Some(*on)),
        Some(other) => Err(Error::option(name, format!("must be true or false, not {}", other.type_name()))),
    }
}

/// Salt puts the name into its statements as it is, so it trusts it. A name that needs no quotes is as good in ours.
fn is_identifier(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_$".contains(&byte))
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn defaults_are_those_of_salt() {
        let server = read(&map! {}).unwrap();
        assert_eq!(server.address(), "127.0.0.1:3306");
        assert_eq!((server.database.as_str(), server.table.as_str()), ("salt_cache", "salt"));
        assert_eq!((server.user.as_str(), server.password, server.tls, server.fresh), ("root", None, None, false));
    }

    #[test]
    fn options_are_obeyed_and_no_password_is_shown() {
        let options = map! {
            "mysql.host" => "db.example", "mysql.port" => 3307, "mysql.user" => "salt", "mysql.password" => "old",
            "mysql.passwd" => "secret", "mysql.database" => "one", "mysql.db" => "two", "mysql.table_name" => "cache",
            "mysql.fresh_connection" => true, "mysql.connect_timeout" => 10,
        };
        let server = read(&options).unwrap();
        assert!(!format!("{server:?}").contains("secret"), "{server:?}");
        assert_eq!((server.address().as_str(), server.user.as_str()), ("db.example:3307", "salt"));
        assert_eq!((server.password.as_deref(), server.database.as_str()), (Some("secret"), "two"));
        assert_eq!((server.table.as_str(), server.fresh), ("cache", true));
        let socket = read(&map! { "mysql.unix_socket" => "/run/mysqld.sock", "user" => "salt" }).unwrap();
        assert_eq!((socket.address().as_str(), socket.user.as_str()), ("/run/mysqld.sock", "salt"));
    }

    #[test]
    fn any_option_of_tls_turns_it_on_and_certificates_are_checked() {
        let tls = |options: Map| read(&options).unwrap().tls;
        let plain = Tls { ca: None, identity: None, check: true, check_name: true };
        let ca = Tls { ca: Some("/ca".into()), ..plain.clone() };
        let identity = Some(Identity { certificate: "/cert".into(), key: "/key".into() });
        assert_eq!(tls(map! { "mysql.ssl_ca" => "/ca" }), Some(ca.clone()));
        assert_eq!(tls(map! { "mysql.ssl_ca" => "/ca", "mysql.ssl_disabled" => true }), None);
        assert_eq!(tls(map! { "mysql.ssl_verify_cert" => true }), Some(plain.clone()));
        assert_eq!(tls(map! { "mysql.ssl_verify_cert" => false }), None);
        let own = map! { "mysql.ssl_cert" => "/cert", "mysql.ssl_key" => "/key", "mysql.ssl_verify_cert" => false };
        assert_eq!(tls(own), Some(Tls { identity, check: false, ..plain.clone() }));
        let nameless = map! { "mysql.ssl_ca" => "/ca", "mysql.ssl_verify_identity" => false };
        assert_eq!(tls(nameless), Some(Tls { check_name: false, ..ca }));
        let named = map! { "mysql.ssl_verify_identity" => true, "mysql.ssl_verify_cert" => false };
        assert_eq!(tls(named), Some(plain));
    }

    #[test]
    fn an_error_names_the_option_and_no_password() {
        for (name, value) in [
            ("mysql.port", Value::from("many")),
            ("mysql.table_name", "a`b".into()),
            ("mysql.password", list!["secret"]),
            ("mysql.pass", "secret".into()),
            ("mysql.ssl_key", "secret".into()),
            ("mysql.ssl_cert", "secret".into()),
            ("mysql.ssl_verify_cert", "secret".into()),
            ("mysql.fresh_connection", 1.into()),
        ] {
            let mut options = map! {};
            options.insert(name, value);
            let error = read(&options).unwrap_err().to_string();
            assert!(error.contains(&format!("'{name}'")) && !error.contains("secret"), "{error}");
        }
    }
}
