//! A running `salt-api`, and a master that says what a recording expects.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use event::{Bus, Endpoints, ServeOptions};
use rt::{Listen, Rt};
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderName;
use tokio_util::sync::CancellationToken;
use transport::Limits;
use value::{Map, Value, list, map};
use wire::envelope::Envelope;

/// A token that counts.
pub const TOKEN: &str = "abababababababababababababababababababababababababababababababab";

/// A password about which the master does not decide.
pub const SLOW: &str = "slow";

/// A user who may do everything.
pub const FRED: &str = "fred";
/// A user who may do little.
pub const WILMA: &str = "wilma";

/// An answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Answer {
    /// Returns a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the master says next.
#[derive(Default)]
struct Script {
    /// The returns of the commands of the request.
    returns: Vec<Value>,
    /// The message with which the master refuses.
    refusal: Option<String>,
    /// The master refuses publications when it has no more returns.
    then_refuses: bool,
    /// Somebody has revoked the token.
    revoked: bool,
    /// How long tokens last, if not for years.
    life: Option<Duration>,
    /// The file that goes with the master after its next job.
    leaves: Option<PathBuf>,
    /// Who has logged in last.
    login: Option<(String, String)>,
    /// The answers about the fleet, by what is asked for.
    fleet: HashMap<String, Map>,
    /// The requests about the fleet and of wheel functions.
    asked: Vec<Map>,
}

/// The program and the master.
pub struct Running {
    /// The address of the program.
    pub address: SocketAddr,
    script: Arc<Mutex<Script>>,
    options: Map,
    bus: Bus,
    stop: tokio_util::sync::DropGuard,
    served: Option<event::Server>,
    place: tempfile::TempDir,
}

/// Starts the program alone. Returns its address, and what stops it.
async fn start_program(options: &Map) -> (SocketAddr, tokio_util::sync::DropGuard) {
    let config = config::Master::from_options(options.clone()).unwrap();
    let (stop, (ready, address)) = (CancellationToken::new(), tokio::sync::oneshot::channel());
    let until = stop.clone();
    tokio::spawn(async move {
        saltern_netapi::run(&config, Rt::real(), until, |address| ready.send(address).unwrap()).await.unwrap();
    });
    (address.await.unwrap(), stop.drop_guard())
}

impl Running {
    /// Starts both.
    pub async fn start() -> Self {
        Running::start_with(Map::new()).await
    }

    /// Starts both, with further options of `rest_cherrypy`.
    pub async fn start_with(more: Map) -> Self {
        let mut section = map! { "port" => 0, "host" => "127.0.0.1", "disable_ssl" => true };
        section.update(more);
        let (rt, place) = (Rt::real(), tempfile::tempdir().unwrap());
        let sockets = place.path().join("s");
        std::fs::create_dir(&sockets).unwrap();
        std::fs::write(sockets.join("publish_pull.ipc"), "").unwrap();
        let bus = Bus::new(rt.clone(), 1 << 20);
        let served = event::serve(&bus, &Endpoints::master(&sockets), ServeOptions::default()).await.unwrap();
        let script = Arc::new(Mutex::new(Script::default()));
        let port = master(&rt, bus.clone(), script.clone()).await;
        let options = map! {
            "interface" => "127.0.0.1",
            "ret_port" => port,
            "sock_dir" => sockets.display().to_string(),
            "conf_file" => place.path().join("master").display().to_string(),
            "cachedir" => place.path().join("cache").display().to_string(),
            "pki_dir" => place.path().join("pki").display().to_string(),
            "nodegroups" => map! { "web" => "L@min1,min2" },
            "netapi_enable_clients" =>
                list!["local", "local_async", "local_batch", "local_subset", "runner", "runner_async", "wheel", "wheel_async", "ssh"],
            "external_auth" => external_auth(),
            "rest_cherrypy" => section,
        };
        // It is read again when the master has started again. JSON is YAML.
        std::fs::write(place.path().join("master"), serde_json::to_string(&options).unwrap()).unwrap();
        let (address, stop) = start_program(&options).await;
        Running { address, script, options, bus, stop, served: Some(served), place }
    }

    /// Revokes the token, as `auth.del_token` does.
    pub fn revoke_token(&self) {
        self.script.lock().unwrap().revoked = true;
    }

    /// Lets tokens expire so soon after a login.
    pub fn expire_after(&self, time: Duration) {
        self.script.lock().unwrap().life = Some(time);
    }

    /// Cuts the connections to the master's event bus, as a restart of the master does.
    pub async fn restart_bus(&mut self) {
        if let Some(served) = self.served.take() {
            served.close().await;
        }
        let endpoints = Endpoints::master(&self.place.path().join("s"));
        self.served = Some(event::serve(&self.bus, &endpoints, ServeOptions::default()).await.unwrap());
    }

    /// Stops the program and starts it again. The master runs on.
    pub async fn restart(&mut self) {
        (self.address, self.stop) = start_program(&self.options).await;
    }

    /// Returns a place in the directory of the master.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Prepares the master for a recorded exchange.
    pub fn expect(&self, exchange: &Json) {
        let response = &exchange["response"];
        let mut script = Script::default();
        if response["status"] == 401 {
            script.refusal = response["message"].as_str().map(str::to_owned);
        }
        if exchange["name"] == "runner unknown" {
            let text = "Exception occurred in runner manage.nosuch: salt.exceptions.CommandExecutionError: 'manage.nosuch' is not available.";
            script.returns = vec![map! { "data" => map! { "return" => text, "success" => false } }.into()];
        } else if let Some(body) = response["body"].as_str() {
            script.returns = returns(exchange["request"]["path"].as_str().unwrap(), body);
        }
        *self.script.lock().unwrap() = script;
    }

    /// Lets the master publish a job to a minion that never returns, and then go away.
    pub fn lose_master(&self, minion: &str) {
        let accepted = self.place.path().join("pki/minions");
        std::fs::create_dir_all(&accepted).unwrap();
        std::fs::write(accepted.join(minion), "").unwrap();
        let mut script = self.script.lock().unwrap();
        script.returns = vec![map! { "jid" => "20261124160511953300", "minions" => list![minion] }.into()];
        script.leaves = Some(self.place.path().join("s/publish_pull.ipc"));
    }

    /// Lets the master go away.
    pub fn leave(&self) {
        std::fs::remove_file(self.place.path().join("s/publish_pull.ipc")).unwrap();
    }

    /// Prepares the master for one command.
    pub fn expect_answer(&self, answer: Map) {
        let mut script = self.script.lock().unwrap();
        let login = script.login.take();
        *script = Script { returns: vec![answer.into()], login, ..Script::default() };
    }

    /// Prepares the master for commands, after which it refuses publications.
    pub fn expect_and_refuse(&self, answers: Vec<Value>) {
        *self.script.lock().unwrap() = Script { returns: answers, then_refuses: true, ..Script::default() };
    }

    /// Lets the master answer a question about the fleet.
    pub fn expect_fleet(&self, of: &str, answer: Map) {
        self.script.lock().unwrap().fleet.insert(of.to_owned(), answer);
    }

    /// Returns the requests about the fleet and of wheel functions since the last call.
    pub fn asked(&self) -> Vec<Map> {
        std::mem::take(&mut self.script.lock().unwrap().asked)
    }

    /// Fires an event on the bus of the master.
    pub fn fire(&self, tag: &str, data: Map) {
        self.bus.publish(&event::Event::new(tag, data, 1 << 20).unwrap());
    }

    /// Opens a WebSocket; the status if it is refused.
    pub async fn open_socket(&self, path: &str, headers: &[(&str, &str)]) -> Result<Socket, u16> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(socket),
            Err(tungstenite::Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Opens a stream of events.
    pub async fn open(&self, path: &str, session: &str, more: &str) -> Stream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nX-Auth-Token: {session}\r\n{more}\r\n", self.address);
        stream.write_all(head.as_bytes()).await.unwrap();
        Stream { stream, text: String::new() }
    }

    /// Logs a user in, and returns the session.
    pub async fn log_in(&self, user: &str) -> String {
        self.script.lock().unwrap().refusal = None;
        let request = serde_json::json!({
            "method": "POST", "path": "/login", "headers": {"Content-Type": "application/x-www-form-urlencoded"},
            "body": format!("username={user}&password=x&eauth=auto"),
        });
        let answer = self.send(&request).await;
        answer.header("x-auth-token").unwrap_or_else(|| panic!("{answer:?}")).to_owned()
    }

    /// Sends a request: `method`, `path`, `headers`, `body`.
    pub async fn send(&self, request: &Json) -> Answer {
        let body = request["body"].as_str().unwrap_or_default();
        let method = request["method"].as_str().unwrap();
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            request["path"].as_str().unwrap(),
            self.address
        );
        for (name, value) in request["headers"].as_object().into_iter().flatten() {
            head.push_str(&format!("{name}: {}\r\n", value.as_str().unwrap()));
        }
        if !body.is_empty() || method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        self.send_raw(format!("{head}\r\n{body}").as_bytes()).await.unwrap()
    }

    /// Sends bytes, and reads the answer to the end of the connection. `None` if there is no answer.
    pub async fn send_raw(&self, bytes: &[u8]) -> Option<Answer> {
        exchange(TcpStream::connect(self.address).await.unwrap(), bytes).await
    }

    /// The same from another address of this host, as another client.
    pub async fn send_from_elsewhere(&self, bytes: &[u8]) -> Option<Answer> {
        exchange(from_elsewhere(self.address).await, bytes).await
    }
}

/// Connects from another address of this host.
pub async fn from_elsewhere(to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

async fn exchange(mut stream: TcpStream, bytes: &[u8]) -> Option<Answer> {
    // The server may answer and close before it has read all.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    parse(&String::from_utf8(answer).unwrap())
}

/// A WebSocket.
pub type Socket = WebSocketStream<TcpStream>;

/// A stream of events.
pub struct Stream {
    stream: TcpStream,
    text: String,
}

impl Stream {
    /// Reads until a text has come. Returns all that has come since the last call.
    pub async fn until(&mut self, text: &str) -> String {
        let mut part = [0; 4096];
        while !self.text.contains(text) {
            let read = tokio::time::timeout(Duration::from_secs(20), self.stream.read(&mut part)).await;
            let count = read.unwrap_or_else(|_| panic!("{text} has not come: {}", self.text)).unwrap();
            assert!(count > 0, "the stream has ended: {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&part[..count]));
        }
        std::mem::take(&mut self.text)
    }

    /// Reads to the end of the stream; the connection may go on.
    pub async fn end(&mut self) {
        self.until("0\r\n\r\n").await;
    }
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    Some(Answer { status, headers: lines.filter_map(header).collect(), body: body.to_owned() })
}

fn external_auth() -> Map {
    map! {
        "auto" => map! { "fred" => list![".*", "@wheel", "@runner", "@jobs"], "wilma" => list!["test.*"], "*" => list!["test.ping"] },
        "pam" => map! { "fred" => list![".*", "@wheel", "@runner"], "webadmins%" => list!["test.*"] },
    }
}

/// Returns what the master must have said for this body.
fn returns(path: &str, body: &str) -> Vec<Value> {
    let body: Value = yaml::load(body, yaml::UNNAMED).unwrap();
    let answered = body.get("return").cloned().unwrap_or_default();
    if let Some(info) = body.get("info") {
        return info.as_list().unwrap().to_vec();
    }
    match (path, answered) {
        (path, data) if path.starts_with("/keys") => vec![map! { "data" => map! { "return" => data } }.into()],
        ("/token", _) => body.into_list().unwrap(),
        (_, Value::List(items)) => items,
        (_, other) => vec![other],
    }
}

/// Starts a master that follows the script. Returns its port.
async fn master(rt: &Rt, bus: Bus, script: Arc<Mutex<Script>>) -> u16 {
    let listen = Listen::at("127.0.0.1:0".parse().unwrap());
    let mut requests = transport::zeromq::serve(rt.clone(), listen, Limits::default(), None).await.unwrap();
    let port = requests.address().port();
    tokio::spawn(async move {
        let mut slow = Vec::new();
        while let Some(request) = requests.next().await {
            let Ok(Envelope::Clear(clear)) = request.envelope else { panic!("not in the clear") };
            if clear.load.get_str("password") == Some(SLOW) {
                slow.push(request.reply);
                continue;
            }
            let (answer, events) = answer(&clear.load, &mut script.lock().unwrap());
            request.reply.send(answer);
            for (tag, data) in events {
                bus.publish(&event::Event::new(tag, data, 1 << 20).unwrap());
            }
        }
    });
    port
}

type Events = Vec<(String, Map)>;

fn answer(load: &Map, script: &mut Script) -> (Value, Events) {
    let refused = |name: &str, message: &str| map! { "error" => map! { "name" => name, "message" => message } };
    assert!(!load.contains_key("key") || load.get_str("key") == Some(""), "a key of the master is sent");
    match (load.get_str("cmd").unwrap(), &script.refusal) {
        // The password of wilma is right; what she lacks is the right to make tokens over HTTP.
        ("mk_token", Some(_)) if load.get_str("username") != Some(WILMA) => ("".into(), Vec::new()),
        ("mk_token", _) => {
            let field = |name| load.get_str(name).unwrap_or_default().to_owned();
            script.login = Some((field("username"), field("eauth")));
            (token(load, script.life), Vec::new())
        }
        ("get_token", _) if load.get_str("token") == Some(TOKEN) && !script.revoked => {
            let (user, backend) = script.login.clone().unwrap_or_else(|| (FRED.to_owned(), "auto".to_owned()));
            (token(&map! { "username" => user, "eauth" => backend }, script.life), Vec::new())
        }
        ("get_token", _) => (Map::new().into(), Vec::new()),
        ("ping", _) => (load.clone().into(), Vec::new()),
        ("saltern_status", _) => {
            script.asked.push(load.clone());
            let answer = script.fleet.get(load.get_str("of").unwrap()).cloned();
            let refused = || map! { "refused" => map! { "status" => 403, "reason" => "Your list does not grant it" } };
            (answer.map_or_else(refused, |fleet| map! { "fleet" => fleet }).into(), Vec::new())
        }
        ("publish", None) if script.then_refuses && script.returns.is_empty() => {
            (refused("AuthorizationError", "Authorization error occurred.").into(), Vec::new())
        }
        ("publish", Some(message)) => (refused("AuthorizationError", message).into(), Vec::new()),
        (_, Some(message)) => (refused("TokenAuthenticationError", message).into(), Vec::new()),
        (command, None) => {
            if command == "wheel" {
                script.asked.push(load.clone());
            }
            let next = if script.returns.is_empty() { Value::Null } else { script.returns.remove(0) };
            match command {
                "publish" => {
                    if let Some(file) = script.leaves.take() {
                        std::fs::remove_file(file).unwrap();
                    }
                    job(next)
                }
                // As the master: its return would show the token to all readers of the bus.
                "runner" if load.get_str("fun") == Some("auth.mk_token") => runner(no_token()),
                "runner" => runner(next),
                "wheel" => (wheel(next), Vec::new()),
                other => panic!("unknown command {other}"),
            }
        }
    }
}

fn token(load: &Map, life: Option<Duration>) -> Value {
    let (user, backend) = (load.get_str("username").unwrap_or_default(), load.get_str("eauth").unwrap_or_default());
    if load.get_str("password") == Some("bad") || backend == "ldap" {
        return "".into();
    }
    let mut token =
        map! { "start" => 4_102_444_800.25, "expire" => 4_102_488_000.5, "name" => user, "eauth" => backend };
    if (user, backend) == (WILMA, "pam") {
        token.insert("groups", list!["webadmins"]);
    }
    if let Some(life) = life {
        token.insert("expire", (std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() + life).as_secs_f64());
    }
    token.insert("token", TOKEN);
    token.into()
}

fn job(expected: Value) -> (Value, Events) {
    let returns = expected.into_map().unwrap_or_default();
    let published = |jid: Value, minions: Value| {
        Value::from(
            map! { "enc" => "clear", "load" => map! { "jid" => jid, "minions" => minions, "missing" => list![] } },
        )
    };
    if returns.is_empty() {
        return (published(Value::Null, list![]), Vec::new());
    }
    if let Some(jid) = returns.get("jid") {
        return (published(jid.clone(), returns.get("minions").cloned().unwrap()), Vec::new());
    }
    let mut jid = "20261124160509763433".to_owned();
    let mut events = Vec::new();
    for (id, returned) in &returns {
        let mut data = map! { "id" => id.clone(), "fun" => "test.ping", "success" => true };
        match returned.as_map().filter(|whole| whole.contains_key("retcode")) {
            Some(whole) => {
                jid = whole.get_str("jid").unwrap().to_owned();
                data.insert("return", whole.get("ret").cloned().unwrap());
            }
            None => drop(data.insert("return", returned.clone())),
        }
        data.insert("retcode", 0);
        data.insert("jid", jid.as_str());
        events.push((format!("salt/job/{jid}/ret/{id}"), data));
    }
    let minions: Value = returns.keys().cloned().collect();
    (published(jid.into(), minions), events)
}

fn runner(expected: Value) -> (Value, Events) {
    if let (Some(tag), Some(jid)) = (expected.get("tag"), expected.get("jid")) {
        return (map! { "tag" => tag.clone(), "jid" => jid.clone() }.into(), Vec::new());
    }
    let tag = "salt/run/20261124160514429591";
    let data = match expected.get("data") {
        Some(data) => reversed(data.as_map().unwrap()),
        None => map! { "return" => expected, "success" => true },
    };
    (map! { "tag" => tag, "jid" => "20261124160514429591" }.into(), vec![(format!("{tag}/ret"), data)])
}

/// The event of the runner that makes no tokens for the master.
fn no_token() -> Value {
    let text = "Exception occurred in runner auth.mk_token: the master makes no tokens by a runner";
    map! { "data" => map! { "return" => text, "success" => false } }.into()
}

fn wheel(expected: Value) -> Value {
    if let Some(jid) = expected.get("jid") {
        let data = map! { "jid" => jid.clone() };
        return map! { "tag" => expected.get("tag").cloned().unwrap(), "data" => data }.into();
    }
    let data = reversed(expected.get("data").and_then(Value::as_map).unwrap());
    map! { "tag" => expected.get("tag").cloned().unwrap_or_default(), "data" => data }.into()
}

/// Returns a map in another order, which must not matter.
fn reversed(map: &Map) -> Map {
    let mut entries: Vec<(Value, Value)> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    entries.reverse();
    entries.into_iter().collect()
}
