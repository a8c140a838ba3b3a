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
