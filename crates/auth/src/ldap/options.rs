//! The options `auth.ldap.*`.

use ldap3::{Scope, parse_filter};
use value::{Map, Value};

use super::template::Template;
use crate::{Error, Secret};

/// Where to ask, as whom, and for what.
#[derive(Debug)]
pub struct Settings {
    /// The addresses of the servers. The first one that can be reached is asked.
    pub servers: Vec<String>,
    /// True if the connection becomes a protected one with StartTLS.
    pub starttls: bool,
    /// True if nobody checks the certificate of the server.
    pub no_verify: bool,
    /// Where the entries of users are.
    pub base: String,
    /// How the password of a user is checked.
    pub bind: Bind,
    /// How the groups of a user are found.
    pub groups: Groups,
    /// The suffixes that are taken off the names of computers.
    pub suffixes: Vec<String>,
}

/// How the password of a user is checked.
#[derive(Debug)]
pub enum Bind {
    /// A service account looks for the entry of the user, who binds as it.
    Search {
        /// The name of the account.
        account: String,
        /// Its password.
        password: Secret,
        /// The filter that finds the user.
        filter: Template,
        /// Where below the base.
        scope: Scope,
    },
    /// The user binds with a name made from theirs.
    Direct(Template),
}

/// How the groups of a user are found.
#[derive(Debug)]
pub enum Groups {
    /// Groups list the names of their members.
    Members {
        /// Where the groups are.
        base: String,
        /// Their class.
        class: String,
        /// The attribute with the names of members.
        account: String,
        /// The attribute of the user's own entry with the names of groups.
        group: String,
    },
    /// Groups list the distinguished names of their members, as in Active Directory.
    ActiveDirectory {
        /// The class of users.
        person: String,
        /// The attribute with the name of a user.
        account: String,
        /// The class of groups.
        class: String,
    },
    /// A filter finds the groups, as in FreeIPA.
    FreeIpa {
        /// Where the groups are.
        base: String,
        /// The filter.
        filter: Template,
        /// The two attributes with members.
        attributes: [String; 2],
    },
}

impl Settings {
    /// Reads the options of a master.
    ///
    /// # Errors
    /// When an option cannot be obeyed, or would let people in without a look at their password.
    pub fn read(options: &Map) -> Result<Self, Error> {
        let (starttls, tls) = (truthy(options, "starttls"), truthy(options, "tls"));
        if starttls && tls {
            return Err(problem("starttls", "cannot be combined with auth.ldap.tls"));
        }
        let base = text(options, "basedn").unwrap_or_default();
        Ok(Settings {
            servers: servers(options, tls)?,
            starttls,
            no_verify: truthy(options, "no_verify"),
            bind: bind(options)?,
            groups: groups(options, &base)?,
            base,
            suffixes: suffixes(options),
        })
    }

    /// Returns whether passwords are sent over a network without TLS.
    pub fn is_unprotected(&self) -> bool {
        let here = ["localhost", "127.0.0.1", "[::1]"];
        let is_here = |host: &str| {
            let is_this = |name| host.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
            host.is_empty() || here.into_iter().any(is_this)
        };
        let mut plain = self.servers.iter().filter_map(|server| server.strip_prefix("ldap://"));
        !self.starttls && plain.any(|rest| !is_here(rest.split('/').next().unwrap_or_default()))
    }
}

/// Returns the value of an option; `None` for one that Python would take for nothing.
fn set<'a>(options: &'a Map, name: &str) -> Option<&'a Value> {
    options.get(format!("auth.ldap.{name}").as_str()).filter(|value| value.truthy())
}

fn text(options: &Map, name: &str) -> Option<String> {
    set(options, name).map(Value::to_string)
}

fn truthy(options: &Map, name: &str) -> bool {
    set(options, name).is_some()
}

fn problem(option: &'static str, problem: impl Into<String>) -> Error {
    Error::LdapOption { option, problem: problem.into() }
}

fn servers(options: &Map, tls: bool) -> Result<Vec<String>, Error> {
    let Some(uri) = text(options, "uri") else {
        let scheme = if tls { "ldaps" } else { "ldap" };
        let server = text(options, "server").unwrap_or_else(|| "localhost".to_owned());
        let port = text(options, "port").unwrap_or_else(|| "389".to_owned());
        let Ok(port) = port.parse::<u16>() else { return Err(problem("port", "must be a number up to 65535")) };
        let is_bad = |letter: char| letter.is_control() || letter.is_whitespace() || "/?#@".contains(letter);
        return match server.contains(is_bad) {
            true => Err(problem("server", "must be the name or the address of a host; use auth.ldap.uri for a URL")),
            false => Ok(vec![format!("{scheme}://{server}:{port}")]),
        };
    };
    let separators = |letter: char| letter.is_whitespace() || letter == ',';
    let servers: Vec<String> = uri.split(separators).filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let is_known = |server: &String| {
        let known = ["ldap://", "ldaps://", "ldapi://"].iter().any(|scheme| server.starts_with(scheme));
        known && !server.contains(char::is_control)
    };
    match !servers.is_empty() && servers.iter().all(is_known) {
        true => Ok(servers),
        false => Err(problem("uri", "must begin with ldap://, ldaps:// or ldapi://")),
    }
}

fn bind(options: &Map) -> Result<Bind, Error> {
    let account = text(options, "binddn");
    let account = account.ok_or_else(|| problem("binddn", "is required: a service account, or a name of the user"))?;
    let password = text(options, "bindpw");
    if truthy(options, "anonymous") {
        // In Salt, the first lets users in with any password, and the second lets in nobody.
        if truthy(options, "auth_by_group_membership_only") {
            return Err(problem("auth_by_group_membership_only", "would let people in with any password"));
        }
        if password.is_some() {
            return Err(problem("anonymous", "cannot be combined with auth.ldap.bindpw"));
        }
    }
    let Some(password) = password else {
        let template = template("binddn", &account)?;
        return match template.has_name() {
            true => Ok(Bind::Direct(template)),
            false => Err(problem("binddn", "needs auth.ldap.bindpw, or the place {{ username }} for a user's name")),
        };
    };
    let scope = match options.get("auth.ldap.scope") {
        None | Some(Value::Null) => Scope::Subtree,
        Some(scope) => match scope.to_string().as_str() {
            "0" => Scope::Base,
            "1" => Scope::OneLevel,
            "2" => Scope::Subtree,
            _ => return Err(problem("scope", "must be 0 (the base), 1 (one level) or 2 (the subtree)")),
        },
    };
    let filter = text(options, "filter").ok_or_else(|| problem("filter", "is required with auth.ldap.bindpw"))?;
    let filter = filter_of("filter", &filter)?;
    // The same entry would be found for every user.
    match filter.has_name() {
        true => Ok(Bind::Search { account, password: Secret(password), filter, scope }),
        false => Err(problem("filter", "needs the place {{ username }}")),
    }
}

fn groups(options: &Map, base: &str) -> Result<Groups, Error> {
    let or = |name, default: &str| text(options, name).unwrap_or_else(|| default.to_owned());
    let account = attribute("accountattributename", or("accountattributename", "memberUid"))?;
    let group = attribute("groupattribute", or("groupattribute", "memberOf"))?;
    let class = attribute("groupclass", or("groupclass", "posixGroup"))?;
    if truthy(options, "activedirectory") {
        let person = attribute("persontype", or("persontype", "person"))?;
        return Ok(Groups::ActiveDirectory { person, account, class });
    }
    if truthy(options, "freeipa") {
        let required = |name| text(options, name).ok_or_else(|| problem(name, "is required with auth.ldap.freeipa"));
        let filter = filter_of("group_filter", &required("group_filter")?)?;
        return Ok(Groups::FreeIpa { base: required("group_basedn")?, filter, attributes: [account, group] });
    }
    let below = match options.get("auth.ldap.groupou") {
        None => Some("Groups".to_owned()),
        Some(unit) => Some(unit).filter(|unit| unit.truthy()).map(Value::to_string),
    };
    let base = below.map_or_else(|| base.to_owned(), |unit| format!("ou={unit},{base}"));
    Ok(Groups::Members { base, class, account, group })
}

/// Returns a name that becomes part of a filter as it is.
fn attribute(option: &'static str, name: String) -> Result<String, Error> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "-.;_:".contains(letter);
    match name.chars().all(is_good) {
        true => Ok(name),
        false => Err(problem(option, format!("cannot be '{}'", value::escape::brief(&name, 60)))),
    }
}

fn template(option: &'static str, text: &str) -> Result<Template, Error> {
    Template::parse(text).ok_or_else(|| problem(option, "may have no other template than {{ username }}"))
}

fn filter_of(option: &'static str, text: &str) -> Result<Template, Error> {
    let filter = template(option, text)?;
    match parse_filter(filter.fill("x")) {
        Ok(_) => Ok(filter),
        Err(_) => Err(problem(option, "is not a filter, such as uid={{ username }} or (&(uid=…)(…))")),
    }
}

fn suffixes(options: &Map) -> Vec<String> {
    let listed = set(options, "minion_stripdomains");
    let texts = listed.and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str);
    texts.filter(|suffix| !suffix.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    fn with(more: Map) -> Result<Settings, String> {
        let mut options = map! {
            "auth.ldap.basedn" => "dc=example,dc=com", "auth.ldap.binddn" => "cn=salt,dc=example,dc=com",
            "auth.ldap.bindpw" => "hush", "auth.ldap.filter" => "uid={{ username }}",
        };
        options.update(more);
        Settings::read(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_salt() {
        let settings = with(map! {}).unwrap();
        assert_eq!(settings.servers, ["ldap://localhost:389"]);
        let Groups::Members { base, class, account, group } = &settings.groups else { panic!("{settings:?}") };
        assert_eq!(base, "ou=Groups,dc=example,dc=com");
        assert_eq!([class, account, group], ["posixGroup", "memberUid", "memberOf"]);
        assert!(!format!("{settings:?}").contains("hush"));
        let settings =
            with(map! { "auth.ldap.groupou" => "", "auth.ldap.tls" => true, "auth.ldap.port" => 636 }).unwrap();
        assert_eq!(settings.servers, ["ldaps://localhost:636"]);
        assert!(matches!(&settings.groups, Groups::Members { base, .. } if base == "dc=example,dc=com"));
    }

    #[test]
    fn several_servers_may_be_named() {
        let two =
            map! { "auth.ldap.uri" => "ldap://a ldaps://b:1636", "auth.ldap.server" => "c", "auth.ldap.tls" => true };
        assert_eq!(with(two).unwrap().servers, ["ldap://a", "ldaps://b:1636"]);
    }

    #[test]
    fn options_that_cannot_be_obeyed_are_refused() {
        for (options, expected) in [
            (map! { "auth.ldap.tls" => true, "auth.ldap.starttls" => true }, "auth.ldap.starttls: cannot be combined"),
            (map! { "auth.ldap.uri" => "http://a" }, "auth.ldap.uri: must begin with"),
            (map! { "auth.ldap.port" => 70000 }, "auth.ldap.port: must be a number"),
            (map! { "auth.ldap.server" => "ldap://a" }, "auth.ldap.server: must be the name"),
            (map! { "auth.ldap.anonymous" => true }, "auth.ldap.anonymous: cannot be combined"),
            (
                map! { "auth.ldap.anonymous" => true, "auth.ldap.auth_by_group_membership_only" => true },
                "auth.ldap.auth_by_group_membership_only: would let people in",
            ),
            (map! { "auth.ldap.binddn" => Value::Null }, "auth.ldap.binddn: is required"),
            (map! { "auth.ldap.bindpw" => "" }, "auth.ldap.binddn: needs auth.ldap.bindpw"),
            (map! { "auth.ldap.filter" => Value::Null }, "auth.ldap.filter: is required"),
            (map! { "auth.ldap.filter" => "uid=fred" }, "auth.ldap.filter: needs the place {{ username }}"),
            (map! { "auth.ldap.filter" => "(uid={{ username }}" }, "auth.ldap.filter: is not a filter"),
            (map! { "auth.ldap.filter" => "uid={{ username|lower }}" }, "auth.ldap.filter: may have no other template"),
            (map! { "auth.ldap.scope" => 3 }, "auth.ldap.scope: must be 0"),
            (map! { "auth.ldap.groupclass" => "x)(y=*" }, "auth.ldap.groupclass: cannot be 'x)(y=*'"),
            (map! { "auth.ldap.freeipa" => true }, "auth.ldap.group_filter: is required"),
        ] {
            let refused = with(options).unwrap_err();
            assert!(refused.starts_with(expected), "{refused}");
        }
    }

    #[test]
    fn a_connection_that_anybody_can_read_is_noticed() {
        let unprotected = |uri: &str| with(map! { "auth.ldap.uri" => uri }).unwrap().is_unprotected();
        for uri in ["ldap://ldap.example.com", "ldaps://a ldap://b", "ldap://localhost.example.com:389/"] {
            assert!(unprotected(uri), "{uri}");
        }
        for uri in
            ["ldaps://ldap.example.com", "ldap://localhost:389", "ldap://127.0.0.1", "ldap://[::1]/", "ldapi://%2frun"]
        {
            assert!(!unprotected(uri), "{uri}");
        }
        let starttls = map! { "auth.ldap.server" => "ldap.example.com", "auth.ldap.starttls" => true };
        assert!(!with(starttls).unwrap().is_unprotected());
    }
}
