//! The helper for logins with LDAP, as the master starts it. What it asks a server is tested in the crate `auth`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Asks the helper, and returns its exit code and its answer.
fn ask(question: &str) -> (Option<i32>, String) {
    let (mut socket, theirs) = UnixStream::pair().expect("a socket can be made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_saltern"));
    command.arg("ldap-check").stdin(OwnedFd::from(theirs)).stderr(Stdio::null());
    let mut helper = command.spawn().expect("the program runs");
    // It holds the other end of the socket.
    drop(command);
    socket.write_all(question.as_bytes()).expect("the helper reads");
    socket.shutdown(Shutdown::Write).expect("the question ends");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("the answer is text");
    (helper.wait().expect("the helper ends").code(), answer)
}

#[test]
fn the_helper_answers_one_question() {
    // Nobody accepts connections at this port.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = json!({"auth.ldap.uri": format!("ldap://127.0.0.1:{port}"), "auth.ldap.binddn": "{{ username }}"});
    let question = json!({"options": options, "patience": 8.0, "username": "fred", "password": "never-told"});
    let (code, answer) = ask(&question.to_string());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let expected = format!("ldap://127.0.0.1:{port}: failed to connect: Connection refused (os error 111)");
    assert_eq!((code, &answer), (Some(0), &json!({"failed": expected})));
    assert_eq!(ask("{\"options\""), (Some(0), "{\"failed\": \"the question cannot be read\"}".to_owned()));
}
