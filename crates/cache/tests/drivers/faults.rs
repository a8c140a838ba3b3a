//! Servers that do not do what they should: the request goes on without their data.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use saltern_cache::Cache;
use value::{Map, map};

use crate::conformity::{cache, id};
use crate::servers::http::{Listener, answer};

/// A secret that no message may contain.
const SECRET: &str = "tr0ub4dor";

/// Returns the drivers, as options for a server on a port.
fn drivers(port: u16) -> [Map; 2] {
    let port = i64::from(port);
    [
        map! { "cache" => "consul", "consul.port" => port, "consul.token" => SECRET },
        map! {
            "cache" => "etcd", "etcd.port" => port, "etcd.username" => "salt", "etcd.password" => SECRET,
        },
    ]
}

/// Tests that reading, writing, listing and removing fail with a reason, and returns the reason of the first.
fn fails(cache: &Cache, driver: &Map, port: u16) -> String {
    let web1 = id("web1");
    let errors = [
        cache.grains(&web1).unwrap_err(),
        cache.store_mine(&web1, map! {}).unwrap_err(),
        cache.ids().unwrap_err(),
        cache.remove(&web1).unwrap_err(),
        cache.flush("minions").unwrap_err(),
    ];
    for error in &errors {
        let text = format!("{error} {error:?}");
        assert!(error.is_logged(), "{text}");
        assert!(text.contains(&format!("http://127.0.0.1:{port}")), "{text}");
        assert!(text.contains(&driver.get("cache").unwrap().to_string()), "{text}");
        assert!(!text.contains(SECRET), "{text}");
        assert!(text.len() < 2_000, "{text}");
    }
    format!("{:?}", errors[0])
}

/// Tests each driver against a server, and returns the reasons.
fn all_fail(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Vec<String> {
    let listener = Listener::start(0, serve);
    drivers(listener.port).map(|driver| fails(&cache(driver.clone()), &driver, listener.port)).to_vec()
}

/// Closes a connection; the listener has another handle of it.
fn hang_up(stream: TcpStream) {
    // The client may have closed it already.
    let _ = stream.shutdown(Shutdown::Both);
}

fn replies(status: u16, body: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync + 'static {
    move |stream| answer(stream, |_| (status, Vec::new(), body.to_vec()))
}

#[test]
fn a_server_that_is_not_there() {
    let port = Listener::start(0, drop).port;
    for driver in drivers(port) {
        let reason = fails(&cache(driver.clone()), &driver, port);
        assert!(reason.contains("refused"), "{reason}");
    }
}

#[test]
fn a_server_that_hangs_up() {
    for reason in all_fail(hang_up) {
        assert!(!reason.contains("no answer in"), "{reason}");
    }
}

#[test]
fn a_server_that_never_answers_is_waited_for_once() {
    let hangs = |mut stream: TcpStream| {
        // Until the client gives up.
        let _ = stream.read_to_end(&mut Vec::new());
    };
    for reason in all_fail(hangs) {
        assert!(reason.contains("no answer in 2 seconds"), "{reason}");
    }
}

#[test]
fn a_server_that_answers_with_something_else() {
    for body in [&b"<html>It works!</html>"[..], b"", b"{}", b"[[[[", b"\xff\xfe\0\0", b"[7]", b"null"] {
        for status in [200, 302, 404, 500] {
            all_fail(replies(status, body));
        }
    }
    all_fail(|mut stream| {
        let _ = stream.write_all(b"\x15\x03\x01\0\x02\x02\x46 no HTTP at all \r\n\r\n");
    });
}

#[test]
fn an_answer_without_an_end_is_not_read_to_it() {
    let endless = |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 4096]);
        let head = "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunk = [b"100000\r\n", vec![b'a'; 1 << 20].as_slice(), b"\r\n"].concat();
        let _ = stream.write_all(head.as_bytes());
        while stream.write_all(&chunk).is_ok() {}
    };
    let listener = Listener::start(0, endless);
    for driver in drivers(listener.port) {
        let error = cache(driver).grains(&id("web1")).unwrap_err();
        assert!(format!("{error:?}").contains("longer than"), "{error:?}");
    }
}

#[test]
fn a_bad_value_hides_no_other() {
    let consul = crate::servers::consul::Consul::start();
    let (cache, web1) = (cache(consul.options()), id("web1"));
    crate::conformity::stored(&cache, &web1);
    cache.put("grains", "web2", &"not a map".into()).unwrap();
    let found = cache.read(saltern_cache::Part::Grains, &["web1", "web2"]).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["web1"]);
}
