//! Two masters of Saltern as one set over a server of NATS.

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{
    Daemon, Master, MasterBuilder, Minion, Program, Salt, Sandbox, nats_server_or_skip, scenario, until, until_some,
};
use serde_json::json;

use crate::sharing::wait_linked;

/// How long masters may take to notice something, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const PORT: u16 = 4222;

/// What the server wants of masters.
const TOKEN: &str = "open sesame of the bus";

/// A server at an address of its own.
struct Nats {
    program: PathBuf,
    address: Ipv4Addr,
    daemon: Daemon,
}

impl Nats {
    fn start(program: PathBuf, sandbox: &Sandbox) -> Result<Nats> {
        let address = sandbox.address(&[PORT]);
        let daemon = Nats::launch(&program, address, sandbox)?;
        Ok(Nats { program, address, daemon })
    }

    fn launch(program: &std::path::Path, address: Ipv4Addr, sandbox: &Sandbox) -> Result<Daemon> {
        let (host, port) = (address.to_string(), PORT.to_string());
        let server = Program::new(sandbox, program).args(["-a", &host, "-p", &port, "--auth", TOKEN]);
        let daemon = server.start(&sandbox.folder("nats")?.join("server.out"))?;
        until("the server to listen", PATIENCE, || TcpStream::connect((address, PORT)).is_ok())?;
        Ok(daemon)
    }

    fn again(&mut self, sandbox: &Sandbox) -> Result<()> {
        self.daemon = Nats::launch(&self.program, self.address, sandbox)?;
        Ok(())
    }

    fn member(&self, ours: &Salt, name: &str, pair: &std::path::Path) -> MasterBuilder {
        let master = Master::build(ours, name).key_pair(pair).option("id", format!("{name}_master"));
        let master = master.option("cluster_id", "fleet").option("cluster_secret", "correct horse battery staple");
        let master = master.option("cluster_bus", format!("nats://{}:{PORT}", self.address));
        master.option("cluster_bus_credentials", json!({"token": TOKEN}))
    }
}

fn wait_state(master: &Master, other: &str, state: &str) -> Result<()> {
    let mut last = json!(null);
    let seen = until_some(&format!("{other} to be {state} for {}", master.name()), PATIENCE, || {
        last = master.runner(&["saltern.masters"]).ok()?;
        (last["masters"][other]["state"] == json!(state)).then_some(())
    });
    seen.with_context(|| format!("the last answer was {last}"))
}

/// Publishes a job on one master and waits until both have its return.
fn job_on_both(one: &Master, two: &Master, id: &str, text: &str) -> Result<()> {
    let output = one.program("salt").args([id, "test.echo", text, "--async"]).run()?.ok()?;
    let is_jid = |word: &&str| word.len() == 20 && word.bytes().all(|one| one.is_ascii_digit());
    let jid = output.stdout.split_whitespace().find(is_jid).with_context(|| format!("no job id in {output}"))?;
    for master in [one, two] {
        let mut last = json!(null);
        until_some(&format!("the return of {jid} on {}", master.name()), PATIENCE, || {
            last = master.runner(&["jobs.lookup_jid", jid]).ok()?;
            (last[id] == json!(text)).then_some(())
        })
        .with_context(|| format!("the last answer was {last}"))?;
    }
    Ok(())
}

#[test]
fn masters_share_over_a_server_of_nats_and_go_on_without_it() {
    let Some(program) = nats_server_or_skip() else { return };
    scenario("masters share over a server of NATS", |sandbox| {
        let ours = Salt::ours()?;
        let mut nats = Nats::start(program, sandbox)?;
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let one = nats.member(&ours, "m1", &pair).start(sandbox)?;
        let two = nats.member(&ours, "m2", &pair).start(sandbox)?;
        wait_linked(&one, "m2")?;
        wait_linked(&two, "m1")?;
        let bus = one.runner(&["saltern.masters"])?["bus"].clone();
        ensure!(bus == json!({"servers": format!("nats://{}:{PORT}", nats.address), "state": "connected"}), "{bus}");

        // Accepted on one, connected to the other.
        let _far = Minion::build(&ours, "far").master(&two).start(sandbox)?;
        let _near = Minion::build(&ours, "near").master(&one).start(sandbox)?;
        one.accept(&["far", "near"])?;
        two.wait_answering(&["far", "near"])?;
        one.wait_answering(&["far", "near"])?;
        job_on_both(&one, &two, "far", "over the bus")?;

        nats.daemon.kill();
        wait_state(&one, "m2", "away")?;
        wait_state(&two, "m1", "away")?;
        let bus = one.runner(&["saltern.masters"])?["bus"]["state"].clone();
        ensure!(bus == json!("no connection"), "without a server the bus is {bus}");
        // Each goes on with its own minions, and decides.
        ensure!(one.ask("near", &["test.echo", "alone"])? == json!("alone"), "near does not answer its own master");
        ensure!(two.ask("far", &["test.echo", "alone"])? == json!("alone"), "far does not answer its own master");
        two.program("salt-key").args(["-d", "near", "-y"]).run()?.ok()?;
        let warned =
            one.log().lines().filter(|line| line.contains("no connection to the servers of cluster_bus (")).count();
        ensure!(warned == 1, "the loss of the server is told {warned} times");
        ensure!(!one.log().contains(TOKEN), "the token is in the log");

        nats.again(sandbox)?;
        wait_linked(&one, "m2")?;
        wait_linked(&two, "m1")?;
        until("the deletion to reach the first master", PATIENCE, || !one.pki().join("minions/near").exists())?;
        job_on_both(&one, &two, "far", "again")
    });
}

#[test]
fn a_master_with_another_secret_is_refused_on_the_bus() {
    let Some(program) = nats_server_or_skip() else { return };
    scenario("a master with another secret is refused on the bus", |sandbox| {
        let ours = Salt::ours()?;
        let nats = Nats::start(program, sandbox)?;
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let one = nats.member(&ours, "m1", &pair).start(sandbox)?;
        let other = "incorrect horse battery staple";
        let two = nats.member(&ours, "m2", &pair).option("cluster_secret", other).start(sandbox)?;
        for master in [&one, &two] {
            let refused = |line: &str| {
                line.contains("no link over the bus with") && line.contains("cluster_secret or keys differ")
            };
            let log = until_some(&format!("{} to say why", master.name()), PATIENCE, || {
                master.log().lines().find(|line| refused(line)).map(str::to_owned)
            });
            log.with_context(|| format!("the log is {}", master.log()))?;
            let shown = master.runner(&["saltern.masters"])?;
            ensure!(shown["others"].to_string().contains("wrong secret"), "the list does not say why: {shown}");
        }
        Ok(())
    });
}
