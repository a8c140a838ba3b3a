//! The questions to an LDAP server: who a user is, whether a password is right, and what the groups are.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ldap3::{LdapConn, LdapConnSettings, LdapError, LdapResult, Scope, SearchEntry, SearchOptions, ldap_escape};

use super::groups;
use super::options::{Bind, Groups, Settings};

/// How long a server may take to connect, if there is another one.
const PATIENCE_OF_ONE: Duration = Duration::from_secs(3);

/// The codes of answers that matter here.
const SUCCESS: u32 = 0;
const SIZE_LIMIT: u32 = 4;
const NO_SUCH_OBJECT: u32 = 32;
const WRONG_PASSWORD: u32 = 49;

/// What a server says about a login.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The password is right.
    Yes {
        /// The groups of the user.
        groups: Vec<String>,
        /// Why the groups could not be found.
        remark: Option<String>,
    },
    /// The user is unknown, or the password is wrong, for this reason.
    No(String),
}

/// A connection to a server.
struct Session {
    connection: LdapConn,
    server: String,
    deadline: Instant,
}

/// Returns what a server says about a login.
///
/// # Errors
/// When no server can tell.
pub fn login(settings: &Settings, username: &str, password: &str, deadline: Instant) -> Result<Answer, String> {
    // A server takes a bind without a password for one of nobody, and agrees.
    if password.is_empty() {
        return Ok(Answer::No("the password is empty".to_owned()));
    }
    let mut session = Session::open(settings, deadline)?;
    let name = match &settings.bind {
        Bind::Direct(template) => template.bind_name(username),
        Bind::Search { account, password, filter, scope } => {
            session.bind_account(account, &password.0)?;
            let filter = filter.fill(&ldap_escape(username));
            let mut found = session.search(&settings.base, *scope, &filter, vec!["1.1"], 2)?;
            match (found.pop(), found.is_empty()) {
                (Some(entry), true) => entry.dn,
                (Some(_), false) => return Err(format!("{}: more than one entry fits {filter}", session.server)),
                (None, _) => return Ok(Answer::No(format!("no entry fits {filter}"))),
            }
        }
    };
    // This would be a bind of nobody, too.
    if name.is_empty() {
        return Err(format!("{}: the entry of the user has no name", session.server));
    }
    let bound = session.bind(&name, password)?;
    match bound.rc {
        SUCCESS => {}
        WRONG_PASSWORD => return Ok(Answer::No(format!("{name}: {}", failure_text(&bound)))),
        _ => return Err(format!("{}: the bind as {name} failed: {}", session.server, failure_text(&bound))),
    }
    let found = session.groups(settings, username);
    let remark = found.as_ref().err().cloned();
    Ok(Answer::Yes { groups: found.unwrap_or_default(), remark })
}

/// Returns the ids of the minions on the computers below each base.
///
/// # Errors
/// When no server can tell.
pub fn computers(
    settings: &Settings,
    bases: &[String],
    deadline: Instant,
) -> Result<HashMap<String, Vec<String>>, String> {
    let Bind::Search { account, password, .. } = &settings.bind else {
        return Err("entries with ldap(…) need auth.ldap.binddn and auth.ldap.bindpw".to_owned());
    };
    let mut session = Session::open(settings, deadline)?;
    session.bind_account(account, &password.0)?;
    let mut all = HashMap::new();
    for base in bases {
        let filter = "(objectClass=computer)";
        let (found, result) = session.question(base, Scope::Subtree, filter, vec!["cn"], 0)?;
        match result.rc {
            // As in Salt, nothing is below an entry that does not exist.
            SUCCESS | NO_SUCH_OBJECT => all.insert(base.clone(), groups::computers(&found, &settings.suffixes)),
            _ => return Err(session.search_failed(base, filter, &failure_text(&result))),
        };
    }
    Ok(all)
}

impl Session {
    /// Connects to the first server that can be reached.
    fn open(settings: &Settings, deadline: Instant) -> Result<Self, String> {
        let mut failures = Vec::new();
        for (place, server) in settings.servers.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_last = place + 1 == settings.servers.len();
            let patience = if is_last { left } else { left.min(PATIENCE_OF_ONE) };
            let connecting = LdapConnSettings::new()
                .set_conn_timeout(patience)
                .set_starttls(settings.starttls)
                .set_no_tls_verify(settings.no_verify);
            match LdapConn::with_settings(connecting, server) {
                Ok(connection) => return Ok(Session { connection, server: server.clone(), deadline }),
                Err(error) => failures.push(format!("{server}: failed to connect: {}", why(&error))),
            }
        }
        Err(failures.join("; "))
    }

    /// The connection, with the time that is left for the next question.
    fn next(&mut self) -> Result<&mut LdapConn, String> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            left if left.is_zero() => Err(format!("{}: no answer in time", self.server)),
            left => {
                self.connection.with_timeout(left);
                Ok(&mut self.connection)
            }
        }
    }

    fn bind(&mut self, name: &str, password: &str) -> Result<LdapResult, String> {
        let bound = self.next()?.simple_bind(name, password);
        bound.map_err(|error| format!("{}: the bind as {name} failed: {}", self.server, why(&error)))
    }

    /// Binds as the service account.
    fn bind_account(&mut self, account: &str, password: &str) -> Result<(), String> {
        let bound = self.bind(account, password)?;
        match bound.rc {
            SUCCESS => Ok(()),
            _ => {
                Err(format!("{}: the bind as auth.ldap.binddn {account} failed: {}", self.server, failure_text(&bound)))
            }
        }
    }

    /// Returns the entries that fit a filter. There is no limit if `most` is 0; with another one, an entry more than one is not
    /// a failure.
    fn search(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: Vec<&str>,
        most: i32,
    ) -> Result<Vec<SearchEntry>, String> {
        let (entries, result) = self.question(base, scope, filter, attributes, most)?;
        match result.rc {
            SUCCESS => Ok(entries),
            SIZE_LIMIT if most > 0 && entries.len() > 1 => Ok(entries),
            NO_SUCH_OBJECT => Err(self.search_failed(base, filter, "there is no such entry")),
            _ => Err(self.search_failed(base, filter, &failure_text(&result))),
        }
    }

    /// Returns the entries that fit a filter, and how the search has ended.
    fn question(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &str,
        attributes: Vec<&str>,
        most: i32,
    ) -> Result<(Vec<SearchEntry>, LdapResult), String> {
        let connection = self.next()?;
        connection.with_search_options(SearchOptions::new().sizelimit(most));
        match connection.search(base, scope, filter, attributes) {
            Ok(found) => Ok((found.0.into_iter().map(SearchEntry::construct).collect(), found.1)),
            Err(error) => Err(self.search_failed(base, filter, &why(&error))),
        }
    }

    fn search_failed(&self, base: &str, filter: &str, reason: &str) -> String {
        format!("{}: the search of {base} for {filter} failed: {reason}", self.server)
    }

    /// Returns the groups of a user who has bound.
    fn groups(&mut self, settings: &Settings, username: &str) -> Result<Vec<String>, String> {
        if let Bind::Search { account, password, .. } = &settings.bind {
            self.bind_account(account, &password.0)?;
        }
        let escaped = ldap_escape(username);
        match &settings.groups {
            Groups::Members { base, class, account, group } => {
                let filter = format!("(&({account}={escaped})(objectClass={class}))");
                let found = self.search(base, Scope::Subtree, &filter, vec![account, "cn", group], 0)?;
                Ok(groups::of_members(&found, username, account, group))
            }
            Groups::ActiveDirectory { person, account, class } => {
                let filter = format!("(&({account}={escaped})(objectClass={person}))");
                let found = self.search(&settings.base, Scope::Subtree, &filter, vec!["1.1"], 2)?;
                let [user] = found.as_slice() else {
                    return Err(format!("{}: {} entries fit {filter}", self.server, found.len()));
                };
                let filter = format!("(&(member={})(objectClass={class}))", ldap_escape(user.dn.as_str()));
                let found = self.search(&settings.base, Scope::Subtree, &filter, vec!["cn"], 0)?;
                Ok(groups::of_search(&found))
            }
            Groups::FreeIpa { base, filter, attributes } => {
                let filter = filter.fill(&escaped);
                let wanted = vec![attributes[0].as_str(), attributes[1].as_str(), "cn"];
                let found = self.search(base, Scope::Subtree, &filter, wanted, 0)?;
                Ok(groups::of_free_ipa(&found, username, attributes))
            }
        }
    }
}

/// Returns why a question got no answer.
fn why(error: &LdapError) -> String {
    match error {
        LdapError::Timeout { .. } => "no answer in time".to_owned(),
        LdapError::EndOfStream | LdapError::OpSend { .. } | LdapError::ResultRecv { .. } => {
            "the server closed the connection".to_owned()
        }
        LdapError::LdapResult { result } => failure_text(result),
        LdapError::Io { source } => source.to_string(),
        error => error.to_string(),
    }
}

/// Returns what a server says about a failure.
fn failure_text(result: &LdapResult) -> String {
    // The name and the number of the code.
    let code = result.to_string();
    let code = code.split(", dn:").next().unwrap_or_default();
    match result.text.trim() {
        "" => code.to_owned(),
        text => format!("{code}: {}", value::escape::brief(text, 200)),
    }
}
