//! The options of `rest_cherrypy`: each is obeyed, or refused at the start.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use value::{Map, Value};

use crate::addresses::means;
use crate::files::{Directory, Page};
use crate::origin::Cors;

/// What an option must be.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// There is nothing to serve.
    #[error("nothing to serve: the option rest_cherrypy is not set{0}")]
    Nothing(&'static str),
    /// An option is missing.
    #[error("rest_cherrypy: the option '{0}' is missing{1}")]
    Missing(&'static str, &'static str),
    /// An option has a wrong value.
    #[error("{0} must be {1}")]
    Wrong(String, &'static str),
    /// An option is not supported.
    #[error("rest_cherrypy: the option '{0}' is not supported: {1}")]
    Unsupported(&'static str, &'static str),
}

/// Files of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The certificates between it and the root.
    pub chain: Option<PathBuf>,
}

/// The options, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The address to listen on.
    pub host: String,
    /// The port.
    pub port: u16,
    /// TLS, unless it is disabled.
    pub tls: Option<TlsFiles>,
    /// The largest body, in bytes.
    pub most_body: usize,
    /// The prefix of all paths, without a slash at its end.
    pub prefix: String,
    /// True for routes that need sessions.
    pub sessions: bool,
    /// The path of webhooks.
    pub hook: String,
    /// True if webhooks need a login.
    pub hook_login: bool,
    /// True for statistics.
    pub statistics: bool,
    /// True if statistics need a login.
    pub statistics_login: bool,
    /// Files for browsers (`static`, `static_path`).
    pub files: Option<Directory>,
    /// The page that browsers get (`app`, `app_path`).
    pub app: Option<Page>,
    /// The file that gets a line for each request (`log_access_file`).
    pub access_file: Option<PathBuf>,
    /// The file that gets a line for each request that the program failed to answer (`log_error_file`).
    pub error_file: Option<PathBuf>,
    /// The icon.
    pub favicon: Option<PathBuf>,
    /// True for the pages of the console.
    pub console: bool,
    /// Who may read answers in a page.
    pub cors: Cors,
    /// The addresses that may read `/metrics` without a login, beside this host.
    pub metrics_allow: Vec<IpAddr>,
    /// The addresses that may connect; `None` for all.
    pub addresses: Option<Vec<String>>,
    /// Where users may log in from; `None` for anywhere.
    pub users_at: Option<HashMap<String, Vec<String>>>,
    /// The clients that may be used (`netapi_enable_clients`).
    pub clients: Vec<String>,
    /// How long runners are waited for (`rest_timeout`).
    pub runner_timeout: Duration,
}

/// Options without effect, and why.
const WITHOUT_EFFECT: [(&str, &str); 6] = [
    ("thread_pool", "requests take no threads"),
    ("queue_size", "no release of Salt since 3006 reads it"),
    ("expire_responses", "it has none in Salt, either"),
    ("debug", "answers never carry tracebacks; the log has the reason"),
    ("socket_queue_size", "the system decides"),
    ("backlog", "the system decides"),
];

/// The options that are obeyed.
const OBEYED: [&str; 26] = [
    "host",
    "port",
    "ssl_crt",
    "ssl_key",
    "ssl_chain",
    "disable_ssl",
    "max_request_body_size",
    "root_prefix",
    "enable_sessions",
    "webhook_url",
    "webhook_disable_auth",
    "collect_stats",
    "log_access_file",
    "log_error_file",
    "stats_disable_auth",
    "static",
    "static_path",
    "app",
    "app_path",
    "favicon",
    "console",
    "cors_origin",
    "authorized_ips",
    "metrics_allow",
    "api_acl",
    "ssl_version",
];

/// Paths that are taken.
const TAKEN: [&str; 16] = [
    "/console",
    "/events",
    "/favicon.ico",
    "/healthz",
    "/jobs",
    "/keys",
    "/login",
    "/logout",
    "/metrics",
    "/minions",
    "/readyz",
    "/run",
    "/stats",
    "/token",
    "/v1",
    "/ws",
];

/// The default of `max_request_body_size`.
const MOST_BODY: usize = 1 << 20;

impl Options {
    /// Reads the options, and says what has no effect.
    ///
    /// # Errors
    /// When an option is missing or cannot be obeyed.
    pub fn read(master: &Map) -> Result<(Self, Vec<String>), Error> {
        let mut warnings = Vec::new();
        for other in ["rest_tornado", "rest_wsgi"] {
            if master.get(other).is_some_and(Value::truthy) {
                warnings.push(format!("the option '{other}' has no effect: salt-api serves what rest_cherrypy says"));
            }
        }
        let section = match master.get("rest_cherrypy") {
            Some(Value::Map(section)) if !section.is_empty() => section,
            None | Some(Value::Null | Value::Map(_)) => {
                let hint = if warnings.is_empty() { "" } else { " (rest_tornado and rest_wsgi are not supported)" };
                return Err(Error::Nothing(hint));
            }
            Some(_) => return Err(Error::Wrong("rest_cherrypy".into(), "a map")),
        };
        refuse(section, &mut warnings)?;
        let read = Section(section);
        let hook = read.path("webhook_url", "/hook")?;
        let (files, app) = (read.files()?, read.app()?);
        read.check_paths([
            ("webhook_url", Some(&hook)),
            ("static_path", files.as_ref().map(|files| &files.path)),
            ("app_path", app.as_ref().map(|app| &app.path)),
        ])?;
        let prefix = read.text("root_prefix")?.unwrap_or_default().trim_matches('/');
        if !prefix.is_empty() && !prefix.split('/').all(is_plain) {
            return Err(read.wrong("root_prefix", "a path such as /salt"));
        }
        let options = Options {
            host: read.text("host")?.unwrap_or("0.0.0.0").to_owned(),
            port: read.port()?,
            tls: read.tls()?,
            most_body: read.size("max_request_body_size", MOST_BODY)?,
            prefix: if prefix.is_empty() { String::new() } else { format!("/{prefix}") },
            sessions: read.flag("enable_sessions", true)?,
            hook,
            hook_login: !read.flag("webhook_disable_auth", false)?,
            statistics: read.flag("collect_stats", false)?,
            statistics_login: !read.flag("stats_disable_auth", false)?,
            files,
            app,
            access_file: read.place("log_access_file")?,
            error_file: read.place("log_error_file")?,
            favicon: read.place("favicon")?,
            // A page needs to know who sees it.
            console: read.flag("console", true)? && read.flag("enable_sessions", true)?,
            cors: Cors::from_option(section.get("cors_origin"))
                .ok_or_else(|| read.wrong("cors_origin", "a text or a list of texts"))?,
            metrics_allow: read.addresses("metrics_allow")?,
            addresses: read.texts("authorized_ips")?,
            users_at: read.users_at()?,
            clients: clients(master)?,
            runner_timeout: runner_timeout(master)?,
        };
        Ok((options, warnings))
    }
}

fn refuse(section: &Map, warnings: &mut Vec<String>) -> Result<(), Error> {
    for name in section.text_keys() {
        if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
            warnings.push(format!("rest_cherrypy: the option '{name}' has no effect: {why}"));
        } else if !OBEYED.contains(&name) {
            warnings.push(format!("rest_cherrypy: the option '{name}' is not known{}", hint(name, &OBEYED)));
        }
    }
    if section.get("ssl_version").is_some_and(Value::truthy) {
        return Err(Error::Unsupported("ssl_version", "TLS 1.2 and 1.3 are offered"));
    }
    Ok(())
}

/// Returns whether a text can be a part of a path in the table of routes.
fn is_plain(part: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '~');
    !part.is_empty() && !matches!(part, "." | "..") && part.chars().all(is_plain)
}

fn clients(master: &Map) -> Result<Vec<String>, Error> {
    let wrong = || Error::Wrong("netapi_enable_clients".into(), "a list of names");
    match master.get("netapi_enable_clients") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::List(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

fn runner_timeout(master: &Map) -> Result<Duration, Error> {
    let seconds = match master.get("rest_timeout") {
        None | Some(Value::Null) => 300.0,
        Some(value) => value.as_f64().unwrap_or(-1.0),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| Error::Wrong("rest_timeout".into(), "a number of seconds"))
}

/// The map of `rest_cherrypy`.
struct Section<'a>(&'a Map);

impl<'a> Section<'a> {
    fn wrong(&self, name: &str, what: &'static str) -> Error {
        Error::Wrong(format!("rest_cherrypy: the option '{name}'"), what)
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Error> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text).filter(|text| !text.is_empty()).map(String::as_str)),
            Some(_) => Err(self.wrong(name, "a text")),
        }
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(name, "True or False")),
        }
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Str(text)) => Ok(Some(vec![text.clone()])),
            Some(Value::List(items)) => {
                let text = |item: &Value| item.as_str().map(str::to_owned);
                let texts: Option<Vec<String>> = items.iter().map(text).collect();
                texts.map(Some).ok_or_else(|| self.wrong(name, "a list of addresses"))
            }
            Some(_) => Err(self.wrong(name, "a list of addresses")),
        }
    }

    fn size(&self, name: &str, default: usize) -> Result<usize, Error> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => {
                let size = value.as_i64().and_then(|size| usize::try_from(size).ok());
                size.ok_or_else(|| self.wrong(name, "a number of bytes"))
            }
        }
    }

    /// Returns a path of requests.
    fn path(&self, name: &str, default: &str) -> Result<String, Error> {
        let path = self.text(name)?.unwrap_or(default).trim_matches('/');
        if path.is_empty() || !path.split('/').all(is_plain) {
            return Err(self.wrong(name, "a path such as /salt/files"));
        }
        Ok(format!("/{path}"))
    }

    /// Returns the place of a file or directory.
    fn place(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        match self.text(name)?.map(PathBuf::from) {
            // Where a daemon was started does not matter.
            Some(place) if !place.is_absolute() => Err(self.wrong(name, "an absolute path")),
            place => Ok(place),
        }
    }

    fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        let texts = self.texts(name)?.unwrap_or_default();
        texts.iter().map(|text| text.parse().map_err(|_| self.wrong(name, "a list of addresses"))).collect()
    }

    fn files(&self) -> Result<Option<Directory>, Error> {
        let path = self.path("static_path", "/static")?;
        Ok(self.place("static")?.map(|place| Directory { place, path }))
    }

    fn app(&self) -> Result<Option<Page>, Error> {
        let path = self.path("app_path", "/app")?;
        Ok(self.place("app")?.map(|file| Page { file, path }))
    }

    /// Refuses a path that is taken.
    fn check_paths(&self, paths: [(&str, Option<&String>); 3]) -> Result<(), Error> {
        let mut taken: Vec<&str> = TAKEN.to_vec();
        for (name, path) in paths {
            let Some(path) = path else { continue };
            if taken.contains(&path.as_str()) {
                return Err(self.wrong(name, "a path that nothing else has"));
            }
            taken.push(path);
        }
        Ok(())
    }

    fn port(&self) -> Result<u16, Error> {
        let port = self.0.get("port").ok_or(Error::Missing("port", ""))?;
        let number = match port {
            Value::Str(text) => text.parse().ok(),
            other => other.as_i64().and_then(|port| u16::try_from(port).ok()),
        };
        number.ok_or_else(|| self.wrong("port", "a number up to 65535"))
    }

    fn tls(&self) -> Result<Option<TlsFiles>, Error> {
        if self.flag("disable_ssl", false)? {
            return Ok(None);
        }
        const OR: &str = " (for clients on this host or behind a proxy, 'disable_ssl: True' goes without TLS)";
        let certificate = self.text("ssl_crt")?.ok_or(Error::Missing("ssl_crt", OR))?;
        let key = self.text("ssl_key")?.ok_or(Error::Missing("ssl_key", OR))?;
        let chain = self.text("ssl_chain")?.map(PathBuf::from);
        Ok(Some(TlsFiles { certificate: certificate.into(), key: key.into(), chain }))
    }

    fn users_at(&self) -> Result<Option<HashMap<String, Vec<String>>>, Error> {
        let wrong = || self.wrong("api_acl", "a map with 'users': lists of addresses by name");
        let acl = match self.0.get("api_acl") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Map(acl)) => acl,
            Some(_) => return Err(wrong()),
        };
        let mut all = HashMap::new();
        // Without users it refuses everybody, as in Salt.
        if let Some(users) = acl.get("users") {
            for (name, addresses) in users.as_map().ok_or_else(wrong)? {
                let addresses = match addresses {
                    Value::List(addresses) => addresses.iter().map(ToString::to_string).collect(),
                    // Salt takes a text, too: `admin: "*"`.
                    Value::Str(address) => vec![address.clone()],
                    _ => return Err(wrong()),
                };
                all.insert(name.to_string(), addresses);
            }
        }
        Ok(Some(all))
    }
}

impl Options {
    /// Returns whether users may log in from some addresses only (`api_acl`).
    pub fn limits_addresses(&self) -> bool {
        self.users_at.is_some()
    }

    /// Returns whether a user may log in from an address (`api_acl`). A name of its own counts instead of `*`.
    pub fn may_log_in_from(&self, user: &str, address: &str) -> bool {
        let Some(users) = &self.users_at else { return true };
        let allowed = users.get(user).or_else(|| users.get("*"));
        allowed.is_some_and(|allowed| allowed.iter().any(|known| known == "*" || means(known, address)))
    }

    /// Returns whether clients at an address are served (`authorized_ips`).
    pub fn serves(&self, address: &str) -> bool {
        self.addresses.as_ref().is_none_or(|known| known.iter().any(|known| means(known, address)))
    }
}

/// Returns the question for the name that was probably meant, or nothing.
pub fn hint(name: &str, known: &[&str]) -> String {
    let near = value::near::nearest(name, known.iter().copied());
    near.map(|near| format!(". Did you mean '{near}'?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    fn read(more: Map) -> Result<(Options, Vec<String>), Error> {
        let mut section = map! { "port" => 8000, "disable_ssl" => true };
        section.update(more);
        Options::read(&map! { "rest_cherrypy" => section, "netapi_enable_clients" => list!["local"] })
    }

    #[test]
    fn defaults_are_those_of_salt() {
        let (options, warnings) = read(Map::new()).unwrap();
        assert_eq!((options.host.as_str(), options.port, options.tls.clone()), ("0.0.0.0", 8000, None));
        assert_eq!((options.prefix.as_str(), options.hook.as_str(), options.hook_login), ("", "/hook", true));
        assert_eq!(options.runner_timeout, Duration::from_secs(300));
        assert!(options.may_log_in_from("fred", "10.0.0.1") && options.serves("10.0.0.1"));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn nothing_is_served_in_the_clear_by_accident() {
        let section = |more: Map| Options::read(&map! { "rest_cherrypy" => more });
        let error = section(map! { "port" => 8000 }).unwrap_err();
        assert!(matches!(error, Error::Missing("ssl_crt", _)), "{error}");
        let error = section(map! { "port" => 8000, "ssl_crt" => "/c" }).unwrap_err();
        assert!(matches!(error, Error::Missing("ssl_key", _)), "{error}");
        let (options, _) = section(map! { "port" => 1, "ssl_crt" => "/c", "ssl_key" => "/k" }).unwrap();
        assert_eq!(options.tls.unwrap().key, PathBuf::from("/k"));
        assert_eq!(section(map! { "disable_ssl" => true }).unwrap_err(), Error::Missing("port", ""));
        assert_eq!(Options::read(&Map::new()).unwrap_err(), Error::Nothing(""));
        let tornado = Options::read(&map! { "rest_tornado" => map! { "port" => 1 } }).unwrap_err();
        assert!(tornado.to_string().ends_with("(rest_tornado and rest_wsgi are not supported)"), "{tornado}");
    }

    #[test]
    fn what_cannot_be_obeyed_is_refused_and_the_rest_is_named() {
        for name in ["log_access_file", "log_error_file"] {
            assert!(read(map! { name => "x" }).unwrap_err().to_string().contains(name), "{name}");
            assert!(read(map! { name => "" }).is_ok(), "{name}");
        }
        for (name, wrong) in [
            ("port", Value::from(70_000)),
            ("disable_ssl", "yes".into()),
            ("host", 7.into()),
            ("max_request_body_size", (-1).into()),
            ("cors_origin", 7.into()),
            ("authorized_ips", 7.into()),
            ("api_acl", list![]),
            ("api_acl", map! { "users" => map! { "fred" => 7 } }.into()),
            ("webhook_url", "/a/../b".into()),
            ("webhook_url", "/{x}".into()),
            ("root_prefix", "/a b".into()),
            ("static", "files".into()),
            ("static", 7.into()),
            ("app", "~/index.html".into()),
            ("favicon", "x.ico".into()),
            ("static_path", "/".into()),
            ("app_path", "/{x}".into()),
            ("webhook_url", "/login".into()),
        ] {
            assert!(read(map! { name => wrong.clone() }).unwrap_err().to_string().contains(name), "{name} {wrong:?}");
        }
        let (_, warnings) = read(map! { "thread_pool" => 5, "nonsense" => 1 }).unwrap();
        assert!(warnings.len() == 2 && warnings[0].contains("thread_pool") && warnings[1].contains("not known"));
    }

    #[test]
    fn files_have_paths_of_their_own() {
        let (options, warnings) = read(map! { "static" => "/srv/gui/static", "app" => "/srv/gui/index.html" }).unwrap();
        assert_eq!(options.files.unwrap(), Directory { place: "/srv/gui/static".into(), path: "/static".into() });
        assert_eq!(options.app.unwrap(), Page { file: "/srv/gui/index.html".into(), path: "/app".into() });
        assert!(warnings.is_empty(), "{warnings:?}");
        for (name, path) in [("static_path", "/hook"), ("static_path", "/app/"), ("app_path", "/jobs")] {
            let error = read(map! { "static" => "/srv", "app" => "/srv/x", name => path }).unwrap_err();
            assert!(error.to_string().ends_with("must be a path that nothing else has"), "{error}");
        }
        assert!(read(map! { "static_path" => "/login" }).is_ok(), "without files there is no such path");
    }

    #[test]
    fn users_log_in_from_their_addresses() {
        let users = map! { "fred" => list!["10.0.0.1"], "*" => list!["10.0.0.2"], "ann" => list!["*"], "eve" => "*" };
        let (options, _) = read(map! { "api_acl" => map! { "users" => users } }).unwrap();
        for (user, address, allowed) in [
            ("fred", "10.0.0.1", true),
            ("fred", "10.0.0.2", false),
            ("bob", "10.0.0.2", true),
            ("bob", "10.0.0.1", false),
            ("ann", "10.0.0.9", true),
            ("eve", "10.0.0.9", true),
        ] {
            assert_eq!(options.may_log_in_from(user, address), allowed, "{user} {address}");
        }
        let (options, _) = read(map! { "api_acl" => map! {} }).unwrap();
        assert!(!options.may_log_in_from("fred", "10.0.0.1"));
        let (options, _) =
            read(map! { "authorized_ips" => list!["10.0.0.1", "10.1.0.0/16"], "root_prefix" => "salt/" }).unwrap();
        assert!(options.serves("10.0.0.1") && options.serves("10.1.2.3") && !options.serves("10.0.0.2"));
        assert_eq!(options.prefix, "/salt");
    }
}
