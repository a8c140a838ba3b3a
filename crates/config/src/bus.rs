//! The bus between masters of one set: the options `cluster_bus` and `cluster_bus_credentials`, checked.

use std::fmt;
use std::path::PathBuf;

use value::{Map, Value, near};

use crate::secret::Secret;

/// The name of the option that lists the servers.
pub const BUS: &str = "cluster_bus";
/// The name of the option that says who this master is to the servers.
pub const CREDENTIALS: &str = "cluster_bus_credentials";

/// The maximum number of servers.
const MOST_SERVERS: usize = 64;
/// The maximum length of a text in these options, in bytes.
const MOST_TEXT: usize = 4_096;
/// The port of NATS.
const PORT: u16 = 4_222;
/// The first letters of a seed of a user's nkey.
const SEED: &str = "SU";

/// The servers of the bus, and who this master is to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bus {
    /// The servers; one that answers is enough.
    pub servers: Vec<BusServer>,
    /// Who this master is to the servers.
    pub login: BusLogin,
    /// A file with the certificates of authorities that sign the servers' certificates (`ca`); without it those of the host count.
    pub ca: Option<PathBuf>,
    /// The files of this master's certificate and of its key (`cert` and `key`).
    pub cert: Option<(PathBuf, PathBuf)>,
}

/// The address of a server. It is shown as a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusServer {
    /// The name or address of the host; an IPv6 address has no brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// TLS is required (`tls://`).
    pub tls: bool,
}

/// Who a master is to the servers of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusLogin {
    /// The servers let everybody in, or whoever has the right certificate.
    None,
    /// A user with a password.
    Password {
        /// The name of the user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A token.
    Token(Secret),
    /// The seed of an nkey.
    Seed(Secret),
    /// A file with the seed of an nkey.
    SeedFile(PathBuf),
    /// A file with a JWT and a seed, as `nsc` makes it.
    Creds(PathBuf),
}

/// An error: an option of the bus is wrong. It never shows a value of `cluster_bus_credentials`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option '{option}' must be {must}, not {found}")]
pub struct WrongBus {
    /// The option.
    pub option: &'static str,
    /// What it must be.
    pub must: String,
    /// What it is, as far as that is no secret.
    pub found: String,
}

impl fmt::Display for BusServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "tls" } else { "nats" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

impl Bus {
    /// Reads both options; `None` without `cluster_bus`.
    ///
    /// # Errors
    /// When one of them says something else than is supported.
    pub fn read(bus: &Value, credentials: &Value) -> Result<Option<Bus>, WrongBus> {
        if matches!(bus, Value::Null) {
            return match credentials.truthy() {
                true => Err(wrong(CREDENTIALS, "left out without 'cluster_bus'")),
                false => Ok(None),
            };
        }
        let servers = servers(bus)?;
        let empty = Map::new();
        let map = match credentials {
            Value::Map(map) => map,
            value if !value.truthy() => &empty,
            _ => return Err(wrong(CREDENTIALS, FORMS)),
        };
        let parts = Parts::read(map)?;
        let cert = match (&parts.cert, &parts.key) {
            (Some(cert), Some(key)) => Some((cert.into(), key.into())),
            (None, None) => None,
            _ => return Err(wrong(CREDENTIALS, "a map with both 'cert' and 'key', or neither")),
        };
        let ca = parts.ca.clone().map(PathBuf::from);
        Ok(Some(Bus { servers, login: parts.login()?, ca, cert }))
    }

    /// Returns whether this master speaks to servers over TLS only, those that other servers name to it among them: where one server is
    /// `tls://`, and with `ca` or `cert`.
    pub fn requires_tls(&self) -> bool {
        self.ca.is_some() || self.cert.is_some() || self.servers.iter().any(|server| server.tls)
    }

    /// Returns the servers as a person reads them in a line.
    pub fn shown(&self) -> String {
        let all: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        all.join(", ")
    }
}

fn wrong(option: &'static str, must: impl Into<String>) -> WrongBus {
    // Either option may have a password in it, at its place or not.
    instead(option, must, "what stands there")
}

fn instead(option: &'static str, must: impl Into<String>, found: impl Into<String>) -> WrongBus {
    WrongBus { option, must: must.into(), found: found.into() }
}

/// What `cluster_bus_credentials` looks like, for errors.
const FORMS: &str = "a map with 'user' and 'password', with 'token', with 'nkey' or with 'creds', and for TLS with 'ca', \
                     'cert' and 'key'";

/// What `cluster_bus` looks like, for errors.
const SERVERS: &str = "servers of NATS, such as nats://h1:4222,h2:4222 or tls://h1";

fn servers(bus: &Value) -> Result<Vec<BusServer>, WrongBus> {
    let entries = match bus {
        Value::List(entries) => &entries[..],
        one => std::slice::from_ref(one),
    };
    let mut all = Vec::new();
    for entry in entries {
        let Value::Str(text) = entry else { return Err(wrong(BUS, SERVERS)) };
        if text.len() > MOST_TEXT {
            return Err(wrong(BUS, format!("a text of at most {MOST_TEXT} bytes")));
        }
        // The scheme of the first server counts for those after it in the same text.
        let mut tls = false;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let server = server(part, tls)?;
            tls = server.tls;
            if !all.contains(&server) {
                all.push(server);
            }
        }
    }
    // Servers tell their clients of each other, so one without TLS would get the login that TLS protects elsewhere.
    if all.iter().any(|server| server.tls) && !all.iter().all(|server| server.tls) {
        return Err(instead(BUS, "servers that are all 'tls://' or all 'nats://'", "of both kinds"));
    }
    match all.len() {
        1..=MOST_SERVERS => Ok(all),
        0 => Err(instead(BUS, SERVERS, "a text without any")),
        _ => Err(wrong(BUS, format!("at most {MOST_SERVERS} servers"))),
    }
}

fn server(text: &str, tls: bool) -> Result<BusServer, WrongBus> {
    let (tls, address) = match text.split_once("://") {
        None => (tls, text),
        Some(("nats", address)) => (false, address),
        Some(("tls", address)) => (true, address),
        Some((scheme, _)) => {
            let scheme: String = scheme.chars().take(32).filter(|character| !character.is_control()).collect();
            return Err(instead(BUS, SERVERS, format!("'{scheme}://'")));
        }
    };
    // What stands before the `@` may be a password: it is not repeated.
    if address.contains('@') {
        let found = "with a user and a password, which belong into 'cluster_bus_credentials'";
        return Err(instead(BUS, SERVERS, found));
    }
    let address = address.trim_end_matches('/');
    let (host, port) = host_port(address)
        .filter(|(host, port)| *port > 0 && is_host(host))
        .ok_or_else(|| wrong(BUS, format!("{SERVERS}, each a host with or without a port")))?;
    Ok(BusServer { host: host.to_owned(), port, tls })
}

/// Splits `host`, `host:port`, `v6`, `[v6]` and `[v6]:port`.
fn host_port(address: &str) -> Option<(&str, u16)> {
    if let Some(rest) = address.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        let port = if port.is_empty() { PORT } else { port.strip_prefix(':')?.parse().ok()? };
        return Some((host, port));
    }
    match address.rsplit_once(':') {
        Some((host, _)) if host.contains(':') => Some((address, PORT)),
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((address, PORT)),
    }
}

fn is_host(host: &str) -> bool {
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    let is_name = |host: &str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    !host.is_empty() && host.len() <= 253 && (is_v6 || is_name(host))
}

/// What `cluster_bus_credentials` says, piece by piece.
#[derive(Default)]
struct Parts {
    user: Option<String>,
    password: Option<String>,
    token: Option<String>,
    nkey: Option<String>,
    creds: Option<String>,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

/// The keys of `cluster_bus_credentials`.
const KEYS: [&str; 8] = ["user", "password", "token", "nkey", "creds", "ca", "cert", "key"];

impl Parts {
    fn read(map: &Map) -> Result<Parts, WrongBus> {
        let mut parts = Parts::default();
        for (key, value) in map.iter() {
            let key = key.as_str().unwrap_or_default();
            let place = match key {
                "user" => &mut parts.user,
                "password" => &mut parts.password,
                "token" => &mut parts.token,
                "nkey" => &mut parts.nkey,
                "creds" => &mut parts.creds,
                "ca" => &mut parts.ca,
                "cert" => &mut parts.cert,
                "key" => &mut parts.key,
                _ => return Err(instead(CREDENTIALS, FORMS, unknown(key))),
            };
            match value {
                Value::Str(text) if !text.is_empty() && text.len() <= MOST_TEXT => *place = Some(text.clone()),
                // YAML reads digits as a number, and another spelling of it would be another password.
                _ => return Err(wrong(CREDENTIALS, format!("a map whose '{key}' is a text, in quotes"))),
            }
        }
        Ok(parts)
    }

    fn login(self) -> Result<BusLogin, WrongBus> {
        let Parts { user, password, token, nkey, creds, .. } = self;
        Ok(match (user, password, token, nkey, creds) {
            (None, None, None, None, None) => BusLogin::None,
            (Some(user), Some(password), None, None, None) => {
                BusLogin::Password { user, password: Secret::new(password) }
            }
            (None, None, Some(token), None, None) => BusLogin::Token(Secret::new(token)),
            (None, None, None, Some(seed), None) if seed.starts_with(SEED) && !seed.contains('/') => {
                BusLogin::Seed(Secret::new(seed))
            }
            (None, None, None, Some(file), None) => BusLogin::SeedFile(file.into()),
            (None, None, None, None, Some(file)) => BusLogin::Creds(file.into()),
            _ => return Err(wrong(CREDENTIALS, FORMS)),
        })
    }
}

/// Describes a key that the map must not have. It may be a password at a wrong place, so only what looks like a key is shown.
fn unknown(key: &str) -> String {
    let shown: &str = if key.len() <= 16 && key.bytes().all(|byte| byte.is_ascii_lowercase()) { key } else { "" };
    match near::nearest(shown, KEYS) {
        Some(meant) => format!("with '{shown}': did you mean '{meant}'?"),
        None if shown.is_empty() => "with another key".to_owned(),
        None => format!("with '{shown}'"),
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    fn servers(bus: impl Into<Value>) -> String {
        Bus::read(&bus.into(), &Value::Null).unwrap().unwrap().shown()
    }

    fn wrong_servers(bus: impl Into<Value>) -> String {
        let wrong = Bus::read(&bus.into(), &Value::Null).unwrap_err();
        assert_eq!(wrong.option, BUS);
        wrong.to_string()
    }

    fn login(credentials: Map) -> BusLogin {
        Bus::read(&"nats://n1".into(), &credentials.into()).unwrap().unwrap().login
    }

    fn wrong_login(credentials: impl Into<Value>) -> String {
        let wrong = Bus::read(&"nats://n1".into(), &credentials.into()).unwrap_err();
        assert_eq!(wrong.option, CREDENTIALS);
        wrong.to_string()
    }

    #[test]
    fn servers_are_a_text_or_a_list() {
        assert_eq!(servers("nats://h1:4222,h2:4223"), "nats://h1:4222, nats://h2:4223");
        assert_eq!(servers("tls://h1, h2"), "tls://h1:4222, tls://h2:4222");
        assert_eq!(
            servers(list!["h1", "nats://[fd00::1]:1", "fd00::2", "h1:4222"]),
            "nats://h1:4222, nats://[fd00::1]:1, nats://[fd00::2]:4222"
        );
        assert_eq!(Bus::read(&Value::Null, &Value::Null), Ok(None));
        for none in [Value::from(""), list![], ",".into()] {
            assert!(wrong_servers(none).ends_with("not a text without any"));
        }
        for both in [list!["tls://h1", "h2"], list!["nats://h1", "tls://h2"], "tls://h1,nats://h2".into()] {
            assert!(wrong_servers(both).ends_with("not of both kinds"));
        }
        assert!(wrong_servers("ws://h1").ends_with("not 'ws://'"));
        assert!(wrong_servers("nats://me:hunter2@h1").ends_with("which belong into 'cluster_bus_credentials'"));
        for odd in ["nats://h1:0", "nats://h1:70000", "h 1", "nats://h1/x", "[::1", "nats://"] {
            assert!(!wrong_servers(odd).contains("without any"), "{odd}");
        }
        wrong_servers(4222);
        wrong_servers(list![map! { "h1" => 4222 }]);
    }

    #[test]
    fn there_is_one_way_to_log_in_and_its_secrets_are_not_shown() {
        let password = login(map! { "user" => "m1", "password" => "hunter2" });
        assert_eq!(password, BusLogin::Password { user: "m1".into(), password: Secret::new("hunter2".into()) });
        assert!(!format!("{password:?}").contains("hunter2"));
        assert_eq!(login(map! { "token" => "t" }), BusLogin::Token(Secret::new("t".into())));
        assert_eq!(login(map! { "nkey" => "SUABC" }), BusLogin::Seed(Secret::new("SUABC".into())));
        assert_eq!(login(map! { "nkey" => "/etc/m1.nk" }), BusLogin::SeedFile("/etc/m1.nk".into()));
        assert_eq!(login(map! { "creds" => "/etc/m1.creds" }), BusLogin::Creds("/etc/m1.creds".into()));
        assert_eq!(login(map! { "ca" => "/etc/ca.pem" }), BusLogin::None);
        for odd in [
            map! { "user" => "hunter2" },
            map! { "token" => "hunter2", "creds" => "hunter2" },
            map! { "password" => "hunter2" },
            map! { "cert" => "hunter2" },
            map! { "token" => 12_345 },
            map! { "token" => "" },
        ] {
            assert!(!wrong_login(odd).contains("hunter2"));
        }
        assert!(wrong_login(map! { "pasword" => "hunter2" }).ends_with("not with 'pasword': did you mean 'password'?"));
        assert!(wrong_login(map! { "Hunter2!" => 1 }).ends_with("not with another key"));
        assert!(wrong_login("hunter2").contains("a map with"));
        let alone = Bus::read(&Value::Null, &map! { "token" => "t" }.into()).unwrap_err();
        assert_eq!(
            alone.to_string(),
            "option 'cluster_bus_credentials' must be left out without 'cluster_bus', not what stands there"
        );
    }

    #[test]
    fn tls_has_files() {
        let credentials = map! { "ca" => "/ca.pem", "cert" => "/c.pem", "key" => "/k.pem" };
        let bus = Bus::read(&"tls://n1".into(), &credentials.into()).unwrap().unwrap();
        assert_eq!(bus.ca, Some("/ca.pem".into()));
        assert_eq!(bus.cert, Some(("/c.pem".into(), "/k.pem".into())));
        let required =
            |servers: &str, login: Map| Bus::read(&servers.into(), &login.into()).unwrap().unwrap().requires_tls();
        assert!(required("tls://n1", map! {}) && required("nats://n1", map! { "ca" => "/ca.pem" }));
        assert!(!required("nats://n1", map! { "token" => "t" }));
    }
}
