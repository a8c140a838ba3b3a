//! Servers that send nonsense, too much, or nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use value::Map;

use super::{direct, program, searching};
use saltern_auth::ldap::Ldap;

/// Starts a server that reads what a client asks first, and then does something with the connection.
fn server(act: impl FnOnce(&mut TcpStream) + Send + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("ldap://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        assert_ne!(stream.read(&mut request).unwrap(), 0);
        act(&mut stream);
    });
    (uri, thread)
}

fn check(options: &Map, patience: Duration) -> String {
    let ldap = Ldap::from_options(options).unwrap().with_helper(program, patience);
    ldap.check("fred", "never-told").unwrap_err().to_string()
}

/// Returns a part of a message in the encoding of LDAP.
fn part(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&[kind, 0x84], &length[..], content].concat()
}

fn message(id: u8, content: &[u8]) -> Vec<u8> {
    part(0x30, &[&part(2, &[id])[..], content].concat())
}

/// An answer with a code, an empty name and no text: to a bind, or at the end of a search.
fn result(kind: u8, code: u8) -> Vec<u8> {
    part(kind, &[part(10, &[code]), part(4, b""), part(4, b"")].concat())
}

fn nested() -> Vec<u8> {
    let mut nested = vec![0x30, 0x00];
    for _ in 0..100_000 {
        // From the inside to the outside, and turned over at the end.
        let length = u32::try_from(nested.len()).unwrap();
        nested.extend(length.to_le_bytes());
        nested.extend([0x84, 0x30]);
    }
    nested.reverse();
    nested
}

#[test]
fn a_broken_server_lets_nobody_in() {
    let patience = Duration::from_secs(30);
    for (name, answer, reason) in [
        ("nothing", Vec::new(), "the server closed the connection"),
        ("text", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "the server closed the connection"),
        ("no message", vec![0x30, 0x00], "the server closed the connection"),
        ("the answer to another question", message(9, &result(0x61, 0)), "the server closed the connection"),
        ("a message that ends early", message(1, &result(0x61, 0))[..9].to_vec(), "the server closed the connection"),
        ("layers", nested(), "the helper crashed (signal: "),
        ("a refusal", message(1, &result(0x61, 53)), "rc=53 (unwillingToPerform)"),
    ] {
        let (uri, thread) = server(move |stream| stream.write_all(&answer).unwrap());
        let error = check(&direct(&uri), patience);
        assert!(error.starts_with("external_auth: the backend 'ldap': "), "{error}");
        assert!(error.contains(reason) && !error.contains("never-told"), "{name}: {error}");
        thread.join().unwrap();
    }
}

#[test]
fn a_server_that_says_nothing_is_left() {
    let (uri, thread) = server(|stream| {
        let mut end = [0; 16];
        // Until the client closes the connection.
        while stream.read(&mut end).is_ok_and(|length| length > 0) {}
    });
    let error = check(&direct(&uri), Duration::from_millis(300));
    assert!(error.contains("no answer in time"), "{error}");
    thread.join().unwrap();
}

#[test]
fn a_server_that_says_too_much_is_left() {
    let (uri, thread) = server(|stream| {
        // A message of a terabyte.
        let header = [0x30, 0x85, 0xff, 0, 0, 0, 0];
        let mut sent = stream.write_all(&header);
        while sent.is_ok() {
            sent = stream.write_all(&[0; 64 << 10]);
        }
    });
    let error = check(&direct(&uri), Duration::from_secs(30));
    assert!(error.contains("the helper crashed (signal: "), "{error}");
    thread.join().unwrap();
}

#[test]
fn an_entry_without_a_name_is_nobody() {
    let (uri, thread) = server(|stream| {
        let mut request = [0; 4096];
        stream.write_all(&message(1, &result(0x61, 0))).unwrap();
        assert_ne!(stream.read(&mut request).unwrap(), 0, "the search");
        let entry = part(0x64, &[part(4, b""), part(0x30, b"")].concat());
        stream.write_all(&[message(2, &entry), message(2, &result(0x65, 0))].concat()).unwrap();
        assert_eq!(stream.read(&mut request).unwrap_or(0), 0, "no bind follows");
    });
    let error = check(&searching(&uri), Duration::from_secs(30));
    assert!(error.contains("the entry of the user has no name"), "{error}");
    thread.join().unwrap();
}
