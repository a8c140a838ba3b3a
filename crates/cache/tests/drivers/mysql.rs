//! The driver `mysql`.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use saltern_cache::mysql::Server;
use saltern_cache::{Banks, Place};
use value::Map;

use crate::conformity::{self, cache, conforms, id, stored};
use crate::servers::http::Listener;
use crate::servers::mysql::{MySql, PASSWORD};

fn server(mysql: &MySql) -> Server {
    Server {
        host: String::new(),
        port: 0,
        socket: Some(mysql.socket()),
        user: "salt".into(),
        password: Some(PASSWORD.into()),
        database: "ours".into(),
        table: "salt".into(),
        tls: None,
        fresh: false,
    }
}

/// The number of connections that the server has accepted.
fn accepted(mysql: &MySql) -> u64 {
    let status = mysql.run("SHOW GLOBAL STATUS LIKE 'Connections'");
    status.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_driver_conforms() {
    let Some(mysql) = MySql::start() else { return };
    let before = accepted(&mysql);
    conforms(server(&mysql).banks().unwrap()).await;
    // One connection of the driver, and those of the administrator's client.
    assert!(accepted(&mysql) - before <= 3, "a connection is used for more than one request");
    let port = Server { host: "127.0.0.1".into(), port: mysql.port, socket: None, ..server(&mysql) };
    let before = accepted(&mysql);
    conforms(Server { fresh: true, table: "other".into(), ..port }.banks().unwrap()).await;
    assert!(accepted(&mysql) - before > 20, "each request has a connection of its own");
}

#[test]
fn the_cache_conforms() {
    let Some(mysql) = MySql::start() else { return };
    let options = || mysql.options("ours");
    conformity::data_of_minions_are_kept_and_forgotten(&options());
    conformity::a_minion_without_data_is_not_listed(&options());
    conformity::pillars_of_environments_are_limited(options());
    conformity::an_expired_value_is_absent_and_bad_names_are_refused(options());
    conformity::values_are_read_from_memory_until_they_expire(options());
}

/// The table as Salt creates it, before it had a column for times, in a database that ignores the case of names.
fn table_of_an_old_salt(mysql: &MySql, character_set: &str) {
    mysql.run(&format!(
        "CREATE OR REPLACE TABLE ours.salt (bank CHAR(255), etcd_key CHAR(255), data MEDIUMBLOB, PRIMARY KEY(bank, etcd_key)) \
         CHARACTER SET {character_set} COLLATE {character_set}_general_ci"
    ));
}

#[tokio::test]
async fn in_a_table_of_salt_no_name_takes_the_place_of_one_that_differs_in_case() {
    let Some(mysql) = MySql::start() else { return };
    for character_set in ["utf8mb4", "latin1"] {
        table_of_an_old_salt(&mysql, character_set);
        let banks = server(&mysql).banks().unwrap();
        conforms(banks.clone()).await;
        names_that_differ_in_case(&*banks).await;
        banks_that_differ_in_case(&*banks).await;
    }
}

async fn names_that_differ_in_case(banks: &dyn Banks) {
    let [web, other] = ["grün1", "GRÜN1"].map(|key| Place::new("grains", key));
    banks.store(&web, b"one".into(), 1_700_000_000).await.unwrap();
    let refused = banks.store(&other, b"two".into(), 1_700_000_001).await.unwrap_err().to_string();
    assert!(refused.contains("differ only in case") && refused.contains("GRÜN1"), "{refused}");
    let places = [other.clone(), web.clone()];
    assert_eq!(banks.fetch(&places).await.unwrap(), [None, Some(b"one".to_vec())]);
    assert_eq!(banks.updated(&other).await.unwrap(), None);
    assert_eq!(banks.updated(&web).await.unwrap(), Some(1_700_000_000));
    assert!(!banks.contains(&other).await.unwrap() && !banks.flush(&other).await.unwrap());
    // The same value again is no collision, and a new one replaces it with its time.
    banks.store(&web, b"one".into(), 1_700_000_000).await.unwrap();
    banks.store(&web, b"new".into(), 1_700_000_002).await.unwrap();
    assert_eq!(banks.updated(&web).await.unwrap(), Some(1_700_000_002));
    assert!(banks.flush(&web).await.unwrap());
    banks.store(&other, b"two".into(), 1_700_000_001).await.unwrap();
    assert!(banks.flush_bank("grains").await.unwrap());
}

async fn banks_that_differ_in_case(banks: &dyn Banks) {
    let (web, other) = (Place::new("mine/web", "data"), Place::new("mine/WEB", "mine"));
    for place in [&web, &other] {
        banks.store(place, b"x".into(), 5).await.unwrap();
    }
    banks.store(&Place::new("mine/WEB/below", "key"), b"x".into(), 5).await.unwrap();
    let mut found = banks.list("mine").await.unwrap();
    found.sort();
    assert_eq!(found, ["WEB", "web"]);
    assert_eq!(banks.list(&web.bank).await.unwrap(), [web.key.as_str()]);
    assert!(banks.flush_bank(&web.bank).await.unwrap());
    assert_eq!(banks.list("mine").await.unwrap(), ["WEB"]);
    assert_eq!(banks.list(&other.bank).await.unwrap(), [other.key.as_str(), "below"]);
    assert!(banks.flush_bank("mine").await.unwrap());
}

#[tokio::test]
async fn what_a_table_cannot_hold_is_refused_whatever_the_server_prefers() {
    let Some(mysql) = MySql::start() else { return };
    mysql.run("SET GLOBAL sql_mode = ''; SET GLOBAL autocommit = 0");
    let banks = server(&mysql).banks().unwrap();
    let long = Place::new("grains", "x".repeat(256));
    let refused = banks.store(&long, b"x".into(), 5).await.unwrap_err().to_string();
    assert!(refused.contains("etcd_key"), "{refused}");
    let space = Place::new("grains", "web1 ");
    let refused = banks.store(&space, b"x".into(), 5).await.unwrap_err().to_string();
    assert!(refused.contains("space") && refused.contains("\"web1 \""), "{refused}");
    let fits = Place::new("grains", "ü".repeat(255));
    banks.store(&fits, b"x".into(), 5).await.unwrap();
    // Another connection sees it, so it was not left in a transaction.
    assert!(server(&mysql).banks().unwrap().contains(&fits).await.unwrap());
    assert_eq!(banks.list("grains").await.unwrap(), [fits.key.as_str()]);
}

#[tokio::test]
async fn a_value_of_more_than_8_mib_is_not_read() {
    let Some(mysql) = MySql::start() else { return };
    let banks = server(&mysql).banks().unwrap();
    let places = ["short", "long"].map(|key| Place::new("grains", key));
    banks.store(&places[0], vec![7; 8 << 20], 5).await.unwrap();
    banks.store(&places[1], vec![7; (8 << 20) + 1], 5).await.unwrap();
    // Not `assert_eq`, which would print them.
    assert!(banks.fetch(&places).await.unwrap() == [Some(vec![7; 8 << 20]), None]);
}

#[test]
fn a_table_of_other_columns_is_named() {
    let Some(mysql) = MySql::start() else { return };
    mysql.run("CREATE TABLE ours.salt (bank VARBINARY(99), etcd_key VARBINARY(99), data BLOB)");
    mysql.run("INSERT INTO ours.salt VALUES ('grains', X'FF', '')");
    let error = cache(mysql.options("ours")).list("grains").unwrap_err();
    let text = format!("{error:?}");
    assert!(error.is_logged() && text.contains("the table 'salt' are not of the types"), "{text}");
}

#[test]
fn a_table_that_vanishes_is_created_again() {
    let Some(mysql) = MySql::start() else { return };
    let (cache, web1) = (cache(mysql.options("ours")), id("web1"));
    assert_eq!(cache.ids().unwrap(), Vec::<String>::new());
    mysql.run("DROP TABLE ours.salt");
    stored(&cache, &web1);
    assert_eq!(cache.ids().unwrap(), ["web1"]);
}

#[test]
fn closed_connections_are_opened_again_and_a_restart_is_survived() {
    let Some(mut mysql) = MySql::start() else { return };
    let caches = [mysql.options("ours"), mysql.options_of_port("ours")].map(cache);
    let web1 = id("web1");
    stored(&caches[0], &web1);
    for _ in 0..10 {
        for cache in &caches {
            assert!(cache.grains(&web1).unwrap().is_some());
        }
        // A server closes connections that nobody has used for long, too.
        mysql.run("KILL USER salt");
        for cache in &caches {
            stored(cache, &web1);
        }
    }
    mysql.stop();
    for cache in &caches {
        assert!(cache.grains(&web1).unwrap_err().is_logged());
        assert!(cache.store_mine(&web1, Map::default()).unwrap_err().is_logged());
    }
    mysql.resume();
    for cache in &caches {
        assert_eq!(cache.ids().unwrap(), ["web1"]);
    }
}

/// Passes connections on to a port. Once the flag is set, the next that sends something is closed.
fn proxy(port: u16, cut: Arc<AtomicBool>) -> Listener {
    Listener::start(0, move |mut client: TcpStream| {
        let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        // Either end may be closed first.
        std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = client.read(&mut buffer) {
            if cut.swap(false, Ordering::SeqCst) || server.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    })
}

#[test]
fn a_request_whose_connection_is_closed_meanwhile_is_sent_again() {
    let Some(mysql) = MySql::start() else { return };
    let cut = Arc::new(AtomicBool::new(false));
    let proxy = proxy(mysql.port, Arc::clone(&cut));
    let mut options = mysql.options_of_port("ours");
    options.insert("mysql.port", i64::from(proxy.port));
    let (cache, web1) = (cache(options), id("web1"));
    stored(&cache, &web1);
    let closed = || cut.store(true, Ordering::SeqCst);
    closed();
    assert!(cache.grains(&web1).unwrap().is_some());
    closed();
    assert!(cache.list("grains").unwrap() == ["web1"]);
    closed();
    stored(&cache, &web1);
    closed();
    assert!(cache.flush("grains").unwrap());
    assert!(!cut.load(Ordering::SeqCst), "each request has lost a connection");
    assert!(cache.grains(&web1).unwrap().is_none());
}

#[test]
fn what_the_server_refuses_is_told_without_a_password() {
    let Some(mysql) = MySql::start() else { return };
    let refused = |name: &str, value: &str| {
        let mut options = mysql.options_of_port("ours");
        options.insert(name, value);
        let error = cache(options).grains(&id("web1")).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(error.is_logged() && text.contains(&format!("127.0.0.1:{}", mysql.port)), "{text}");
        assert!(!text.contains("0therS3cret") && !text.contains(PASSWORD), "{text}");
        text
    };
    assert!(refused("mysql.password", "0therS3cret").contains("Access denied"));
    assert!(refused("mysql.user", "nobody").contains("Access denied"));
    assert!(refused("mysql.database", "missing").contains("Unknown database 'missing'"));
    mysql.run("CREATE USER reader@'%' IDENTIFIED BY 'tr0ub4dor'; GRANT SELECT ON ours.* TO reader@'%'");
    assert!(refused("mysql.user", "reader").contains("CREATE command denied"));
}
