//! Local users: the keys they prove themselves with, and what they may do.

use std::collections::HashMap;

use config::Master;
use nix::unistd::{User, geteuid};
use rt::Rt;
use store::user_keys::UserKeys;
use targeting::acl::entries_for;
use targeting::expr_match;
use tracing::{debug, info, warn};
use value::{Map, Value};

/// What somebody may do.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    /// Everything.
    All,
    /// What an authorisation list allows.
    Listed(Vec<Value>),
}

/// The users of this host that may command the master.
pub struct Users {
    keys: HashMap<String, String>,
    /// The user the master is said to run as.
    master: String,
    /// The user it really runs as.
    process: String,
    acl: Map,
    sudo_acl: bool,
    permissive: bool,
    blacklist: Map,
}

/// The keys of local users, by their names.
///
/// A daemon makes them while it still is root: only root can give a file to the user who is to read it, and later, as
/// another user, the master cannot read what belongs to them.
pub struct LocalKeys(HashMap<String, String>);

impl LocalKeys {
    /// Makes the key files: for the master's user, the user of this process, and everybody `publisher_acl` names.
    pub fn prepare(config: &Master, rt: &Rt) -> Self {
        let store = UserKeys::new(&config.paths.cachedir);
        let process = process_user();
        let acl = &config.access.publisher_acl;
        let mut names: Vec<String> = acl.text_keys().map(str::to_owned).collect();
        names.extend([config.user.clone(), process.clone()]);
        if config.access.client_acl_verify && !acl.is_empty() {
            names.extend(system_users().into_iter().filter(|user| acl.text_keys().any(|key| expr_match(user, key))));
        }
        let mut keys = HashMap::new();
        for name in names {
            if name.is_empty() || keys.contains_key(&name) {
                continue;
            }
            if let Some(key) = make_key(&name, &store, rt) {
                keys.insert(name, key);
            }
        }
        LocalKeys(keys)
    }
}

impl Users {
    /// The users with these keys, and what the configuration lets them do.
    pub fn new(config: &Master, keys: LocalKeys) -> Self {
        Users {
            keys: keys.0,
            master: config.user.clone(),
            process: process_user(),
            acl: config.access.publisher_acl.clone(),
            sudo_acl: config.access.sudo_acl,
            permissive: config.access.permissive_acl,
            blacklist: config.access.publisher_acl_blacklist.clone(),
        }
    }

    /// Says what a user with a key may do; `None` when the key is not theirs.
    ///
    /// Who calls themself the master's user or root, nothing, or somebody who came with sudo, needs a key of the master
    /// itself: that of a user `publisher_acl` names would let them out of their list.
    pub fn check(&self, user: Option<&str>, key: &str) -> Option<Grant> {
        let of = |name: &str| self.keys.get(name).is_some_and(|own| same(own, key));
        let trusted = [&self.master, &self.process, "root", "salt"].into_iter().any(of);
        let everything = |granted: bool| granted.then_some(Grant::All);
        match user {
            None => everything(trusted),
            Some(user) if user.starts_with("sudo_") => trusted.then(|| self.sudo(&user["sudo_".len()..])),
            Some(user) if user == self.master || user == "root" => everything(trusted),
            Some(user) if user == self.process => everything(of(user)),
            Some(_) if of("root") || of("salt") => Some(Grant::All),
            Some(user) if of(user) => {
                let granted = entries_for(&self.acl, user, &[], self.permissive);
                (!granted.is_empty()).then_some(Grant::Listed(granted))
            }
            Some(_) => None,
        }
    }

    fn sudo(&self, user: &str) -> Grant {
        match self.sudo_acl && !self.acl.is_empty() {
            true => Grant::Listed(entries_for(&self.acl, user, &[], self.permissive)),
            false => Grant::All,
        }
    }

    /// Returns the key of the master's own user, for what the master publishes itself.
    pub fn own_key(&self) -> &str {
        self.keys.get(&self.master).or_else(|| self.keys.get(&self.process)).map_or("", String::as_str)
    }

    /// The user the master runs as, as its options say.
    pub fn master_user(&self) -> &str {
        &self.master
    }

    /// Says whether `publisher_acl_blacklist` forbids a user or one of the functions.
    pub fn is_blacklisted(&self, user: &str, functions: &[String]) -> bool {
        let list = |name: &str| self.blacklist.get(name).and_then(Value::as_list).unwrap_or_default();
        let hit = |name: &str, text: &str| list(name).iter().any(|entry| expr_match(text, &entry.to_string()));
        hit("users", user) || functions.iter().any(|function| hit("modules", function))
    }
}

/// Says whether two secrets are the same without telling by the time taken where they differ.
fn same(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    !a.is_empty() && a.len() == b.len() && differing == 0
}

fn make_key(name: &str, store: &UserKeys, rt: &Rt) -> Option<String> {
    let Ok(Some(account)) = User::from_name(name) else {
        // Patterns and users of other hosts end here too.
        debug!("ACL user {name} is not available");
        return None;
    };
    info!("Preparing the {name} key for local communication");
    let owner = geteuid().is_root().then(|| account.uid.as_raw());
    let make = || crypto::KeyString::from_random(rt.bytes()).expose().to_owned();
    match store.ensure(name, owner, make) {
        Ok(key) => Some(key),
        Err(error) => {
            warn!("user {name} cannot command this master: {error}");
            None
        }
    }
}

fn process_user() -> String {
    let uid = geteuid();
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// Names in the host's own list of users. Those of directory services have to be named in full in `publisher_acl`.
fn system_users() -> Vec<String> {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    text.lines().filter_map(|line| line.split(':').next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    fn users() -> Users {
        let keys = [("root", "key of root"), ("fred", "key of fred"), ("saltmaster", "key of master")];
        Users {
            keys: keys.into_iter().map(|(name, key)| (name.to_owned(), key.to_owned())).collect(),
            master: "saltmaster".into(),
            process: "daemon".into(),
            acl: map! { "fred" => list!["test.*"] },
            sudo_acl: true,
            permissive: false,
            blacklist: map! { "users" => list!["evil*"], "modules" => list!["cmd.*"] },
        }
    }

    #[test]
    fn a_key_proves_its_user() {
        let users = users();
        let listed = Some(Grant::Listed(vec!["test.*".into()]));
        let cases = [
            (None, "key of fred", None),
            (None, "key of master", Some(Grant::All)),
            (None, "", None),
            (None, "wrong", None),
            (Some("root"), "key of master", Some(Grant::All)),
            (Some("saltmaster"), "key of fred", None),
            (Some("root"), "key of fred", None),
            (Some("sudo_fred"), "key of fred", None),
            (Some("sudo_fred"), "key of master", listed.clone()),
            (Some("daemon"), "key of fred", None),
            (Some("anybody"), "key of root", Some(Grant::All)),
            (Some("fred"), "key of fred", listed),
            (Some("fred"), "key of master", None),
            (Some("anybody"), "key of fred", None),
        ];
        for (user, key, granted) in cases {
            assert_eq!(users.check(user, key), granted, "{user:?} {key:?}");
        }
    }

    #[test]
    fn the_blacklist_knows_users_and_functions() {
        let users = users();
        let functions = |name: &str| vec!["test.ping".to_owned(), name.to_owned()];
        assert!(users.is_blacklisted("evilgenius", &functions("test.echo")));
        assert!(users.is_blacklisted("root", &functions("cmd.run")));
        assert!(!users.is_blacklisted("root", &functions("test.echo")));
    }
}
