//! The steps of the demonstration: commands and their output.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Output;
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::cluster::{Cluster, MASTERS, MINIONS, tail};
use super::screen::Screen;
use super::sharing;

/// Goes through all steps.
pub fn tell_the_story(cluster: &mut Cluster, screen: &Screen) -> Result<()> {
    screen.say(&format!("Everything lives in {}", cluster.dir().display()))?;
    start(cluster, screen)?;
    accept_keys(cluster, screen)?;
    command_from_both(cluster, screen)?;
    highstate(cluster, screen)?;
    lose_a_master(cluster, screen)?;
    hold_a_job(cluster, screen)?;
    bring_it_back(cluster, screen)?;
    sharing::tell_the_story(cluster, screen)
}

/// Prints how to talk to the masters, and waits for a signal.
pub fn stay_up(cluster: &Cluster, screen: &Screen, told: &mpsc::Receiver<()>) -> Result<()> {
    screen.say("The masters and minions stay up. In another terminal:")?;
    screen.line(&format!("export PATH={}:$PATH", cluster.bin().display()))?;
    for number in 0..MASTERS.len() {
        screen.line(&format!("salt -c {} '*' test.ping", cluster.master_dir(number).display()))?;
    }
    screen.line(&format!("salt-call -c {} grains.get id", cluster.minion_dir(MINIONS[0]).display()))?;
    screen.say("Ctrl-C ends it and removes everything.")?;
    // The other side ends only by sending.
    let _ = told.recv();
    Ok(())
}

/// Prints the next steps.
pub fn next_steps(screen: &Screen) -> Result<()> {
    screen.say("Everything is stopped. Next steps:")?;
    screen.line("saltern demo --keep            the same, and it stays up to play with")?;
    screen.line("saltern link /usr/local/bin    put salt, salt-key, salt-master ... into the PATH")?;
    screen.line("saltern completions bash       Tab completes minions, functions and SLS files")?;
    screen.line("salt-master -d; salt-minion -d with 'master: [first, second]' in /etc/salt/minion")
}

fn start(cluster: &mut Cluster, screen: &Screen) -> Result<()> {
    screen.say("Start the first master, give its key pair to the second, start that one too.")?;
    screen.typed("salt-master", &cluster.master_dir(0), &["&"])?;
    cluster.start_master(0)?;
    // As in Salt's tutorial: minions with both masters must find the same key on both.
    cluster.copy_master_key()?;
    screen.command("cp master1/pki/master/master.{pem,pub} master2/pki/master/")?;
    screen.typed("salt-master", &cluster.master_dir(1), &["&"])?;
    cluster.start_master(1)?;
    screen.say(&format!("Start three minions, each with both masters in its list ({}).", MASTERS.join(", ")))?;
    for id in MINIONS {
        screen.typed("salt-minion", &cluster.minion_dir(id), &["&"])?;
    }
    cluster.start_minions()
}

fn accept_keys(cluster: &Cluster, screen: &Screen) -> Result<()> {
    screen.say("Their keys wait on both masters. Accept them.")?;
    for number in 0..MASTERS.len() {
        let config = cluster.master_dir(number);
        // They arrive whenever the minions have connected.
        cluster.wait_for("all keys to arrive", || {
            let listed = cluster.run("salt-key", &config, &["-l", "un", "--no-color", "--out=txt"])?;
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            Ok(MINIONS.iter().all(|id| listed.contains(id)))
        })?;
        show(cluster, screen, "salt-key", &config, &["-A", "-y"])?;
    }
    for number in 0..MASTERS.len() {
        wait_for_minions(cluster, number)?;
    }
    Ok(())
}

fn command_from_both(cluster: &Cluster, screen: &Screen) -> Result<()> {
    screen.say("Both masters command the same minions.")?;
    show(cluster, screen, "salt", &cluster.master_dir(0), &["*", "test.ping"])?;
    show(cluster, screen, "salt", &cluster.master_dir(1), &["*", "cmd.run", "echo hello from $(hostname)"])?;
    show(cluster, screen, "salt", &cluster.master_dir(0), &["web*", "pillar.get", "role", "unmask=True"])
}

fn highstate(cluster: &Cluster, screen: &Screen) -> Result<()> {
    screen.say("A small highstate: a directory, and a file in it from a template.")?;
    screen.command("cat master1/srv/salt/motd.sls")?;
    let sls = std::fs::read_to_string(cluster.master_dir(0).join("srv/salt/motd.sls"))?;
    // The directory's path is long and of no interest here.
    screen.text(&sls.replace(&cluster.dir().display().to_string(), "..."))?;
    show(cluster, screen, "salt", &cluster.master_dir(0), &["web1", "state.apply"])?;
    screen.say("Again, from the other master, for all: one line each, and nothing to do on web1.")?;
    show(cluster, screen, "salt", &cluster.master_dir(1), &["--state-output=terse", "*", "state.apply"])
}

fn lose_a_master(cluster: &mut Cluster, screen: &Screen) -> Result<()> {
    screen.say("The first master dies.")?;
    let pid = cluster.kill_master(0)?;
    let died = Instant::now();
    screen.command(&format!("kill -9 {pid}"))?;
    screen.say("The second master still commands the minions.")?;
    show(cluster, screen, "salt", &cluster.master_dir(1), &["*", "test.ping"])?;
    screen.took("from the death of the first master to the answers of all minions to the second", died.elapsed())
}

fn hold_a_job(cluster: &mut Cluster, screen: &Screen) -> Result<()> {
    let number = MINIONS.len() - 1;
    let id = MINIONS[number];
    screen.say(&format!("{id} dies too. A job for it is held."))?;
    let pid = cluster.kill_minion(number)?;
    screen.command(&format!("kill -9 {pid}"))?;
    let (config, args) = (cluster.master_dir(1), ["--hold=10m", id, "cmd.run", "echo I am back"]);
    screen.typed("salt", &config, &args)?;
    let mut job = cluster.start("salt", &config, &args)?;
    let mut errors = BufReader::new(job.stderr.take().context("the error output is not there")?);
    let mut waiting = String::new();
    // Read before the minion starts: the line proves that the job is held.
    errors.read_line(&mut waiting)?;
    screen.text(&waiting)?;
    screen.typed("salt-minion", &cluster.minion_dir(id), &["&"])?;
    cluster.start_minion(number)?;
    let started = Instant::now();
    let mut answer = String::new();
    // To the end first: a full pipe would block the program that is waited for.
    job.stdout.take().context("the output is not there")?.read_to_string(&mut answer)?;
    errors.read_to_string(&mut answer)?;
    screen.text(&answer)?;
    let status = job.wait()?;
    cluster.go_on()?;
    if !status.success() {
        bail!("salt ended with {status}");
    }
    screen.took("from the start of the minion to its answer to the held job", started.elapsed())
}

fn bring_it_back(cluster: &mut Cluster, screen: &Screen) -> Result<()> {
    screen.say("The first master comes back, and the minions to it.")?;
    screen.typed("salt-master", &cluster.master_dir(0), &["&"])?;
    let started = Instant::now();
    cluster.start_master(0)?;
    wait_for_minions(cluster, 0)?;
    let took = started.elapsed();
    show(cluster, screen, "salt", &cluster.master_dir(0), &["*", "test.ping"])?;
    screen.took("from the start of the first master to the answers of all minions", took)
}

/// Waits until all minions answer a master.
pub fn wait_for_minions(cluster: &Cluster, number: usize) -> Result<()> {
    let config = cluster.master_dir(number);
    let outcome = cluster.wait_for(&format!("all minions to answer {}", MASTERS[number]), || {
        // One second each, so that a minion that is late does not use up the patience.
        Ok(cluster.run("salt", &config, &["-t", "1", "*", "test.ping"])?.status.success())
    });
    if outcome.is_err() && cluster.go_on().is_ok() {
        rt::complain!("{}", tail(&cluster.minion_dir(MINIONS[0]).join("minion.out"), 2000));
    }
    outcome
}

/// Prints a command and its output.
///
/// # Errors
/// When the command fails.
pub fn show(cluster: &Cluster, screen: &Screen, program: &str, config: &Path, args: &[&str]) -> Result<()> {
    screen.typed(program, config, args)?;
    print(cluster, screen, program, &cluster.run(program, config, args)?)
}

/// Prints what a command printed.
///
/// # Errors
/// When the command has failed.
pub fn print(cluster: &Cluster, screen: &Screen, program: &str, output: &Output) -> Result<()> {
    screen.text(&String::from_utf8_lossy(&output.stdout))?;
    // If the error output is closed, the text is lost, which does no harm.
    let _ = std::io::stderr().write_all(&output.stderr);
    cluster.go_on()?;
    if !output.status.success() {
        bail!("{program} ended with {}", output.status);
    }
    Ok(())
}
