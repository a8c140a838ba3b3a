//! Local users: the keys that prove who they are, and their permissions.

use std::collections::HashMap;

use config::Master;
use nix::unistd::{User, geteuid};
use rt::Rt;
use store::user_keys::UserKeys;
use targeting::acl::entries_for;
use targeting::expr_match;
use tracing::{debug, info, warn};
use value::{Map, Value};

/// The permissions of a user.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    /// Everything.
    All,
    /// The entries of a list.
    Listed(Vec<Value>),
}

/// The users of this host that may command the master.
pub struct Users {
    keys: HashMap<String, String>,
    /// The user of the master in the configuration.
    master: String,
    /// The user that the process runs as.
    process: String,
    acl: Map,
    sudo_acl: bool,
    permissive: bool,
    blacklist: Map,
}

/// The keys of local users, by name.
///
/// A daemon creates them while it is still root, because only root can make another user the owner of a file. Later, as
/// another user, the master cannot read these files.
pub struct LocalKeys(HashMap<String, String>);

impl LocalKeys {
    /// Creates the key files for the master's user, the user of this process, and each user in `publisher_acl`.
    pub fn prepare(config: &Master, rt: &Rt) -> Self {
        let store = UserKeys::new(&config.paths.cachedir);
        let process = process_user();
        let acl = &config.access.publisher_acl;
        let mut names: Vec<String> = acl.text_keys().map(str::to_owned).collect();
        names.extend([config.user.clone(), process.clone()]);
        if config.access.client_acl_verify && !acl.is_empty() {
            // `publisher_acl` may have patterns, and a key needs the name of a user.
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
    /// Returns the users with these keys, and their configured permissions.
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

    /// Returns the permissions of a user with a key; `None` if it is not the user's key.
    ///
    /// A caller without a name, or with the name of the master's user, root or a sudo user, needs the key of the
    /// master's user. Otherwise a user in `publisher_acl` could escape their list with such a name.
    pub fn check(&self, user: Option<&str>, key: &str) -> Option<Grant> {
        let of = |name: &str| self.keys.get(name).is_some_and(|own| same(own, key));
        let trusted = [&self.master, &self.process, "root", "salt"].into_iter().any(of);
        let everything = |granted: bool| granted.then_some(Grant::All);
        match user {
            None => everything(trusted),
            Some(user) if user.starts_with("sudo_") => trusted.then(|| self.sudo(&user["sudo_".len()..])),
            Some(user) if user == self.master || user == "root" => everything(trusted),
            Some(user) if user == self.process => everything(of(user)),
            // Root may act in anybody's name.
            Some(_) if of("root") || of("salt") => Some(Grant::All),
            Some(user) if of(user) => {
                let granted = entries_for(&self.acl, user, &[], self.permissive);
                // A user without entries may do nothing, so the request is refused at once.
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

    /// Returns the key of the master's own user, with which the master publishes.
    pub fn own_key(&self) -> &str {
        self.keys.get(&self.master).or_else(|| self.keys.get(&self.process)).map_or("", String::as_str)
    }

    /// Returns the user of the master in the configuration.
    pub fn master_user(&self) -> &str {
        &self.master
    }

    /// Returns whether `publisher_acl_blacklist` forbids a user or one of the functions.
    pub fn is_blacklisted(&self, user: &str, functions: &[String]) -> bool {
        let list = |name: &str| self.blacklist.get(name).and_then(Value::as_list).unwrap_or_default();
        let hit = |name: &str, text: &str| list(name).iter().any(|entry| expr_match(text, &entry.to_string()));
        hit("users", user) || functions.iter().any(|function| hit("modules", function))
    }
}

/// Returns whether two secrets are equal. Takes constant time, wherever they differ.
fn same(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    // An empty key would match a missing one.
    !a.is_empty() && a.len() == b.len() && differing == 0
}

fn make_key(name: &str, store: &UserKeys, rt: &Rt) -> Option<String> {
    let Ok(Some(account)) = User::from_name(name) else {
        // Patterns and users of other hosts end here too.
        debug!("ACL user {name} is not available");
        return None;
    };
    info!("Preparing the {name} key for local communication");
    // Only root can give a file away.
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

/// Returns the names in the host's own list of users. Users of a directory service must be named in full in
/// `publisher_acl`.
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
            // Without a name, the key alone must not open more than its user's list.
            (None, "key of fred", None),
            (None, "key of master", Some(Grant::All)),
            (None, "", None),
            (None, "wrong", None),
            (Some("root"), "key of master", Some(Grant::All)),
            (Some("saltmaster"), "key of fred", None),
            (Some("root"), "key of fred", None),
            (Some("sudo_fred"), "key of fred", None),
            // sudo runs the program as root, so it has the master's key; `sudo_acl` still applies fred's list.
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
