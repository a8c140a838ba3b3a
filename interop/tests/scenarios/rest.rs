//! salt-api: pepper and plain requests get the same answers from ours and from the real one.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Daemon, Master, Minion, Salt, Sandbox, clients, missing, scenario, until};
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
        let passwords = sandbox.root().join(format!("{name}-passwords"));
        fs::write(&passwords, format!("fred:{PASSWORD}\n"))?;
        fs::set_permissions(&passwords, fs::Permissions::from_mode(0o600))?;
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
        let mut api = master.program("salt-api").start(&master.root().join("api.out"))?;
        let place = SocketAddr::from((address, PORT));
        until("salt-api to listen", Duration::from_secs(60), || !api.alive() || TcpStream::connect(place).is_ok())?;
        ensure!(api.alive(), "salt-api of {name} has ended: {}", api.printed());
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
