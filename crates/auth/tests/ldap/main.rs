//! Logins with LDAP at a real `slapd`, and at servers that are broken or lie. The helper process is this test program.

mod directory;
mod liars;

use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use directory::{BASE, Directory, authority};
use saltern_auth::ldap::Ldap;
use value::{Map, Value, map};

const PATIENCE: Duration = Duration::from_secs(30);

/// The helper of the tests: a test by its name, and only if it is asked for.
#[test]
#[ignore = "it is the helper of the other tests"]
fn helper() {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    saltern_auth::ldap::answer(&mut UnixStream::from(socket)).unwrap();
}

fn program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["helper", "--exact", "--ignored"]).env("SSL_CERT_FILE", authority());
    command
}

fn ldap(options: &Map) -> Ldap {
    Ldap::from_options(options).unwrap().with_helper(program, PATIENCE)
}

/// Options with a service account.
fn searching(uri: &str) -> Map {
    map! {
        "auth.ldap.uri" => uri, "auth.ldap.basedn" => BASE, "auth.ldap.filter" => "uid={{ username }}",
        "auth.ldap.binddn" => format!("cn=salt,{BASE}"), "auth.ldap.bindpw" => "hush",
    }
}

/// Options with which users bind directly.
fn direct(uri: &str) -> Map {
    map! {
        "auth.ldap.uri" => uri, "auth.ldap.basedn" => BASE,
        "auth.ldap.binddn" => format!("uid={{{{ username }}}},ou=People,{BASE}"),
    }
}

fn with(mut options: Map, more: Map) -> Map {
    options.update(more);
    options
}

/// Returns the groups; `None` for a refusal.
fn groups(options: &Map, username: &str, password: &str) -> Option<Vec<String>> {
    let mut groups = ldap(options).check(username, password).unwrap()?;
    groups.sort();
    Some(groups)
}

fn failure(options: &Map) -> String {
    let error = ldap(options).check("fred", "correct horse").unwrap_err().to_string();
    assert!(!error.contains("correct horse") && !error.contains("hush"), "{error}");
    error
}

fn texts(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

#[test]
fn a_service_account_finds_users_and_groups() {
    let Some(directory) = Directory::start() else { return };
    let options = searching(&directory.plain());
    assert_eq!(groups(&options, "fred", "correct horse"), texts(&["admins", "dba"]));
    assert_eq!(groups(&options, "ann", "battery"), texts(&["dba"]));
    assert_eq!(groups(&options, "odd (one), two", "staple"), texts(&[]));
    let refused = [
        ("fred", "wrong"),
        ("fred", ""),
        ("nobody", "correct horse"),
        ("locked", "correct horse"),
        // In a filter, all of these would find fred.
        ("fr*", "correct horse"),
        ("fred)(uid=fred", "correct horse"),
        ("fred)(&", "correct horse"),
        ("\\66red", "correct horse"),
        ("uid=fred,ou=People,dc=example,dc=com", "correct horse"),
        ("fred\0", "correct horse"),
        ("*", "correct horse"),
        ("*)(objectClass=*", "correct horse"),
        ("a\\2a", "correct horse"),
        ("uid=fred,ou=Y", "correct horse"),
        (&"x".repeat(64 << 10), "correct horse"),
        ("fred", &"x".repeat(64 << 10)),
    ];
    for (username, password) in refused {
        assert_eq!(groups(&options, username, password), None, "{username:.40} {password:.40}");
    }
    // Two entries have this name.
    let twice = with(options.clone(), map! { "auth.ldap.filter" => "(|(uid={{ username }})(uid=ann))" });
    assert!(failure(&twice).contains("more than one entry fits (|(uid=fred)(uid=ann))"));
    let one_level = map! { "auth.ldap.scope" => 1 };
    assert_eq!(groups(&with(options, one_level), "fred", "correct horse"), None, "people are two levels below");
}

#[test]
fn users_bind_directly() {
    let Some(directory) = Directory::start() else { return };
    let options = direct(&directory.plain());
    assert_eq!(groups(&options, "fred", "correct horse"), texts(&["admins", "dba"]));
    assert_eq!(groups(&options, "odd (one), two", "staple"), texts(&[]));
    for (username, password) in [
        ("fred", "wrong"),
        ("fred", ""),
        ("fred,ou=People", "correct horse"),
        ("*", "correct horse"),
        ("fred+cn=x", "correct horse"),
        ("fred\0", "correct horse"),
    ] {
        assert_eq!(groups(&options, username, password), None, "{username} {password}");
    }
}

#[test]
fn groups_are_found_in_other_ways() {
    let Some(directory) = Directory::start() else { return };
    let options = searching(&directory.plain());
    let active = map! {
        "auth.ldap.activedirectory" => true, "auth.ldap.accountattributename" => "uid",
        "auth.ldap.persontype" => "inetOrgPerson", "auth.ldap.groupclass" => "groupOfNames",
    };
    let active = with(options.clone(), active);
    assert_eq!(groups(&active, "fred", "correct horse"), texts(&["team"]));
    assert_eq!(groups(&active, "odd (one), two", "staple"), texts(&["team"]));
    assert_eq!(groups(&active, "ann", "battery"), texts(&[]));
    let free_ipa = map! {
        "auth.ldap.freeipa" => true, "auth.ldap.group_basedn" => format!("ou=Groups,{BASE}"),
        "auth.ldap.group_filter" => format!("(member=uid={{{{ username }}}},ou=People,{BASE})"),
        "auth.ldap.groupattribute" => "member",
    };
    assert_eq!(groups(&with(options.clone(), free_ipa), "fred", "correct horse"), texts(&["team"]));
    // Without the right to look, users are in no group.
    let elsewhere = with(options, map! { "auth.ldap.groupou" => "Nowhere" });
    assert_eq!(groups(&elsewhere, "fred", "correct horse"), texts(&[]));
}

#[test]
fn computers_below_a_base_are_minions() {
    let Some(directory) = Directory::start() else { return };
    let options = with(
        searching(&directory.plain()),
        map! { "auth.ldap.minion_stripdomains" => Value::from(vec![Value::from(".example.com")]) },
    );
    let base = format!("ou=Computers,{BASE}");
    let found = ldap(&options).computers(std::slice::from_ref(&base)).unwrap();
    assert_eq!(found[&base], ["web1"]);
}

#[test]
fn connections_are_protected() {
    let Some(directory) = Directory::start() else { return };
    let starttls = map! { "auth.ldap.starttls" => true };
    assert_eq!(groups(&searching(&directory.protected()), "ann", "battery"), texts(&["dba"]));
    assert_eq!(groups(&with(searching(&directory.plain()), starttls), "ann", "battery"), texts(&["dba"]));
    // Without its own certificate, nobody is the server.
    let strange = |uri: &str, more: Map| failure(&with(searching(&uri.replace("127.0.0.1", "127.0.0.2")), more));
    for error in
        [strange(&directory.protected(), map! {}), strange(&directory.plain(), map! { "auth.ldap.starttls" => true })]
    {
        assert!(error.contains("failed to connect: ") && error.contains("certificate"), "{error}");
    }
    let trusting = with(
        searching(&directory.protected().replace("127.0.0.1", "127.0.0.2")),
        map! { "auth.ldap.no_verify" => true },
    );
    assert_eq!(groups(&trusting, "ann", "battery"), texts(&["dba"]));
}

#[test]
fn what_is_wrong_is_said() {
    let Some(directory) = Directory::start() else { return };
    let options = searching(&directory.plain());
    let error = failure(&with(options.clone(), map! { "auth.ldap.bindpw" => "hush hush" }));
    assert!(error.contains("the bind as auth.ldap.binddn cn=salt,dc=example,dc=com failed: rc=49"), "{error}");
    let error = failure(&with(options.clone(), map! { "auth.ldap.basedn" => "dc=nowhere" }));
    assert!(error.contains("the search of dc=nowhere for uid=fred failed: there is no such entry"), "{error}");
    let nobody_there = format!("ldap://{}:9", Ipv4Addr::LOCALHOST);
    let error = failure(&searching(&nobody_there));
    assert!(error.contains("ldap://127.0.0.1:9: failed to connect: Connection refused"), "{error}");
    // Another server answers.
    let both = format!("{nobody_there} {}", directory.plain());
    assert_eq!(groups(&searching(&both), "ann", "battery"), texts(&["dba"]));
}
