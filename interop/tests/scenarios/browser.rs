//! The console in Chromium: each page, and what operators do with it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use interop::{
    Checks, Daemon, Master, MasterBuilder, Minion, Program, Salt, Sandbox, clients, missing, password_file, scenario,
    until,
};
use serde_json::{Map, Value, json};

const USER: &str = "fred";
const PASSWORD: &str = "correct-horse-battery";
const API_PORT: u16 = 8000;
const POOL_PORT: u16 = 4520;

/// The time limit for anything on a busy machine.
const LONG: Duration = Duration::from_secs(90);

/// Minions of the swarm that return, and further ones that are away.
const LIVE: usize = 1000;
const AWAY: usize = 9000;

/// Where a package puts Chromium.
const CHROMIUM: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// What the tests need of the machine.
struct Tools {
    chromium: &'static str,
    clients: PathBuf,
    axe: Option<PathBuf>,
}

/// Returns whether the change is judged. Then nothing may be missing.
fn judged() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}

/// Returns the program of Chromium.
pub fn chromium() -> Option<&'static str> {
    CHROMIUM.into_iter().find(|place| Path::new(place).exists())
}

/// Finds what is needed. `None` prints why the test is skipped.
fn tools() -> Option<Tools> {
    let skipped = |what: &str| {
        assert!(!judged(), "{what}");
        println!("skipped: {what}");
    };
    let Some(chromium) = chromium() else {
        skipped("there is no Chromium (package chromium)");
        return None;
    };
    let Some(clients) = clients("playwright") else {
        skipped("playwright is not installed; `cargo xtask salt` installs it");
        return None;
    };
    let axe = axe(&clients);
    if axe.is_none() {
        skipped("the rules of accessibility, since axe-core cannot be fetched");
    }
    Some(Tools { chromium, clients, axe })
}

/// Fetches axe-core, which is no part of Saltern, and keeps it beside the Python clients.
fn axe(clients: &Path) -> Option<PathBuf> {
    const VERSION: &str = "4.14.1";
    let place = clients.join(format!("axe-core-{VERSION}.js"));
    if place.exists() {
        return Some(place);
    }
    let dir = tempfile::tempdir().ok()?;
    let fetch = format!("npm pack --silent axe-core@{VERSION} && tar -xzf axe-core-{VERSION}.tgz package/axe.min.js");
    let done = std::process::Command::new("sh").args(["-c", &fetch]).current_dir(dir.path()).status().ok()?;
    let part = clients.join(format!(".axe-{}", std::process::id()));
    let copied = done.success() && fs::copy(dir.path().join("package/axe.min.js"), &part).is_ok();
    (copied && fs::rename(&part, &place).is_ok()).then_some(place)
}

/// The directory of the screenshots.
pub fn shots() -> Result<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/screenshots");
    fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
    Ok(dir)
}

/// A master with its salt-api.
struct Site {
    master: Master,
    place: SocketAddr,
    _api: Daemon,
}

impl Site {
    fn start(sandbox: &Sandbox, name: &str, more: impl FnOnce(MasterBuilder) -> MasterBuilder) -> Result<Self> {
        let passwords = password_file(&sandbox.root().join("passwords"), &[USER], PASSWORD)?;
        let address = sandbox.address(&[API_PORT]);
        let all = json!([".*", "@runner", "@wheel", "@events"]);
        let section = json!({ "host": address, "port": API_PORT, "disable_ssl": true });
        let master = Master::build(&Salt::ours()?, name)
            .option("external_auth", json!({"file": {"^filename": passwords, USER: all}}))
            .option("netapi_enable_clients", json!(["local_async", "local_batch", "runner", "wheel"]))
            .option("rest_cherrypy", section);
        let master = more(master).start(sandbox)?;
        let place = SocketAddr::from((address, API_PORT));
        let api = master.start_api(place)?;
        Ok(Site { master, place, _api: api })
    }

    /// Prepares the script for some of its parts.
    fn script(&self, tools: &Tools, parts: &[&str], more: Value) -> Result<Program> {
        let mut asked = json!({
            "parts": parts, "url": format!("http://{}", self.place), "user": USER, "password": PASSWORD, "shots": shots()?,
            "axe": tools.axe, "chromium": tools.chromium,
        });
        let more: Map<String, Value> = serde_json::from_value(more)?;
        asked.as_object_mut().context("a map")?.extend(more);
        let python = Salt::real("3008.5").context("checked before")?;
        let program = self.master.python_program(&python, "browser.py", &[&asked.to_string()])?;
        Ok(program.env("PYTHONPATH", &tools.clients).limit(LONG))
    }
}

/// Notes what the script has found.
fn note(checks: &mut Checks, found: &Value) -> Result<()> {
    let found = found.as_object().filter(|found| !found.is_empty()).context("the browser has checked nothing")?;
    for (name, wrong) in found {
        checks.check(name, || match wrong.as_str() {
            Some("") => Ok(()),
            _ => bail!("{wrong}"),
        });
    }
    Ok(())
}

#[test]
fn the_console_of_two_masters_in_a_browser() {
    if missing(&["3008.5"]) {
        return;
    }
    let Some(tools) = tools() else { return };
    scenario("browser", |sandbox| {
        let ours = Salt::ours()?;
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let member = |master: MasterBuilder, name: &str| {
            let master = master.key_pair(&pair).option("id", format!("{name}_master"));
            master.option("cluster_id", "fleet").option("cluster_secret", "correct horse battery staple")
        };
        let mut one = Site::start(sandbox, "m1", |master| member(master, "m1"))?;
        let peer = format!("{}:{POOL_PORT}", one.master.address());
        let two = member(Master::build(&ours, "m2"), "m2").option("cluster_peers", json!([peer])).start(sandbox)?;
        until("the masters to be linked", LONG, || {
            let known = one.master.runner(&["saltern.masters"]);
            known.is_ok_and(|known| known["masters"]["m2"]["state"] == json!("linked"))
        })?;
        let minion = |id| Minion::build(&ours, id).masters([&one.master, &two]);
        let ids = ["db1", "web1"];
        let _minions = [minion(ids[0]).start(sandbox)?, minion(ids[1]).start(sandbox)?];
        one.master.accept(&ids)?;
        let _pending = minion("new1").start(sandbox)?;
        one.master.wait_pending("new1")?;
        one.master.wait_answering(&ids)?;
        one.master.serve("web.sls", STATES.as_bytes())?;
        let job = one.master.send(&["*", "test.arg", "<script>alert(1)</script>", "colour=\u{1b}[31mred"])?;
        let states = one.master.send(&["*", "state.apply", "web"])?;
        let asked = json!({ "minions": ids, "pending": "new1", "job": job, "states": states });
        let mut checks = Checks::new();
        let seen = one.script(&tools, &["logins", "pages", "run", "keys"], asked.clone())?.run()?.ok()?;
        note(&mut checks, &seen.last_json()?)?;
        checks.check("the key that was accepted is accepted on both masters", || {
            for master in [&one.master, &two] {
                let key = master.pki().join("minions/new1");
                until("the accepted key", LONG, || key.exists())?;
            }
            Ok(())
        });
        one.master.wait_answering(&["db1", "new1", "web1"])?;
        let seen = one.script(&tools, &["undo"], asked)?.run()?.ok()?;
        note(&mut checks, &seen.last_json()?)?;
        checks.check("the key whose acceptance was undone waits on both masters", || {
            for master in [&one.master, &two] {
                let (accepted, pending) = (master.pki().join("minions/new1"), master.pki().join("minions_pre/new1"));
                until("the key to wait again", LONG, || !accepted.exists() && pending.exists())?;
            }
            Ok(())
        });
        one.master.accept(&["new1"])?;
        one.master.wait_answering(&["db1", "new1", "web1"])?;
        let asked = json!({ "minions": ["db1", "new1", "web1"] });
        let mut browser = one.script(&tools, &["outage"], asked)?.start(&sandbox.root().join("outage.out"))?;
        until("the browser to follow a job", LONG, || !browser.alive() || browser.printed().contains("ready"))?;
        one.master.daemon()?.kill();
        until("the browser to notice that the master is away", LONG, || {
            !browser.alive() || browser.printed().contains("the master is away")
        })?;
        one.master.launch(sandbox)?;
        let code = browser.wait(LONG)?;
        ensure!(code == 0, "the browser ended with {code}: {}", browser.printed());
        let printed = browser.printed();
        let last = printed.lines().last().context("the browser printed nothing")?;
        note(&mut checks, &serde_json::from_str(last)?)?;
        checks.finish()
    });
}

/// States that change something, are as they should be, and fail.
const STATES: &str = "\
motd:
  test.succeed_with_changes:
    - name: /etc/motd
packages:
  test.nop: []
service:
  test.fail_without_changes:
    - name: nginx
";

#[test]
fn the_console_of_ten_thousand_minions_in_a_browser() {
    if missing(&["3008.5"]) {
        return;
    }
    let Some(tools) = tools() else { return };
    scenario("browser-many", |sandbox| {
        let site = Site::start(sandbox, "m1", |master| master)?;
        let keys = sandbox.root().join("swarm-keys");
        let swarm = |prefix: &str, count: usize| {
            let (address, count) = (site.master.address().to_string(), count.to_string());
            let program = Program::new(sandbox, &Salt::saltern()?).args(["swarm", "--master", &address, "-n", &count]);
            let program = program.args(["--key-count", "5", "--lines", "--grains", "--prefix", prefix]);
            Ok::<_, anyhow::Error>(program.arg_dir("--keys", &keys).arg_dir("--place-keys", &site.master.pki()))
        };
        let lines = sandbox.root().join("swarm.lines");
        let mut live = swarm("live-", LIVE)?.args(["--return-delay", "1..3000"]).start(&lines)?;
        away(&site.master)?;
        let ready = format!("\"ready\":{LIVE}");
        until("the swarm to be ready", LONG, || !live.alive() || live.printed().replace(' ', "").contains(&ready))?;
        ensure!(live.alive(), "the swarm has ended: {}", live.printed());
        let (near_end, last) = (format!("live-{:05}", LIVE - 701), format!("live-{LIVE:05}"));
        let asked = json!({ "target": "live-*", "one": "away-04711", "near_end": near_end, "last": last });
        let seen = site.script(&tools, &["thousand", "many"], asked)?.run()?.ok()?;
        let mut checks = Checks::new();
        note(&mut checks, &seen.last_json()?)?;
        checks.finish()
    });
}

/// Makes minions that are away: accepted keys, and cached grains. To a page they are minions as others.
fn away(master: &Master) -> Result<()> {
    let accepted = master.pki().join("minions");
    let some = || fs::read_dir(&accepted).ok()?.flatten().next();
    until("the swarm to place its keys", LONG, || some().is_some())?;
    let key = fs::read(some().context("a key")?.path())?;
    let grains = master.cache().join("grains");
    fs::create_dir_all(&grains)?;
    // As MessagePack: {"os": "Debian", "osrelease": "13", "saltversion": "3008.5"}
    let packed = b"\x83\xa2os\xa6Debian\xa9osrelease\xa213\xabsaltversion\xa63008.5";
    for number in 0..AWAY {
        let id = format!("away-{number:05}");
        fs::write(accepted.join(&id), &key)?;
        fs::write(grains.join(format!("{id}.p")), packed)?;
    }
    Ok(())
}
