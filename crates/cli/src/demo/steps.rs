//! The steps of the demonstration, told as commands and their output.

use std::path::Path;

use anyhow::{Result, bail};

use super::cluster::{Cluster, MASTERS, MINIONS, tail};

/// Goes through all steps.
pub fn tell_the_story(cluster: &mut Cluster) -> Result<()> {
    say(&format!("Everything lives in {}", cluster.dir().display()));
    start(cluster)?;
    accept_keys(cluster)?;
    command_from_both(cluster)?;
    lose_a_master(cluster)?;
    bring_it_back(cluster)
}

/// Prints how to talk to the masters and waits for Ctrl-C.
pub fn stay_up(cluster: &Cluster) -> Result<()> {
    say("The masters and minions stay up. In another terminal:");
    println!("export PATH={}:$PATH", cluster.bin().display());
    for number in 0..MASTERS.len() {
        println!("salt -c {} '*' test.ping", cluster.master_dir(number).display());
    }
    println!("salt-call -c {} grains.get id", cluster.minion_dir(MINIONS[0]).display());
    say("Ctrl-C ends it.");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            done = tokio::signal::ctrl_c() => done,
            _ = terminate.recv() => Ok(()),
        }
    })?;
    Ok(())
}

fn start(cluster: &mut Cluster) -> Result<()> {
    say("Start the first master, give its key pair to the second, start that one too.");
    typed("salt-master", &cluster.master_dir(0), &["&"]);
    cluster.start_master(0)?;
    cluster.copy_master_key()?;
    println!("$ cp master1/pki/master/master.{{pem,pub}} master2/pki/master/");
    typed("salt-master", &cluster.master_dir(1), &["&"]);
    cluster.start_master(1)?;
    say(&format!("Start three minions, each with both masters in its list ({}).", MASTERS.join(", ")));
    for id in MINIONS {
        typed("salt-minion", &cluster.minion_dir(id), &["&"]);
    }
    cluster.start_minions()
}

fn accept_keys(cluster: &Cluster) -> Result<()> {
    say("Their keys wait on both masters. Accept them.");
    for number in 0..MASTERS.len() {
        let config = cluster.master_dir(number);
        cluster.wait_for("all keys to arrive", || {
            let listed = cluster.run("salt-key", &config, &["-l", "un"])?;
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            Ok(MINIONS.iter().all(|id| listed.lines().any(|line| line.trim() == *id)))
        })?;
        show(cluster, "salt-key", &config, &["-A", "-y"])?;
    }
    for number in 0..MASTERS.len() {
        wait_for_minions(cluster, number)?;
    }
    Ok(())
}

fn command_from_both(cluster: &Cluster) -> Result<()> {
    say("Both masters command the same minions.");
    show(cluster, "salt", &cluster.master_dir(0), &["*", "test.ping"])?;
    show(cluster, "salt", &cluster.master_dir(1), &["*", "cmd.run", "echo hello from $(hostname)"])?;
    show(cluster, "salt", &cluster.master_dir(0), &["web*", "pillar.get", "role", "unmask=True"])?;
    show(cluster, "salt", &cluster.master_dir(1), &["-G", "id:db1", "cp.get_file_str", "salt://motd.txt"])
}

fn lose_a_master(cluster: &mut Cluster) -> Result<()> {
    say("The first master dies.");
    let pid = cluster.kill_master(0)?;
    println!("$ kill -9 {pid}");
    say("The second commands on.");
    show(cluster, "salt", &cluster.master_dir(1), &["*", "test.ping"])
}

fn bring_it_back(cluster: &mut Cluster) -> Result<()> {
    say("The first master comes back, and the minions to it.");
    typed("salt-master", &cluster.master_dir(0), &["&"]);
    cluster.start_master(0)?;
    wait_for_minions(cluster, 0)?;
    show(cluster, "salt", &cluster.master_dir(0), &["*", "test.ping"])
}

fn wait_for_minions(cluster: &Cluster, number: usize) -> Result<()> {
    let config = cluster.master_dir(number);
    let outcome = cluster.wait_for(&format!("all minions to answer {}", MASTERS[number]), || {
        Ok(cluster.run("salt", &config, &["-t", "1", "*", "test.ping"])?.status.success())
    });
    if outcome.is_err() {
        eprintln!("{}", tail(&cluster.minion_dir(MINIONS[0]).join("minion.out"), 2000));
    }
    outcome
}

fn show(cluster: &Cluster, program: &str, config: &Path, args: &[&str]) -> Result<()> {
    typed(program, config, args);
    let output = cluster.run(program, config, args)?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("{program} ended with {}", output.status);
    }
    Ok(())
}

fn say(text: &str) {
    println!("\n# {text}");
}

/// Prints a command line with short directory names.
fn typed(program: &str, config: &Path, args: &[&str]) {
    let name = config.file_name().unwrap_or_default().to_string_lossy();
    let quoted: Vec<String> = args.iter().map(|arg| quote(arg)).collect();
    println!("$ {program} -c {name} {}", quoted.join(" "));
}

fn quote(arg: &str) -> String {
    let plain = arg == "&" || arg.chars().all(|letter| letter.is_alphanumeric() || "-_./:=".contains(letter));
    if plain { arg.to_owned() } else { format!("'{arg}'") }
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn what_a_shell_would_change_is_quoted() {
        assert_eq!(quote("*"), "'*'");
        assert_eq!(quote("test.ping"), "test.ping");
        assert_eq!(quote("echo hello"), "'echo hello'");
    }
}
