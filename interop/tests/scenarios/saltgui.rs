//! SaltGUI, unmodified, shows the same with our salt-api as with the real one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Daemon, Master, Minion, Salt, Sandbox, clients, password_file, scenario};
use serde_json::{Value, json};

use crate::browser::{chromium, shots};

const USER: &str = "fred";
const PASSWORD: &str = "correct-horse-battery";
const MINION: &str = "one";
const PORT: u16 = 8000;

/// The time limit for a browser that opens all pages on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// The release whose salt-api is compared.
const RELEASE: &str = "3008.5";

/// Returns the directory with SaltGUI's `index.html`.
fn saltgui() -> Result<PathBuf> {
    let place = std::env::var_os("SALTERN_SALTGUI_DIR").map(PathBuf::from);
    let place = place.filter(|place| place.join("index.html").exists());
    place.context("SALTERN_SALTGUI_DIR is not the directory `saltgui` of a checkout of SaltGUI")
}

/// A master with a salt-api that serves SaltGUI.
struct Side {
    name: &'static str,
    master: Master,
    url: String,
    _api: Daemon,
}

impl Side {
    fn start(sandbox: &Sandbox, salt: &Salt, name: &'static str, keys: &Path, gui: &Path) -> Result<Self> {
        let passwords = password_file(&sandbox.root().join(format!("{name}-passwords")), &[USER], PASSWORD)?;
        let address = sandbox.address(&[PORT]);
        let granted = json!([".*", "@runner", "@wheel"]);
        let section = json!({
            "host": address, "port": PORT, "disable_ssl": true,
            "app": gui.join("index.html"), "static": gui.join("static"), "static_path": "/static",
        });
        let master = Master::build(salt, name)
            .key_pair(keys)
            .option("external_auth", json!({"file": {"^filename": passwords, USER: granted}}))
            .option("netapi_enable_clients", json!(["local", "local_async", "runner", "runner_async", "wheel"]))
            .option("nodegroups", json!({"web": format!("L@{MINION}")}))
            .option("rest_cherrypy", section)
            .option("api_logfile", json!(sandbox.root().join(name).join("api.log")))
            .option("api_pidfile", json!(sandbox.root().join(name).join("api.pid")))
            .start(sandbox)?;
        let place = SocketAddr::from((address, PORT));
        let api = master.start_api(place)?;
        Ok(Side { name, master, url: format!("http://{place}"), _api: api })
    }

    /// Opens all pages, and returns the lines that they show.
    fn pages(&self, python: &Salt, chromium: &str) -> Result<Value> {
        let clients = clients("playwright").context("playwright is not installed; `cargo xtask salt` installs it")?;
        let asked = json!({
            "url": self.url, "user": USER, "password": PASSWORD, "minion": MINION, "chromium": chromium,
            "shots": shots()?.join(format!("saltgui-{}", self.name)),
        });
        let program = self.master.python_program(python, "saltgui.py", &[&asked.to_string()])?;
        program.env("PYTHONPATH", clients).limit(LONG).run()?.ok()?.json()
    }
}

#[test]
#[ignore = "SaltGUI is in no package registry: run it with SALTERN_SALTGUI_DIR and --ignored"]
fn saltgui_shows_the_same_as_with_the_real_one() {
    scenario("saltgui", |sandbox| {
        let gui = saltgui()?;
        let chromium = chromium().context("there is no Chromium (package chromium)")?;
        let (real, own) = (Salt::real(RELEASE).context("no real Salt")?, Salt::ours()?);
        // The minion follows both masters, which have one key.
        let keys = Master::make_key_pair(&real, sandbox)?;
        let theirs = Side::start(sandbox, &real, "theirs", &keys, &gui)?;
        let ours = Side::start(sandbox, &own, "ours", &keys, &gui)?;
        let _minion = Minion::build(&own, MINION).masters([&theirs.master, &ours.master]).start(sandbox)?;
        for side in [&theirs, &ours] {
            side.master.wait_pending(MINION)?;
            side.master.accept(&[MINION])?;
            side.master.wait_answering(&[MINION])?;
        }
        let (expected, found) = (theirs.pages(&real, chromium)?, ours.pages(&real, chromium)?);
        let mut checks = Checks::new();
        for (page, expected) in expected.as_object().context("no pages")? {
            checks.check(page, || {
                let found = &found[page];
                ensure!(found == expected, "{found:#}, and with the real one {expected:#}");
                Ok(())
            });
        }
        checks.finish()
    });
}
