//! Servers that do not do what they should: the request goes on without their data.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use saltern_cache::Cache;
use value::{Map, map};

use crate::conformity::{cache, id};
use crate::servers::http::{Listener, answer};

/// A secret that no message may contain.
const SECRET: &str = "tr0ub4dor";

/// Returns the drivers that speak HTTP, as options for a server on a port.
fn drivers(port: u16) -> [Map; 4] {
    let port = i64::from(port);
    [
        map! { "cache" => "consul", "consul.port" => port, "consul.token" => SECRET },
        map! {
            "cache" => "etcd", "etcd.port" => port, "etcd.username" => "salt", "etcd.password" => SECRET,
        },
        map! {
            "cache" => "etcd3", "etcd.port" => port, "etcd.username" => "salt", "etcd.password" => SECRET,
        },
        map! { "cache" => "etcd3", "etcd.port" => port },
    ]
}

fn mysql(port: u16) -> Map {
    map! { "cache" => "mysql", "mysql.port" => i64::from(port), "mysql.user" => "salt", "mysql.password" => SECRET }
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
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
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

/// Tests the driver `mysql` against a server, and returns the reason.
fn mysql_fails(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = Listener::start(0, serve);
    let driver = mysql(listener.port);
    fails(&cache(driver.clone()), &driver, listener.port)
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
    for driver in drivers(port).into_iter().chain([mysql(port)]) {
        let reason = fails(&cache(driver.clone()), &driver, port);
        assert!(reason.contains("refused"), "{reason}");
    }
}

#[test]
fn a_server_that_hangs_up() {
    for reason in all_fail(hang_up).into_iter().chain([mysql_fails(hang_up)]) {
        assert!(!reason.contains("no answer in"), "{reason}");
    }
}

#[test]
fn a_server_that_never_answers_is_waited_for_once() {
    let hangs = |mut stream: TcpStream| {
        // Until the client gives up.
        let _ = stream.read_to_end(&mut Vec::new());
    };
    for reason in all_fail(hangs).into_iter().chain([mysql_fails(hangs)]) {
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
fn a_server_that_repeats_what_it_is_asked() {
    for status in [200, 400, 404, 412] {
        all_fail(move |stream| answer(stream, |request| (status, Vec::new(), request.body)));
        all_fail(move |stream| {
            answer(stream, |request| {
                let message = String::from_utf8_lossy(&request.body).into_owned();
                let body = serde_json::json!({"code": 9, "errorCode": 300, "message": message, "error": message});
                (status, Vec::new(), body.to_string().into_bytes())
            });
        });
    }
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

/// A packet of MySQL with its number.
fn packet(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_le_bytes();
    [&length[..3], &[number], content].concat()
}

/// What a server says first, with the way in which it wants the password.
fn greeting(plugin: &str) -> Vec<u8> {
    // Protocol 10, a thread, the first half of the nonce, capabilities, a character set, more capabilities, the other half.
    let capabilities = [b"\0\xff\xf7\x2d\x02\0\xff\x81\x15", &[0; 10][..]].concat();
    packet(
        0,
        &[b"\n8.0.40\0\x01\0\0\0abcdefgh", &capabilities[..], b"ijklmnopqrst\0", plugin.as_bytes(), b"\0"].concat(),
    )
}

#[test]
fn mysql_that_says_something_else() {
    let long_error = [b"\xff\x15\x04#28000".to_vec(), vec![b'a'; 60_000]].concat();
    let said = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
        packet(0, b""),
        packet(0, b"\n"),
        packet(0, b"\nx.y.z\0"),
        packet(7, b"\n8.0.40\0"),
        packet(0, b"\xff\x10\x04Too many connections"),
        packet(0, &long_error),
        greeting("some_unknown_plugin"),
        [greeting("mysql_native_password"), packet(2, b"\0")].concat(),
        [greeting("mysql_native_password"), packet(2, &long_error)].concat(),
        [greeting("mysql_native_password"), packet(2, b"\xfb/etc/passwd")].concat(),
    ];
    for bytes in said {
        mysql_fails(move |mut stream| {
            let _ = stream.write_all(&bytes);
            hang_up(stream);
        });
    }
}

#[test]
fn mysql_gets_no_password_that_others_could_read() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    let reason = mysql_fails(move |mut stream| {
        let _ = stream.write_all(&greeting("mysql_native_password"));
        let mut read = [0; 4096];
        let length = stream.read(&mut read).unwrap_or_default();
        hearing.lock().unwrap().extend_from_slice(&read[..length]);
        let _ = stream.write_all(&packet(2, b"\xfemysql_clear_password\0"));
        let _ = stream.read_to_end(&mut hearing.lock().unwrap());
    });
    assert!(reason.contains("mysql_clear_password must be enabled"), "{reason}");
    let heard = heard.lock().unwrap();
    assert!(heard.windows(4).any(|part| part == b"salt"), "the login has begun");
    assert!(!heard.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
}

#[test]
fn mysql_that_sends_a_packet_without_an_end() {
    let endless = |mut stream: TcpStream| {
        let part = [&[0xff, 0xff, 0xff, 0][..], &vec![0; 0xff_ffff]].concat();
        let mut number = 0_u8;
        let mut part = part;
        while stream.write_all(&part).is_ok() {
            number = number.wrapping_add(1);
            part[3] = number;
        }
    };
    let reason = mysql_fails(endless);
    assert!(reason.contains("larger than max_allowed_packet"), "{reason}");
}
