//! salt-api: pepper and plain requests get the same answers from ours and from the real one, consoles see what users may see, and
//! events come over a WebSocket.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{
    Checks, Daemon, Master, MasterBuilder, Minion, Program, Salt, Sandbox, clients, missing, password_file, scenario,
    until,
};
use serde_json::{Value, json};

const PASSWORD: &str = "correct-horse-battery";
const MINION: &str = "one";
const PORT: u16 = 8000;
const CLIENTS: [&str; 8] =
    ["local", "local_async", "local_batch", "local_subset", "runner", "runner_async", "wheel", "wheel_async"];

/// A master with its salt-api.
struct Side {
    master: Master,
    url: String,
    _api: Daemon,
}

impl Side {
    fn start(sandbox: &Sandbox, salt: &Salt, name: &str, keys: &Path) -> Result<Self> {
        let passwords = password_file(&sandbox.root().join(format!("{name}-passwords")), &["fred"], PASSWORD)?;
        let granted = json!(["test.*", "sys.list_functions", {"@wheel": ["key.list_all", "key.finger", "key.gen_accept"]}, {"@runner": ["auth.mk_token", "test.arg", "manage.up"]}]);
        let files = sandbox.root().join(format!("{name}-files"));
        fs::create_dir_all(files.join("static"))?;
        for (file, text) in [("index.html", "the page"), ("icon.ico", "the icon"), ("static/a.css", "a {}")] {
            fs::write(files.join(file), text)?;
        }
        let address = sandbox.address(&[PORT]);
        let master = Master::build(salt, name)
            .key_pair(keys)
            .option("external_auth", json!({"file": {"^filename": passwords, "fred": granted}}))
            .option("netapi_enable_clients", json!(CLIENTS))
            .option(
                "rest_cherrypy",
                json!({
                    "host": address, "port": PORT, "disable_ssl": true,
                    "static": files.join("static"), "app": files.join("index.html"), "favicon": files.join("icon.ico"),
                }),
            )
            .option("api_logfile", json!(sandbox.root().join(name).join("api.log")))
            .option("api_pidfile", json!(sandbox.root().join(name).join("api.pid")))
            .start(sandbox)?;
        let place = SocketAddr::from((address, PORT));
        let api = master.start_api(place)?;
        Ok(Side { master, url: format!("http://{place}"), _api: api })
    }

    /// Sends all requests, and returns what came back.
    fn answers(&self, python: &Salt) -> Result<Value> {
        let clients = clients("pepper").context("pepper is not installed; `cargo xtask salt` installs it")?;
        let program = self.master.python_program(python, "rest.py", &[&self.url, PASSWORD, MINION])?;
        program.env("PYTHONPATH", clients).run()?.ok()?.json()
    }
}

#[test]
fn clients_of_salt_api_get_the_same_answers() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("rest", |sandbox| {
        let (real, own) = (Salt::real("3008.5").context("no real Salt")?, Salt::ours()?);
        // The minion follows both masters, which have one key.
        let keys = Master::make_key_pair(&real, sandbox)?;
        let theirs = Side::start(sandbox, &real, "theirs", &keys)?;
        let ours = Side::start(sandbox, &own, "ours", &keys)?;
        let _minion = Minion::build(&own, MINION).masters([&theirs.master, &ours.master]).start(sandbox)?;
        for side in [&theirs, &ours] {
            side.master.wait_pending(MINION)?;
            side.master.accept(&[MINION])?;
            side.master.wait_answering(&[MINION])?;
        }
        let (expected, found) = (theirs.answers(&real)?, ours.answers(&real)?);
        let mut checks = Checks::new();
        for part in ["pepper", "requests"] {
            let expected = expected[part].as_object().context("no answers")?;
            ensure!(expected.len() > 5, "{part} sends only {} requests", expected.len());
            for (name, expected) in expected {
                checks.check(format!("{part}: {name}"), || {
                    let found = &found[part][name];
                    ensure!(found == expected, "{found}, and the real one {expected}");
                    Ok(())
                });
            }
        }
        let log = fs::read_to_string(sandbox.root().join("ours/api.log"))?;
        ensure!(!log.contains(PASSWORD), "a password is in the log of salt-api");
        checks.finish()
    });
}

/// The answer of one request: the status and the body.
fn ask(place: SocketAddr, session: &str, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
    let (status, text) = ask_text(place, session, method, path, body)?;
    let value = serde_json::from_str(&text).with_context(|| format!("{method} {path}: {status} {text}"))?;
    Ok((status, value))
}

fn ask_text(place: SocketAddr, session: &str, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, String)> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(place)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    // The answer to HTTP/1.0 is not in chunks, and ends with the connection.
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nX-Auth-Token: {session}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
    Ok((status, body.to_owned()))
}

fn log_in(place: SocketAddr, user: &str) -> Result<String> {
    let login = json!({"username": user, "password": PASSWORD, "eauth": "file"});
    let (status, answer) = ask(place, "", "POST", "/login", Some(&login))?;
    ensure!(status == 200, "{user} cannot log in: {answer}");
    Ok(answer["return"][0]["token"].as_str().context("no token")?.to_owned())
}

/// Starts a master with its salt-api. fred may do everything, wilma ping web1.
fn start_api(sandbox: &Sandbox, built: MasterBuilder) -> Result<(Master, SocketAddr, Daemon)> {
    let passwords = password_file(&sandbox.root().join("passwords"), &["fred", "wilma"], PASSWORD)?;
    let address = sandbox.address(&[PORT]);
    let granted = json!({
        "^filename": passwords, "fred": [".*", "@runner", "@wheel"], "wilma": [{"web1": ["test.ping"]}],
    });
    let master = built
        .option("external_auth", json!({"file": granted}))
        .option("netapi_enable_clients", json!(CLIENTS))
        .option("rest_cherrypy", json!({"host": address, "port": PORT, "disable_ssl": true}))
        .option("api_logfile", json!(sandbox.root().join("api.log")))
        .option("api_pidfile", json!(sandbox.root().join("api.pid")))
        .start(sandbox)?;
    let place = SocketAddr::from((address, PORT));
    let api = master.start_api(place)?;
    Ok((master, place, api))
}

#[test]
fn consoles_see_what_users_may_see() {
    scenario("rest-v1", |sandbox| {
        let salt = Salt::ours()?;
        let (master, place, _api) = start_api(sandbox, Master::build(&salt, "m1"))?;
        let _minions = ["web1", "web2"].map(|id| Minion::build(&salt, id).masters([&master]).start(sandbox));
        for id in ["web1", "web2"] {
            master.wait_pending(id)?;
        }
        let (fred, wilma) = (log_in(place, "fred")?, log_in(place, "wilma")?);
        let get = |session: &str, path: &str| ask(place, session, "GET", path, None);
        let post = |session: &str, path: &str, body: Value| ask(place, session, "POST", path, Some(&body));

        let (_, keys) = get(&fred, "/v1/keys?state=pending")?;
        ensure!(keys["keys"].as_array().map(Vec::len) == Some(2), "{keys}");
        let (status, wrong) = post(&fred, "/v1/keys/web1/accept", json!({"fingerprint": "00:11"}))?;
        ensure!(status == 409, "{wrong}");
        let (status, refused) = get(&wilma, "/v1/keys")?;
        ensure!(status == 403 && refused["title"] == "Forbidden", "{refused}");
        let (status, decided) = post(
            &fred,
            "/v1/keys:batch",
            json!({"action": "accept", "keys": keys["keys"].as_array().into_iter().flatten()
            .map(|key| json!({"id": key["id"], "fingerprint": key["fingerprint"]})).collect::<Vec<_>>()}),
        )?;
        ensure!(status == 200 && decided["keys"][1]["state"] == "accepted", "{decided}");
        master.wait_answering(&["web1", "web2"])?;

        let (_, minions) = get(&fred, "/v1/minions?limit=1")?;
        ensure!(minions["minions"][0]["status"] == "up" && minions["next"] == "web1", "{minions}");
        let (_, rest) = get(&fred, "/v1/minions?after=web1&target=web*")?;
        ensure!(rest["minions"][0]["id"] == "web2" && rest["next"].is_null(), "{rest}");

        for (tgt, allowed) in [("web1", true), ("*", false)] {
            let (_, seen) = post(&wilma, "/v1/preview", json!({"tgt": tgt, "fun": "test.ping"}))?;
            ensure!(seen["minions"] == json!(["web1"]) && seen["allowed"] == allowed, "{seen}");
        }
        let (status, refused) = post(&wilma, "/v1/jobs", json!({"tgt": "*", "fun": "test.ping"}))?;
        ensure!(status == 403, "{refused}");

        let (status, lines) = ask_text(
            place,
            &fred,
            "POST",
            "/v1/jobs?wait=30",
            Some(&json!({"tgt": "*", "fun": "test.arg", "arg": [1]})),
        )?;
        let lines: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        ensure!(status == 200 && lines.len() == 4 && lines[3]["missing"] == json!([]), "{status} {lines:?}");
        let jid = lines[0]["jid"].as_str().context("no job")?;
        let (_, job) = get(&fred, &format!("/v1/jobs/{jid}"))?;
        ensure!(job["state"] == "done" && job["counts"]["returned"] == 2, "{job}");
        let (_, jobs) = get(&fred, "/v1/jobs?fun=test.arg")?;
        ensure!(jobs["jobs"].as_array().map(Vec::len) == Some(1) && jobs["jobs"][0]["jid"] == jid, "{jobs}");
        let (_, returns) = get(&fred, &format!("/v1/jobs/{jid}/returns?limit=1"))?;
        ensure!(returns["returns"][0]["id"] == "web1" && returns["next"] == "web1", "{returns}");
        let (status, refused) = get(&wilma, &format!("/v1/jobs/{jid}"))?;
        ensure!(status == 403, "{refused}");

        let (_, sleeping) = post(&fred, "/v1/jobs", json!({"tgt": "web1", "fun": "test.sleep", "arg": [60]}))?;
        let sleeping = format!("/v1/jobs/{}", sleeping["jid"].as_str().context("no job")?);
        let (_, job) = get(&fred, &sleeping)?;
        ensure!(job["state"] == "running", "{job}");
        let (status, refused) = ask(place, &wilma, "DELETE", &sleeping, None)?;
        ensure!(status == 403, "{refused}");
        let (status, killed) = ask(place, &fred, "DELETE", &sleeping, None)?;
        ensure!(status == 202 && killed["minions"] == json!(["web1"]), "{killed}");

        let (_, masters) = get(&fred, "/v1/masters")?;
        ensure!(masters["masters"][0]["state"] == "here" && masters["cluster_id"].is_null(), "{masters}");
        let (status, _) = get(&fred, "/v1/drift")?;
        ensure!(status == 200, "no drift");
        Ok(())
    });
}

/// Prepares a client with Python's `websockets`.
fn socket_client(master: &Master, place: SocketAddr, session: &str, what: &[&str]) -> Result<Program> {
    let clients = clients("websockets").context("websockets is not installed; `cargo xtask salt` installs it")?;
    let python = Salt::real("3008.5").context("no real Salt")?;
    let place = place.to_string();
    let program = master.python_program(&python, "ws_events.py", &[&[place.as_str(), session], what].concat())?;
    Ok(program.env("PYTHONPATH", clients))
}

#[test]
fn events_come_over_a_websocket() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("rest-ws", |sandbox| {
        let salt = Salt::ours()?;
        let built = Master::build(&salt, "m1").option("auto_accept", true);
        let (mut master, place, _api) = start_api(sandbox, built)?;
        let _minion = Minion::build(&salt, "web1").master(&master).start(sandbox)?;
        master.wait_answering(&["web1"])?;
        let session = log_in(place, "fred")?;
        let events = || socket_client(&master, place, &session, &["job", "web1"])?.run()?.ok()?.json();
        let seen = events()?;
        ensure!(seen["answer"] == "server received message" && seen["code"] == 1000, "{seen}");
        let last = seen["messages"].as_array().and_then(|messages| messages.last()?.as_str()).context("no message")?;
        let last: Value = serde_json::from_str(last.strip_prefix("data: ").context("no data")?.trim_end())?;
        ensure!(last["data"]["return"] == "<b>over a WebSocket</b>" && last["data"]["id"] == "web1", "{last}");

        let maps = socket_client(&master, place, &session, &["job", "web1", "?format_events"])?.run()?.ok()?.json()?;
        let jid = maps["jid"].as_str().context("no job")?;
        let last = maps["messages"].as_array().and_then(|messages| messages.last()?.as_str()).context("no message")?;
        let last: Value = serde_json::from_str(last)?;
        ensure!(last["jobs"][jid]["minions"]["web1"]["success"] == true, "{last}");

        // The client learns why it misses events, and its session outlives the restart of the master.
        let mut waiting = socket_client(&master, place, &session, &["wait"])?.start(&sandbox.root().join("ws.out"))?;
        until("the WebSocket to open", Duration::from_secs(60), || waiting.printed().contains("open"))?;
        master.daemon()?.terminate(Duration::from_secs(60))?;
        master.launch(sandbox)?;
        master.wait_ready()?;
        ensure!(waiting.wait(Duration::from_secs(60))? == 0, "{}", waiting.printed());
        ensure!(waiting.printed().contains(r#""code": 1012"#), "{}", waiting.printed());
        master.wait_answering(&["web1"])?;
        let again = socket_client(&master, place, &session, &["job", "web1"])?.run()?.ok()?.json()?;
        ensure!(again["answer"] == seen["answer"], "{again}");
        let log = fs::read_to_string(sandbox.root().join("api.log"))?;
        ensure!(log.contains("GET /ws: 101") && !log.contains(&session), "a session is in the log of salt-api");
        Ok(())
    });
}
