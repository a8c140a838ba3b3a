//! No command is lost: held jobs, jobs around a restart of the master, and jobs that did not fit into a full queue.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Daemon, LINES, Master, Minion, Salt, Sandbox, Transport, missing, scenario, until};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// A Saltern minion that leaves and returns.
const AWAY: &str = "away";
/// A Saltern minion that stays.
const HERE: &str = "here";
/// A Salt minion.
const STOCK: &str = "stock";

/// The time limit for anything on a busy machine.
const LONG: Duration = Duration::from_secs(25);

/// A minion that is stopped for longer loses its connection. What a Salt minion misses then is lost.
const BEATS: Duration = Duration::from_secs(3);

/// The number of restarts of the master just before a command.
const RESTARTS: usize = 10;

struct House<'a> {
    sandbox: &'a Sandbox,
    master: Master,
    away: Minion,
    _here: Minion,
    stock: Option<Minion>,
}

#[test]
fn no_command_is_lost() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("held jobs", |sandbox| {
        let (ours, theirs) = (Salt::ours()?, Salt::real("3008.5").context("checked above")?);
        let master = Master::build(&ours, "m").option("auto_accept", true).option("gather_job_timeout", 2);
        let master = master.option("timeout", 2).start(sandbox)?;
        let minion = |salt: &Salt, id: &str| Minion::build(salt, id).master(&master).start(sandbox);
        let (away, here) = (minion(&ours, AWAY)?, minion(&ours, HERE)?);
        let stock = Some(minion(&theirs, STOCK)?);
        master.wait_answering(&[AWAY, HERE, STOCK])?;
        let mut house = House { sandbox, master, away, _here: here, stock };
        let mut checks = Checks::new();
        checks.check("a minion that is away is reported before the timeout", || reported(&mut house));
        checks.check("a job is held for a minion that is away, and runs once", || held(&mut house));
        checks.check("a held job survives kill -9 of master and minion", || held_over_kills(&mut house));
        checks.check("a dropped job does not run, and one whose time is over neither", || dropped(&mut house));
        checks.check("a stopped minion gets what its queue had no room for", || stopped(&mut house));
        checks.check("the stock minion took each job once and complains of nothing", || stock_is_well(&house));
        house.stock = None;
        checks.check("the first command after a restart of the master arrives", || first_commands(&mut house));
        checks.check("a stopping master is left at once", || goodbye(&mut house));
        checks.finish()
    });
}

impl House<'_> {
    fn stop_away(&mut self) -> Result<()> {
        if self.away.daemon()?.alive() {
            self.away.daemon()?.terminate(LONG)?;
        }
        Ok(())
    }

    /// Starts `salt` with arguments and its output in a file.
    fn salt(&self, name: &str, args: &[&str]) -> Result<Daemon> {
        self.master.program("salt").args(args).start(&self.sandbox.root().join(name))
    }

    fn states(&self, jid: &str) -> Result<Value> {
        self.master.runner(&["saltern.job", jid])
    }

    fn held_jids(&self) -> Result<Vec<String>> {
        let held = self.master.runner(&["saltern.held"])?;
        Ok(held.as_object().context("a map of held jobs")?.keys().cloned().collect())
    }

    /// Returns a command that appends a line to a file each time it runs.
    fn count_runs(&self, name: &str) -> String {
        format!("echo run >> {}", self.sandbox.root().join(name).display())
    }

    fn runs(&self, name: &str) -> usize {
        fs::read_to_string(self.sandbox.root().join(name)).unwrap_or_default().lines().count()
    }
}

/// A master knows who is not connected, so `salt` need not wait until the timeout.
fn reported(house: &mut House<'_>) -> Result<()> {
    house.away.daemon()?.kill();
    let told = house.master.program("salt").args(["-t", "80", "-L", "away,here,stock", "test.ping"]).run()?;
    ensure!(told.stdout.contains("away:\n    Minion did not return. [Not connected]\n"), "{}", told.stdout);
    ensure!(told.stdout.matches("    True\n").count() == 2, "{}", told.stdout);
    ensure!(told.code == 1, "exit code {}", told.code);
    ensure!(told.took < LONG, "it took {:?}", told.took);
    Ok(())
}

fn held(house: &mut House<'_>) -> Result<()> {
    house.stop_away()?;
    let command = house.count_runs("held-runs");
    let args = ["--hold", "1m", "--show-jid", "-L", "away,here,stock", "cmd.run", &command, "python_shell=True"];
    let mut salt = house.salt("held.out", &args)?;
    until("the minion to be waited for", LONG, || salt.printed().contains("Waiting for 1 minion: away"))
        .with_context(|| salt.printed())?;
    until("the others to run it", LONG, || house.runs("held-runs") == 2).with_context(|| salt.printed())?;
    let printed = salt.printed();
    let jid = printed.lines().find_map(|line| line.strip_prefix("jid: ")).context("a line with the jid")?.to_owned();
    until("the states to be known", LONG, || {
        house
            .states(&jid)
            .is_ok_and(|states| states == json!({AWAY: "unreachable", HERE: "returned", STOCK: "returned"}))
    })
    .with_context(|| format!("{:?}", house.states(&jid)))?;
    ensure!(house.held_jids()? == [jid.clone()], "held: {:?}", house.held_jids());
    house.away.launch(house.sandbox)?;
    let code = salt.wait(LONG)?;
    ensure!(code == 0, "exit code {code}: {}", salt.printed());
    let answered = salt.printed().lines().filter(|line| *line == "away:").count();
    ensure!(answered == 1, "printed: {}", salt.printed());
    ensure!(house.runs("held-runs") == 3, "{} runs", house.runs("held-runs"));
    let states = house.master.runner(&["jobs.lookup_jid", &jid, "states=True"])?;
    ensure!(states[AWAY]["state"] == "returned" && states[AWAY]["retcode"] == 0, "{states}");
    ensure!(house.held_jids()?.is_empty(), "held: {:?}", house.held_jids());
    Ok(())
}

fn held_over_kills(house: &mut House<'_>) -> Result<()> {
    house.stop_away()?;
    let command = house.count_runs("killed-runs");
    let slow = format!("{command}; sleep 5");
    let mut salt = house.salt("killed.out", &["--hold", "1m", AWAY, "cmd.run", &slow, "python_shell=True"])?;
    until("the minion to be waited for", LONG, || salt.printed().contains("Waiting for 1 minion: away"))
        .with_context(|| salt.printed())?;
    house.master.daemon()?.kill();
    house.master.launch(house.sandbox)?;
    house.master.wait_ready()?;
    ensure!(house.held_jids()?.len() == 1, "held: {:?}", house.held_jids());
    house.away.launch(house.sandbox)?;
    until("the job to run", LONG, || house.runs("killed-runs") > 0).with_context(|| salt.printed())?;
    let jid = house.held_jids()?.pop().context("the job is still held: it has not returned")?;
    // The minion reports the start beside the job, so the job may already run before the master knows of it.
    let started = json!({AWAY: "started"});
    until("the start to be reported", LONG, || house.states(&jid).is_ok_and(|states| states == started))?;
    house.away.daemon()?.kill();
    house.away.launch(house.sandbox)?;
    house.master.wait_answering(&[AWAY])?;
    ensure!(house.runs("killed-runs") == 1, "it ran {} times", house.runs("killed-runs"));
    // It was begun before the kill, so it must not run again: its progress is unknown.
    ensure!(house.states(&jid)? == started, "{}", house.states(&jid)?);
    let dropped = house.master.runner(&["saltern.drop", &jid])?;
    ensure!(dropped == true, "dropped: {dropped}");
    let code = salt.wait(LONG)?;
    ensure!(code != 0, "nothing has returned: {}", salt.printed());
    Ok(())
}

fn dropped(house: &mut House<'_>) -> Result<()> {
    house.stop_away()?;
    let command = house.count_runs("dropped-runs");
    let jid = house.master.send(&["--hold", "1h", AWAY, "cmd.run", &command, "python_shell=True"])?;
    house.master.send(&["--hold", "1s", AWAY, "cmd.run", &command, "python_shell=True"])?;
    ensure!(house.master.runner(&["saltern.drop", &jid])? == true, "it was held");
    ensure!(house.master.runner(&["saltern.drop", &jid])? == false, "it was not held any more");
    until("the time of the other to be over", LONG, || house.held_jids().is_ok_and(|held| held.is_empty()))?;
    house.away.launch(house.sandbox)?;
    house.master.wait_answering(&[AWAY])?;
    ensure!(house.runs("dropped-runs") == 0, "{} runs", house.runs("dropped-runs"));
    Ok(())
}

/// Sends more to a stopped minion than its sockets and its small queue can take.
fn stopped(house: &mut House<'_>) -> Result<()> {
    const JOBS: usize = 14;
    let conf = house.master.conf().join("master.d/queue.conf");
    fs::write(&conf, "pub_hwm: 2\n").context("failed to write the option")?;
    house.master.daemon()?.terminate(LONG)?;
    house.master.launch(house.sandbox)?;
    house.master.wait_ready()?;
    house.master.wait_answering(&[AWAY, HERE, STOCK])?;
    let (away, stock) =
        (house.away.daemon()?.pid(), house.stock.as_mut().context("the stock minion runs")?.daemon()?.pid());
    for pid in [away, stock] {
        signal(pid, Signal::SIGSTOP)?;
    }
    // About a megabyte each: the socket buffers of the kernel take several megabytes before the queue of the master
    // fills.
    let large = "x".repeat(120_000);
    let begin = Instant::now();
    let args = ["-L", "away,stock", "test.arg_type"].into_iter().chain([large.as_str(); 8]).collect::<Vec<_>>();
    let jids: Result<Vec<String>> = (0..JOBS).map(|_| house.master.send(&args)).collect();
    let jids = jids?;
    let took = begin.elapsed();
    println!("  {JOBS} jobs took {took:?} to send");
    for pid in [away, stock] {
        signal(pid, Signal::SIGCONT)?;
    }
    let returned = |id: &str| {
        let of =
            |jid: &&String| house.master.runner(&["jobs.lookup_jid", jid]).is_ok_and(|found| found.get(id).is_some());
        jids.iter().filter(of).count()
    };
    until("all jobs to have returned", LONG, || returned(AWAY) == JOBS)
        .with_context(|| format!("{} of {JOBS} returned; {}", returned(AWAY), tail(&house.master.log())))?;
    println!("  ours had all {:?} after the first was sent", begin.elapsed());
    let log = house.master.log();
    ensure!(log.contains("the queue of a subscriber is full"), "the jobs were too small to fill the queue");
    if took > BEATS {
        println!("  the stock minion was taken for dead before it could get the rest");
        return Ok(());
    }
    until("the stock minion to have returned all", LONG * 2, || returned(STOCK) == JOBS)
        .with_context(|| format!("{} of {JOBS} returned; {}", returned(STOCK), tail(&house.master.log())))?;
    Ok(())
}

fn signal(pid: Pid, signal: Signal) -> Result<()> {
    killpg(pid, signal).with_context(|| format!("failed to signal {pid}"))
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn stock_is_well(house: &House<'_>) -> Result<()> {
    house.master.wait_answering(&[STOCK])?;
    let log = house.stock.as_ref().context("the stock minion runs")?.log();
    let bad: Vec<&str> = log.lines().filter(|line| line.contains("Traceback") || line.contains("[CRITICAL]")).collect();
    ensure!(bad.is_empty(), "{bad:?}");
    Ok(())
}

/// Restarts the master, in turn with SIGTERM and `kill -9`, and sends a command before any minion is back.
fn first_commands(house: &mut House<'_>) -> Result<()> {
    let mut slowest = Duration::ZERO;
    for round in 0..RESTARTS {
        if round % 2 == 0 {
            house.master.daemon()?.kill();
        } else {
            house.master.daemon()?.terminate(LONG)?;
        }
        house.master.launch(house.sandbox)?;
        house.master.wait_ready()?;
        let begin = Instant::now();
        // Without waiting for the minions: the master must keep the job until they are connected again.
        let output = house.master.salt_run(&["--out=txt", "-L", "away,here", "test.ping"])?;
        let complete = [AWAY, HERE].iter().all(|id| output.stdout.contains(&format!("{id}: True")));
        ensure!(complete, "round {round}: {output}");
        slowest = slowest.max(begin.elapsed());
    }
    println!("  the slowest of {RESTARTS} took {slowest:?}");
    Ok(())
}

fn goodbye(house: &mut House<'_>) -> Result<()> {
    house.master.wait_answering(&[AWAY, HERE])?;
    let took = house.master.daemon()?.terminate(LONG)?;
    ensure!(took < Duration::from_secs(3), "the master was gone after {took:?}");
    until("the minion to know", LONG, || house.away.log().contains("is stopping; it is tried again"))
}

#[test]
fn stock_minions_pass_over_what_is_ours_over_zeromq() {
    pass_over(Transport::Zeromq);
}

#[test]
fn stock_minions_pass_over_what_is_ours_over_tcp() {
    pass_over(Transport::Tcp);
}

/// Held jobs have a field that only Saltern knows, and a master that rotates its key or stops publishes a notice that
/// only Saltern minions understand. Salt's minions must ignore both.
fn pass_over(transport: Transport) {
    if missing(&LINES) {
        return;
    }
    scenario(&format!("stock minions and what is ours over {}", transport.name()), |sandbox| {
        let master = Master::build(&Salt::ours()?, "m").transport(transport).option("auto_accept", true);
        let mut master = master.option("publish_session", 20).start(sandbox)?;
        let minions: Result<Vec<Minion>> = LINES
            .iter()
            .map(|line| Minion::build(&Salt::real(line).context("checked above")?, line).master(&master).start(sandbox))
            .collect();
        let minions = minions?;
        let ours = Minion::build(&Salt::ours()?, "ours").master(&master).start(sandbox)?;
        master.wait_answering(&LINES)?;
        master.wait_answering(&["ours"])?;
        let output = master.salt_run(&["--hold", "1m", "--out=txt", "*", "test.ping"])?;
        for line in LINES {
            ensure!(output.stdout.contains(&format!("{line}: True")), "{output}");
        }
        let count = |word: &str| master.log().matches(word).count();
        let renewals = count("Rotating master AES key");
        until("the key to be renewed", 2 * LONG, || count("Rotating master AES key") > renewals)?;
        // Salt's minions fetch the new key on the next message, without a job. One that signs in while its master stops
        // may never return, so wait until all have it.
        let signed_in = |line: &&str| {
            let log = master.log();
            let since = log.rfind("Rotating master AES key").unwrap_or_default();
            log[since..].contains(&format!("Authentication accepted from {line}"))
        };
        until("all minions to have the new key", LONG, || LINES.iter().all(signed_in))?;
        let again = master.salt_run(&["--hold", "1m", "--out=txt", "*", "test.ping"])?;
        for line in LINES {
            ensure!(again.stdout.contains(&format!("{line}: True")), "{again}");
        }
        master.daemon()?.terminate(LONG)?;
        until("our minion to know", LONG, || ours.log().contains("is stopping; it is tried again"))?;
        master.launch(sandbox)?;
        master.wait_ready()?;
        // To all: a stock minion signs in when it cannot decrypt a publication, and takes that one for a replay if the next
        // one arrives meanwhile.
        let first = master.salt_run(&["--out=txt", "*", "test.ping"])?;
        ensure!(first.stdout.contains("ours: True"), "{first}");
        master.wait_answering(&LINES)?;
        for minion in &minions {
            let log = minion.log();
            let bad = |line: &&str| {
                ["Payload decryption failed", "[CRITICAL]", "KeyError", "TypeError"]
                    .iter()
                    .any(|word| line.contains(word))
            };
            let bad: Vec<&str> = log.lines().filter(bad).collect();
            ensure!(bad.is_empty(), "{} says {bad:?}", minion.id());
        }
        Ok(())
    });
}
