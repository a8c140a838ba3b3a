//! Texts that people and tools look for in logs: Saltern logs them on the same occasions as Salt.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use interop::{Master, Minion, Salt, missing, scenario, until};

/// The release of Salt whose texts are compared.
const LINE: &str = "3008.5";

fn both() -> Result<[Salt; 2]> {
    Ok([Salt::real(LINE).expect("the test has looked for it"), Salt::ours()?])
}

#[test]
fn verified_masters_and_missing_verification_keys_are_told() {
    if missing(&[LINE]) {
        return;
    }
    const MISSING: &str = "Verification public key master_sign.pub does not exist. You need to copy it from the master to the \
                           minions pki directory";
    const VERIFIED: [&str; 2] = [
        "Successfully verified signature of master public key with verification public key master_sign.pub",
        "Received signed and verified master pubkey from master ",
    ];
    for salt in both().unwrap() {
        scenario(&format!("log texts of trust, {}", salt.name()), |sandbox| {
            let master = Master::build(&salt, "m")
                .option("auto_accept", true)
                .option("master_sign_pubkey", true)
                .start(sandbox)?;
            let build = |id: &str| {
                let built = Minion::build(&salt, id).master(&master).option("log_level_logfile", "debug");
                built.option("verify_master_pubkey_sign", true)
            };
            let without = build("without").start(sandbox)?;
            until("the missing key to be told", Duration::from_secs(60), || without.log().contains(MISSING))?;
            let mut with = build("with").prepare(sandbox)?;
            fs::copy(master.pki().join("master_sign.pub"), with.root().join("pki/master_sign.pub"))?;
            with.launch(sandbox)?;
            master.wait_answering(&["with"])?;
            let log = with.log();
            for text in VERIFIED {
                ensure!(log.contains(text), "{text:?} is not in the log:\n{log}");
            }
            Ok(())
        });
    }
}

/// The lines that `-l debug` shows of a state run.
const DEBUG_OF_A_CALL: &[&str] = &[
    "Reading configuration from ",
    "Configuration file path: ",
    "Gathering pillar data for state run",
    "Including configuration from ",
    "Master URI: tcp://",
    "Fetching file from saltenv 'base', ** done ** 'told.sls'",
    "compile template: ",
    "Time (in seconds) to render ",
    "Running state [a name] at time ",
    "Executing state test.nop for [a name]",
    "Completed state [a name] at time ",
];

/// The additional lines of Saltern, like releases before 3008.
const RENDERED: &[&str] = &["Rendered data from file: ", "Results of YAML rendering: "];

/// The lines of a master's log of this run at level debug.
const DEBUG_OF_A_MASTER: &[&str] = &["Configuration file path: ", "Found file(path: told.sls; saltenv: base): "];

/// The lines that `-l debug` shows of a command.
const DEBUG_OF_A_COMMAND: &[&str] =
    &["Reading configuration from ", "get_iter_returns for jid ", " return from debugged"];

#[test]
fn debug_shows_what_is_read_asked_and_rendered() {
    if missing(&[LINE]) {
        return;
    }
    for salt in both().unwrap() {
        scenario(&format!("debug texts, {}", salt.name()), |sandbox| {
            let built = Master::build(&salt, "m").option("auto_accept", true);
            let master = built.option("log_level_logfile", "debug").start(sandbox)?;
            let minion = Minion::build(&salt, "debugged").master(&master).start(sandbox)?;
            master.wait_answering(&["debugged"])?;
            master.serve("told.sls", b"told:\n  test.nop:\n    - name: {{ 'a' }} name\n")?;
            fs::write(minion.conf().join("minion.d/more.conf"), "test_option: 1\n")?;
            let call = minion.program("salt-call").args(["-l", "debug", "state.apply", "told"]).run()?.ok()?;
            let command = master.program("salt").args(["-l", "debug", "debugged", "test.ping"]).run()?.ok()?;
            let rendered = if salt.is_ours() { RENDERED } else { &[] };
            for (output, texts) in [(&call, DEBUG_OF_A_CALL), (&call, rendered), (&command, DEBUG_OF_A_COMMAND)] {
                let missing: Vec<_> = texts.iter().filter(|text| !output.stderr.contains(**text)).collect();
                ensure!(missing.is_empty(), "{missing:?} is not in {output}");
            }
            let log = master.log();
            let missing: Vec<_> = DEBUG_OF_A_MASTER.iter().filter(|text| !log.contains(**text)).collect();
            ensure!(missing.is_empty(), "{missing:?} is not in the log of the master:\n{log}");
            Ok(())
        });
    }
}

/// Jobs that fail, and the lines that they leave in the minion's log.
const OF_FAILED_JOBS: &[(&[&str], &str, &str)] = &[
    (
        &["cmd.run", "x", "runas=nosuch"],
        "ERROR",
        "A command in 'cmd.run' had a problem: User 'nosuch' is not available",
    ),
    (&["cmd.run", "x", "shell=/no/sh"], "WARNING", "Attempt to run a shell command with what may be an invalid shell!"),
    (&["cmd.run", "exit 3"], "ERROR", "Command 'exit' failed with return code: 3"),
    (
        &["test.ping", "foo=1"],
        "ERROR",
        "Problem executing 'test.ping': The following keyword arguments are not valid: foo=1",
    ),
    (
        &["user.info"],
        "WARNING",
        "Passed invalid arguments to user.info: info() missing 1 required positional argument: 'name'",
    ),
    (&["test.exception", "x"], "WARNING", "The minion function caused an exception"),
    (&["cp.cache_file", "salt://nosuch"], "ERROR", "Unable to cache file 'salt://nosuch' from saltenv 'base'."),
    (&["cp.get_url", "salt://nosuch", "/tmp/x"], "ERROR", "Unable to fetch file salt://nosuch from saltenv base."),
    (
        &["state.single", "file.managed", "name=/dev/null/x", "makedirs=False"],
        "WARNING",
        "State for file: /dev/null/x - Neither 'source' nor 'contents' nor 'contents_pillar' nor 'contents_grains' was defined, \
         yet 'replace' was set to 'True'.",
    ),
];

/// What the master logs when a pillar does not render.
const OF_A_PILLAR: [&str; 2] = [
    "Rendering SLS 'broken' failed, render error:",
    "Pillar render error: Rendering SLS 'broken' failed. Please see master log for details.",
];

/// Fails unless a line of a log has a level and contains a text.
fn has_line(log: &str, level: &str, text: &str) -> Result<()> {
    let found = log.lines().any(|line| line.contains(&format!("[{level:8}]")) && line.contains(text));
    ensure!(found, "no line of level {level} has {text:?}:\n{log}");
    Ok(())
}

#[test]
fn failures_are_logged_with_level_and_text() {
    if missing(&[LINE]) {
        return;
    }
    for salt in both().unwrap() {
        scenario(&format!("log texts of failures, {}", salt.name()), |sandbox| {
            let built = Master::build(&salt, "m").option("auto_accept", true);
            let master = built.option("log_level_logfile", "info").start(sandbox)?;
            let built = Minion::build(&salt, "failing").master(&master);
            let minion = built.option("log_level_logfile", "info").start(sandbox)?;
            master.wait_answering(&["failing"])?;
            has_line(&master.log(), "INFO", "Starting up the Salt Master")?;
            has_line(&minion.log(), "INFO", "Starting up the Salt Minion")?;
            for (words, level, text) in OF_FAILED_JOBS {
                master.program("salt").args(["failing"]).args(*words).run()?;
                has_line(&minion.log(), level, text)?;
            }
            fs::write(master.root().join("srv/pillar/top.sls"), "base: {'*': [broken]}\n")?;
            fs::write(master.root().join("srv/pillar/broken.sls"), "{{ no.such.thing }}\n")?;
            master.program("salt").args(["failing", "pillar.items"]).run()?;
            for text in OF_A_PILLAR {
                has_line(&master.log(), "CRITICAL", text)?;
            }
            Ok(())
        });
    }
}
