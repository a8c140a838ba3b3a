//! A stand-in for an agent of Consul: its key/value store, as the documentation of its HTTP API describes it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use serde_json::json;
use value::{Map, map};

use super::http::{Listener, Request, answer};

/// The token that the agent requires.
pub const TOKEN: &str = "b1gs33cr3t";

/// The longest value that Consul stores.
const LONGEST: usize = 512 * 1024;

type Reply = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// The agent. Its values survive its end.
pub struct Consul {
    store: Arc<Store>,
    listener: Option<Listener>,
    port: u16,
}

#[derive(Default)]
struct Store {
    values: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Method and query of each request.
    asked: Mutex<Vec<(String, Vec<String>)>>,
}

impl Consul {
    /// Starts an agent on a free port.
    pub fn start() -> Self {
        let mut consul = Consul { store: Arc::default(), listener: None, port: 0 };
        consul.resume();
        consul
    }

    /// Ends the agent and its connections.
    pub fn stop(&mut self) {
        self.listener = None;
    }

    /// Starts the agent again with its values.
    pub fn resume(&mut self) {
        let store = Arc::clone(&self.store);
        let listener = Listener::start(self.port, move |stream| answer(stream, |request| store.reply(&request)));
        self.port = listener.port;
        self.listener = Some(listener);
    }

    /// Closes the open connections only.
    pub fn hang_up(&self) {
        self.listener.as_ref().unwrap().hang_up();
    }

    /// Returns the options of a master that uses this agent.
    pub fn options(&self) -> Map {
        map! {
            "cache" => "consul", "consul.host" => "127.0.0.1", "consul.port" => i64::from(self.port),
            "consul.token" => TOKEN,
        }
    }

    /// Returns method and query of each request, the query in order.
    pub fn asked(&self) -> Vec<(String, Vec<String>)> {
        self.store.asked.lock().unwrap().clone()
    }
}

impl Store {
    fn reply(&self, request: &Request) -> Reply {
        let mut query: Vec<String> = request.query.keys().cloned().collect();
        query.sort();
        self.asked.lock().unwrap().push((request.method.clone(), query));
        if request.headers.get("x-consul-token").map(String::as_str) != Some(TOKEN) {
            return (403, Vec::new(), b"Permission denied: anonymous token lacks permission".to_vec());
        }
        let Some(key) = request.path.strip_prefix("/v1/kv/") else {
            return (404, Vec::new(), b"no such page".to_vec());
        };
        match request.method.as_str() {
            "GET" => self.read(key, request),
            "PUT" if request.body.len() > LONGEST => (413, Vec::new(), b"Request body too large".to_vec()),
            "PUT" => {
                self.values.lock().unwrap().insert(key.to_owned(), request.body.clone());
                agreed()
            }
            "DELETE" => {
                let all = request.query.contains_key("recurse");
                self.values.lock().unwrap().retain(|name, _| if all { !name.starts_with(key) } else { name != key });
                agreed()
            }
            _ => (405, Vec::new(), Vec::new()),
        }
    }

    fn read(&self, key: &str, request: &Request) -> Reply {
        let values = self.values.lock().unwrap();
        let asked = |name: &str| request.query.contains_key(name);
        let below = || values.iter().filter(|(name, _)| name.starts_with(key));
        let index = vec![("X-Consul-Index", "7".to_owned())];
        let entry = |name: &str, value: &[u8]| {
            let value = base64::engine::general_purpose::STANDARD.encode(value);
            json!({"LockIndex": 0, "Key": name, "Flags": 0, "Value": value, "CreateIndex": 5, "ModifyIndex": 7})
        };
        let body = if asked("keys") {
            let separator = request.query.get("separator").filter(|separator| !separator.is_empty());
            let shortened = |name: &str| {
                let end = separator.and_then(|separator| name[key.len()..].find(separator.as_str()));
                end.map_or(name, |end| &name[..=key.len() + end]).to_owned()
            };
            let mut names: Vec<String> = below().map(|(name, _)| shortened(name)).collect();
            names.dedup();
            (!names.is_empty()).then(|| json!(names).to_string().into_bytes())
        } else if asked("recurse") {
            let entries: Vec<_> = below().map(|(name, value)| entry(name, value)).collect();
            (!entries.is_empty()).then(|| json!(entries).to_string().into_bytes())
        } else {
            values.get(key).map(|value| match asked("raw") {
                true => value.clone(),
                false => json!([entry(key, value)]).to_string().into_bytes(),
            })
        };
        body.map_or((404, index.clone(), Vec::new()), |body| (200, index, body))
    }
}

fn agreed() -> Reply {
    (200, vec![("Content-Type", "application/json".to_owned())], b"true\n".to_vec())
}
