//! As much of an HTTP server as a test needs.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A server that ends with the test.
pub struct Listener {
    pub port: u16,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    ended: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
}

/// A request.
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: HashMap<String, String>,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Listener {
    /// Serves each connection in a thread. Port 0 is any free one.
    pub fn start(port: u16, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, serve) = (Arc::new(State::default()), Arc::new(serve));
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                shared.connections.lock().unwrap().push(stream.try_clone().unwrap());
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Listener { port, state, thread: Some(thread) }
    }

    /// Closes the connections that are open.
    pub fn hang_up(&self) {
        for connection in self.state.connections.lock().unwrap().drain(..) {
            // A client may have closed it already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // The thread sees the end with its next connection.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        self.hang_up();
    }
}

/// Answers requests until the client closes the connection. An answer is a status, headers and a body.
pub fn answer(stream: TcpStream, reply: impl Fn(Request) -> (u16, Vec<(&'static str, String)>, Vec<u8>)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(request) = read(&mut reader) {
        let (status, headers, body) = reply(request);
        let mut head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        let whole = [head.as_bytes(), b"\r\n", body.as_slice()].concat();
        if writer.write_all(&whole).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query = query.map(|(name, value)| (decoded(name), decoded(value))).collect();
    Some(Request { method, path: decoded(path), query, headers, body })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let code = rest.get(..2).and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match (byte, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &rest[2..];
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Returns the whole answer to a request of GET; `None` if nothing answers.
pub fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Returns the body of the answer to a request of POST, which must be one of success. An empty authorization is not sent.
pub fn post(port: u16, path: &str, authorization: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut head = format!("POST {path} HTTP/1.0\r\nContent-Length: {}\r\n", body.len());
    if !authorization.is_empty() {
        head += &format!("Authorization: {authorization}\r\n");
    }
    write!(stream, "{head}\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{path}: {answer}");
    body.to_owned()
}
