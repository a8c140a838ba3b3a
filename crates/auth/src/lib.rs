//! Logins: the backends of `external_auth`, and what its entries grant.
//!
//! The checks of a password are pure functions of a file's content, apart from reading the file. Passwords never appear in
//! `Debug` output, errors or log lines.

mod apr1;
mod computers;
mod entries;
mod error;
pub mod ldap;
pub mod pam;
mod password_file;
mod rest;

pub use entries::read as read_entries;
pub use error::Error;
pub use password_file::PasswordFile;
pub use rest::Rest;

use std::sync::Arc;
use std::time::Instant;

use computers::Computers;
use crypto::HashType;
use value::{Map, Value};

/// The longest name of a user, in bytes.
pub const LONGEST_NAME: usize = 256;

/// The longest password, in bytes. Some hashes take time in proportion to it.
pub const LONGEST_PASSWORD: usize = 1024;

/// The shortest `sharedsecret`, in bytes.
const SHORTEST_SECRET: usize = 16;

/// How a backend checks a password.
#[derive(Debug)]
pub enum Backend {
    /// Any password is right.
    Auto,
    /// One password for all names.
    SharedSecret(Secret),
    /// A file of users and passwords.
    File(PasswordFile),
    /// An LDAP server.
    Ldap(ldap::Ldap),
    /// The accounts of this host.
    Pam(Arc<pam::Keeper>),
    /// A web server that knows passwords and entries.
    Rest(Rest),
}

/// The state of an account, regardless of its password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Its user may log in.
    Usable,
    /// It is locked or has expired.
    Closed,
    /// There is none.
    Missing,
}

impl Account {
    /// Returns the word with which a helper of PAM tells the state.
    pub fn word(self) -> &'static str {
        match self {
            Account::Usable => "usable",
            Account::Closed => "closed",
            Account::Missing => "missing",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Account::Usable, Account::Closed, Account::Missing].into_iter().find(|account| account.word() == word)
    }
}

/// What a backend tells about a user whose password is right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// The groups of the user.
    pub groups: Vec<String>,
    /// The entries that count instead of those in the configuration, if there are any.
    pub entries: Option<Vec<Value>>,
}

/// A secret that is never printed.
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Backend {
    /// Creates a backend with the options in its part of `external_auth`.
    fn new(name: &str, part: &Map, given: &Given<'_>) -> Result<Self, Error> {
        match name {
            "auto" => Ok(Backend::Auto),
            "sharedsecret" => match given.options.get_str("sharedsecret") {
                Some(secret) if secret.len() >= SHORTEST_SECRET => Ok(Backend::SharedSecret(Secret(secret.to_owned()))),
                _ => Err(Error::SharedSecret(SHORTEST_SECRET)),
            },
            "file" => Ok(Backend::File(PasswordFile::from_options(part)?)),
            "rest" => Ok(Backend::Rest(Rest::from_options(part)?)),
            "ldap" => Ok(Backend::Ldap(ldap::Ldap::from_options(given.options)?)),
            "pam" => given.keeper.clone().map(Backend::Pam).ok_or(Error::NoKeeper),
            other => Err(Error::Backend(other.to_owned())),
        }
    }

    /// Returns what there is to know about the user if the password is right. May block.
    ///
    /// # Errors
    /// When the backend cannot tell. The login is then refused.
    fn check(&self, username: &str, password: &str) -> Result<Option<Checked>, Error> {
        let is_right = match self {
            Backend::Auto => true,
            Backend::SharedSecret(secret) => same(secret.0.as_bytes(), password.as_bytes()),
            Backend::File(file) => file.check(username, password)?,
            Backend::Ldap(server) => return Ok(in_groups(server.check(username, password)?)),
            Backend::Pam(keeper) => return Ok(in_groups(keeper.check(username, password)?)),
            Backend::Rest(server) => {
                let entries = server.check(username, password)?;
                return Ok(entries.map(|entries| Checked { groups: Vec::new(), entries: Some(entries) }));
            }
        };
        Ok(is_right.then(Checked::default))
    }
}

impl Backend {
    /// Returns whether the backend can tell about an account without its password.
    pub fn knows_accounts(&self) -> bool {
        matches!(self, Backend::Pam(_))
    }
}

/// Returns what there is to know about a user of these groups.
fn in_groups(groups: Option<Vec<String>>) -> Option<Checked> {
    groups.map(|groups| Checked { groups, entries: None })
}

/// One backend of `external_auth`, with the entries of its users.
#[derive(Debug)]
pub struct Provider {
    /// The name of the backend.
    pub name: String,
    /// The check.
    pub backend: Backend,
    /// The list of entries of each user, pattern or group.
    pub entries: Map,
}

/// What backends need that is not in their part of `external_auth`.
pub struct Given<'a> {
    /// The options of the master: `sharedsecret`, `auth.ldap.*` and `eauth_acl_module` are read.
    pub options: &'a Map,
    /// The keeper of PAM, if it runs.
    pub keeper: Option<Arc<pam::Keeper>>,
}

/// The backends of `external_auth`.
#[derive(Debug, Default)]
pub struct Providers {
    all: Vec<Provider>,
    /// The backend that is asked for entries, whichever one the user logs in with.
    acl_module: Option<String>,
    /// The computers in entries of the backend `ldap`.
    computers: Computers,
}

/// The backend that has entries of its own.
const REST: &str = "rest";

/// The backend whose entries may name computers.
const LDAP: &str = "ldap";

/// The supported backends. Only [`REST`] has entries of its own, so the others are an `eauth_acl_module` without effect.
pub const BACKENDS: [&str; 6] = ["auto", "file", LDAP, "pam", REST, "sharedsecret"];

impl Providers {
    /// Reads `external_auth`. Logs what is odd in it.
    ///
    /// A master that comes from Salt starts although a backend is not supported or a file of passwords cannot be used now: only
    /// logins with it are refused.
    ///
    /// # Errors
    /// When the options of a supported backend cannot be obeyed, or would let everybody in.
    pub fn read(external_auth: &Map, given: &Given<'_>) -> Result<Self, Error> {
        let mut providers = Vec::new();
        for (name, part) in external_auth {
            let name = name.to_string();
            let part = part.as_map().ok_or_else(|| Error::NotAMap(name.clone()))?;
            let backend = match Backend::new(&name, part, given) {
                Err(error @ (Error::Backend(_) | Error::NoKeeper)) => {
                    tracing::error!("{error}: its users cannot log in");
                    continue;
                }
                backend => backend?,
            };
            match &backend {
                Backend::Auto => {
                    tracing::warn!("external_auth: the backend 'auto' lets everybody in, whatever the password is");
                }
                Backend::File(file) => {
                    if let Err(error) = file.inspect() {
                        tracing::error!("{error}");
                    }
                }
                Backend::Rest(server) if server.is_unprotected() => {
                    tracing::warn!("external_auth: rest: '^url' begins with http:, so passwords are sent unprotected");
                }
                Backend::SharedSecret(_) | Backend::Ldap(_) | Backend::Pam(_) | Backend::Rest(_) => {}
            }
            let (entries, oddities) = entries::read(part);
            for oddity in oddities {
                tracing::warn!("external_auth: {name}: {oddity}");
            }
            providers.push(Provider { name, backend, entries });
        }
        let acl_module = given.options.get_str("eauth_acl_module").filter(|module| !module.is_empty());
        let acl_module = acl_module.map(str::to_owned);
        let ldap = providers.iter().find(|provider| provider.name == LDAP);
        let computers = ldap.map(|provider| Computers::of(&provider.entries)).unwrap_or_default();
        let providers = Providers { all: providers, acl_module, computers };
        match providers.acl_module.as_deref() {
            Some(module) if !BACKENDS.contains(&module) => Err(Error::AclModule(module.to_owned())),
            Some(REST) if providers.get(REST).is_none() => Err(Error::NoServer),
            _ => Ok(providers),
        }
    }

    /// Returns the backend of this name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.all.iter().find(|provider| provider.name == name)
    }

    /// Returns whether any backend [knows accounts](Backend::knows_accounts).
    pub fn know_accounts(&self) -> bool {
        self.all.iter().any(|provider| provider.backend.knows_accounts())
    }

    /// Returns the state of an account. It is usable if the backend does not know accounts. May block.
    ///
    /// # Errors
    /// When the backend cannot tell.
    pub fn account(&self, backend: &str, username: &str) -> Result<Account, Error> {
        match self.get(backend).map(|provider| &provider.backend) {
            Some(Backend::Pam(keeper)) => keeper.account(username),
            _ => Ok(Account::Usable),
        }
    }

    /// Returns what there is to know about the user of a backend if the password is right. May block.
    ///
    /// # Errors
    /// When the backend cannot tell. The login is then refused.
    pub fn check(&self, backend: &str, username: &str, password: &str) -> Result<Option<Checked>, Error> {
        let Some(provider) = self.get(backend) else { return Ok(None) };
        let Some(mut checked) = provider.backend.check(username, password)? else { return Ok(None) };
        if backend == LDAP && self.are_computers_due() {
            self.ask_for_computers();
        }
        let sent = match (self.acl_module.as_deref().unwrap_or(backend), backend) {
            (REST, REST) => checked.entries,
            (REST, _) => self.sent(username, password),
            _ => None,
        };
        checked.entries = sent.and_then(|sent| self.merged(username, sent));
        Ok(Some(checked))
    }

    /// Returns entries of a backend with the minions that they stand for.
    pub fn expand(&self, backend: &str, entries: Vec<Value>) -> Vec<Value> {
        if backend == LDAP { self.computers.expand(entries) } else { entries }
    }

    /// Returns whether the LDAP server should be asked for computers. Who gets a yes calls [`Providers::ask_for_computers`].
    pub fn are_computers_due(&self) -> bool {
        self.computers.is_due(Instant::now())
    }

    /// Asks the LDAP server for the computers that entries stand for. Blocks.
    pub fn ask_for_computers(&self) {
        if let Some(Backend::Ldap(server)) = self.get(LDAP).map(|provider| &provider.backend) {
            self.computers.ask(server);
        }
    }

    /// Returns the entries that the web server has for a user who has logged in with another backend; `None` if there is no
    /// telling, so that only the configuration counts.
    fn sent(&self, username: &str, password: &str) -> Option<Vec<Value>> {
        match self.get(REST)?.backend.check(username, password) {
            // A user that the server does not let in has no entries there.
            Ok(answer) => Some(answer.and_then(|checked| checked.entries).unwrap_or_default()),
            Err(error) => {
                tracing::warn!("{}: the entries are those of the configuration", value::error::chain(&error));
                None
            }
        }
    }

    /// Returns the entries of the configuration for exactly this name, and those that the server has sent. As in Salt, patterns and
    /// `*` count only if there are none of both.
    fn merged(&self, username: &str, sent: Vec<Value>) -> Option<Vec<Value>> {
        let own = self.get(REST)?.entries.get(username).and_then(Value::as_list).unwrap_or_default();
        let merged: Vec<Value> = own.iter().cloned().chain(sent).collect();
        (!merged.is_empty()).then_some(merged)
    }
}

/// Returns whether a text can be the name of a user.
///
/// Names are compared with patterns in `external_auth`. A name that is itself a pattern is nobody's, and in Salt it got the
/// permissions of others.
pub fn is_name(text: &str) -> bool {
    let is_bad = |letter: char| letter.is_control() || matches!(letter, '*' | '?' | '[' | ']');
    !text.is_empty() && text.len() <= LONGEST_NAME && !text.contains(is_bad)
}

/// Returns whether two secrets are equal. The time it takes says nothing about where they differ, or how long they are.
fn same(a: &[u8], b: &[u8]) -> bool {
    let [a, b] = [a, b].map(|secret| HashType::Sha256.digest(secret));
    a.iter().zip(&b).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    fn read(external_auth: Map, options: Map) -> Result<Providers, String> {
        let given = Given { options: &options, keeper: None };
        Providers::read(&external_auth, &given).map_err(|error| error.to_string())
    }

    #[test]
    fn a_backend_that_is_not_supported_lets_nobody_in_and_stops_no_start() {
        for name in ["pam", "pki", "django", "keystone", "mysql", "yubico", "nonsense"] {
            let fred = || map! { "fred" => list![".*"] };
            let providers = read(map! { name => fred(), "auto" => fred() }, map! {}).unwrap();
            assert!(providers.get(name).is_none() && providers.get("auto").is_some(), "{name}");
        }
        let refused = read(map! { "auto" => list!["fred"] }, map! {}).unwrap_err();
        assert_eq!(refused, "external_auth: 'auto' must be a map of users and lists of functions");
    }

    #[test]
    fn a_shared_secret_must_be_a_long_text() {
        let with = |secret: Value| {
            read(map! { "sharedsecret" => map! { "fred" => list![".*"] } }, map! { "sharedsecret" => secret })
        };
        for bad in [Value::Null, "".into(), "fifteen letters".into(), 1.into()] {
            let refused = with(bad.clone()).unwrap_err();
            assert!(refused.contains("needs the option 'sharedsecret'"), "{bad:?}: {refused}");
        }
        let providers = with("exactly sixteen.".into()).unwrap();
        let check = |password| providers.check("sharedsecret", "anybody", password).unwrap();
        assert_eq!(check("exactly sixteen."), Some(Checked::default()));
        for wrong in ["", "exactly sixteen", "exactly sixteen..", "None"] {
            assert_eq!(check(wrong), None, "{wrong}");
        }
        assert!(!format!("{providers:?}").contains("sixteen"));
    }

    #[test]
    fn entries_of_a_server_are_added_to_those_of_the_name() {
        let part = map! { "^url" => "http://127.0.0.1:9/", "fred" => list!["test.*"], "fr.*" => list![".*"] };
        let providers = read(map! { "rest" => part }, map! {}).unwrap();
        let merged =
            |name: &str, sent: &[&str]| providers.merged(name, sent.iter().map(|sent| (*sent).into()).collect());
        assert_eq!(merged("fred", &["pkg.*"]), Some(vec!["test.*".into(), "pkg.*".into()]));
        assert_eq!(merged("fred", &[]), Some(vec!["test.*".into()]));
        assert_eq!(merged("frank", &["pkg.*"]), Some(vec!["pkg.*".into()]));
        assert_eq!(merged("frank", &[]), None, "patterns count");
        // The address is an option, and not a user.
        assert_eq!(merged("^url", &[]), None);
    }

    #[test]
    fn the_module_of_entries_must_be_one_that_is_known() {
        let with = |module: &str, parts| read(parts, map! { "eauth_acl_module" => module });
        let auto = || map! { "auto" => map! { "*" => list!["test.*"] } };
        let both =
            map! { "auto" => map! { "*" => list!["test.*"] }, "rest" => map! { "^url" => "http://127.0.0.1:9/" } };
        assert!(with("mine", auto()).unwrap_err().contains("'mine'"));
        assert!(with("rest", auto()).unwrap_err().contains("needs the backend 'rest'"));
        for (module, parts) in [("", auto()), ("file", auto()), ("rest", both)] {
            // A server that cannot be reached takes nothing away from what the configuration says.
            let providers = with(module, parts).unwrap();
            assert_eq!(providers.check("auto", "fred", "x").unwrap(), Some(Checked::default()), "{module}");
        }
    }

    #[test]
    fn patterns_are_no_names() {
        for name in ["fred", "Fred Smith", "EXAMPLE\\fred", "fred@example.com", "a|b", ".x", "müller", "uid=x,ou=Y"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "*", ".*", "f?", "[a-z]red", "fred\n", "fred\0", &"a".repeat(257)] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
