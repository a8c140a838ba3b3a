//! The second half of the demonstration: the two masters become one set.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Instant;

use anyhow::{Context as _, Result};

use super::cluster::{Cluster, FAR, MASTERS};
use super::screen::Screen;
use super::steps::{print, show, wait_for_minions};

/// Goes through all steps of masters that share.
pub fn tell_the_story(cluster: &mut Cluster, screen: &Screen) -> Result<()> {
    become_a_set(cluster, screen)?;
    accept_on_one(cluster, screen)?;
    command_a_minion_of_the_other(cluster, screen)?;
    catch_up(cluster, screen)?;
    show_drift(cluster, screen)
}

fn become_a_set(cluster: &mut Cluster, screen: &Screen) -> Result<()> {
    screen.say("So far each master knew only its own keys and results. Two lines on each, and they share.")?;
    screen.command("cat master1/master.d/share.conf")?;
    screen.text(&cluster.share()?)?;
    for number in 0..MASTERS.len() {
        screen.command(&format!("systemctl restart salt-master    # master{}", number + 1))?;
        cluster.stop_master(number)?;
        cluster.start_master(number)?;
    }
    let config = cluster.master_dir(0);
    cluster.wait_for("the masters to link", || {
        let output = cluster.run("salt-run", &config, &["saltern.masters", "--out=json"])?;
        Ok(String::from_utf8_lossy(&output.stdout).contains("linked"))
    })?;
    (0..MASTERS.len()).try_for_each(|number| wait_for_minions(cluster, number))?;
    show(cluster, screen, "salt-run", &config, &["saltern.masters"])
}

fn accept_on_one(cluster: &mut Cluster, screen: &Screen) -> Result<()> {
    screen.say(&format!("A new minion, {FAR}, follows only the second master ({}).", MASTERS[1]))?;
    screen.typed("salt-minion", &cluster.minion_dir(FAR), &["&"])?;
    cluster.start_far_minion()?;
    let first = cluster.master_dir(0);
    cluster.wait_for("the key to arrive on the first master", || {
        let listed = cluster.run("salt-key", &first, &["-l", "un", "--no-color", "--out=txt"])?;
        Ok(String::from_utf8_lossy(&listed.stdout).contains(FAR))
    })?;
    screen.say("Its key is accepted on the first master, which it does not know.")?;
    show(cluster, screen, "salt-key", &first, &["-a", FAR, "-y"])?;
    let accepted = Instant::now();
    cluster.wait_for("the new minion to be connected", || {
        Ok(cluster.run("salt-run", &first, &["saltern.who", FAR])?.status.success())
    })?;
    let took = accepted.elapsed();
    show(cluster, screen, "salt-run", &first, &["saltern.who", FAR])?;
    screen
        .took("from the accepted key to the minion's connection with the other master, as the first one sees it", took)
}

fn command_a_minion_of_the_other(cluster: &Cluster, screen: &Screen) -> Result<()> {
    let (first, second) = (cluster.master_dir(0), cluster.master_dir(1));
    screen.say("The first master commands it all the same.")?;
    let jid = publish(cluster, screen, 0, "echo hello from the other side")?;
    screen.say("Both masters have the result.")?;
    for config in [first, second] {
        show(cluster, screen, "salt-run", &config, &["jobs.lookup_jid", &jid])?;
    }
    Ok(())
}

fn catch_up(cluster: &mut Cluster, screen: &Screen) -> Result<()> {
    screen.say("The first master dies, and misses a job.")?;
    let pid = cluster.kill_master(0)?;
    screen.command(&format!("kill -9 {pid}"))?;
    let jid = publish(cluster, screen, 1, "echo the first master is away")?;
    screen.say("It comes back, and has the result.")?;
    let config = cluster.master_dir(0);
    screen.typed("salt-master", &config, &["&"])?;
    let started = Instant::now();
    cluster.start_master(0)?;
    cluster.wait_for("the first master to have the result", || {
        let found = cluster.run("salt-run", &config, &["jobs.lookup_jid", &jid])?;
        Ok(String::from_utf8_lossy(&found.stdout).contains("is away"))
    })?;
    let took = started.elapsed();
    show(cluster, screen, "salt-run", &config, &["jobs.lookup_jid", &jid])?;
    screen.took("from the start of the first master to the result that it missed", took)
}

fn show_drift(cluster: &Cluster, screen: &Screen) -> Result<()> {
    screen.say("Somebody edits a state on one master only.")?;
    screen.command("echo '# by hand' >> master2/srv/salt/motd.sls")?;
    let path = cluster.master_dir(1).join("srv/salt/motd.sls");
    let mut file = OpenOptions::new().append(true).open(&path).context("failed to open a state")?;
    writeln!(file, "# by hand").context("failed to change a state")?;
    let config = cluster.master_dir(0);
    cluster.wait_for("the difference to be seen", || {
        let output = cluster.run("salt-run", &config, &["saltern.drift", "files"])?;
        Ok(String::from_utf8_lossy(&output.stdout).contains("motd.sls"))
    })?;
    show(cluster, screen, "salt-run", &config, &["saltern.drift", "files"])
}

/// Runs a command on the new minion from a master, prints both, and returns the job id.
fn publish(cluster: &Cluster, screen: &Screen, number: usize, command: &str) -> Result<String> {
    let (config, args) = (cluster.master_dir(number), ["--show-jid", FAR, "cmd.run", command]);
    screen.typed("salt", &config, &args)?;
    let output = cluster.run("salt", &config, &args)?;
    print(cluster, screen, "salt", &output)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let jid = text.lines().find_map(|line| line.strip_prefix("jid: ")).context("salt printed no job id")?;
    Ok(jid.to_owned())
}
