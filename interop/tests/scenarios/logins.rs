//! Logins with `external_auth`: clients of both kinds on masters of both kinds, with the same output.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Master, Minion, Output, Salt, Sandbox, missing, scenario};
use serde_json::json;

const RIGHT: &str = "correct-horse-battery";
const WRONG: &str = "wrong-horse-battery";
const MINION: &str = "one";

/// Command lines whose output must not depend on client and master, and whether the master refuses them.
const COMMANDS: &[(&[&str], bool)] = &[
    (&["-a", "file", "--username", "fred", "--password", RIGHT, MINION, "test.ping", "--out=json"], false),
    (&["-a", "file", "--username", "fred", "--password", RIGHT, MINION, "test.echo", "hello"], false),
    (&["-a", "file", "--username", "fred", "--password", RIGHT, MINION, "cmd.run", "id"], true),
    (&["-a", "file", "--username", "fred", "--password", RIGHT, MINION, "cmd.run", "id", "--out=json"], true),
    (&["-a", "file", "--username", "fred", "--password", WRONG, MINION, "test.ping"], true),
    (&["-a", "file", "--username", "fred", "--password", WRONG, MINION, "test.ping", "--out=json"], true),
    (&["-a", "file", "--username", "nobody", "--password", RIGHT, MINION, "test.ping"], true),
    (&["-a", "auto", "--username", "fred", "--password", RIGHT, MINION, "test.ping"], true),
    (&["-a", "nonsense", "--username", "fred", "--password", RIGHT, MINION, "test.ping"], true),
    (&["-T", "-a", "file", "--username", "fred", "--password", RIGHT, MINION, "test.ping", "--out=json"], false),
    (&["-T", "-a", "file", "--username", "fred", "--password", WRONG, MINION, "test.ping"], true),
];

fn master(sandbox: &Sandbox, salt: &Salt, name: &str, keys: &Path) -> Result<(Master, Minion)> {
    let passwords = sandbox.root().join("passwords");
    fs::write(&passwords, format!("fred:{RIGHT}\n"))?;
    fs::set_permissions(&passwords, fs::Permissions::from_mode(0o600))?;
    let auth = json!({"file": {"^filename": passwords, "fred": ["test.*", {"@wheel": ["key.list_all"]}]}});
    let token = sandbox.root().join(name).join("token");
    let built = Master::build(salt, name).key_pair(keys);
    let master = built.option("external_auth", auth).option("token_file", json!(token)).start(sandbox)?;
    let minion = Minion::build(&Salt::ours()?, MINION).master(&master).start(sandbox)?;
    master.accept(&[MINION])?;
    master.wait_answering(&[MINION])?;
    Ok((master, minion))
}

#[test]
fn people_log_in_at_masters_of_both_kinds() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("logins", |sandbox| {
        let (ours, theirs) = (Salt::ours()?, Salt::real("3008.5").context("no real Salt")?);
        // The minion meets both masters, one after the other, and knows one key.
        let keys = Master::make_key_pair(&theirs, sandbox)?;
        let expected = {
            let (master, _minion) = master(sandbox, &theirs, "theirs", &keys)?;
            let expected = outputs(&master, &theirs)?;
            compare(&master, &ours, &expected)?;
            expected
        };
        let (master, _minion) = master(sandbox, &ours, "ours", &keys)?;
        compare(&master, &theirs, &expected)?;
        compare(&master, &ours, &expected)?;
        let log = master.log();
        ensure!(!log.contains(RIGHT) && !log.contains(WRONG), "a password is in the log of the master");
        one_token_for_both(sandbox, &master, &theirs)
    });
}

fn run(master: &Master, client: &Salt, args: &[&str]) -> Result<Output> {
    // A token of the command before would take the place of the login.
    let token = master.root().join("token");
    if token.exists() {
        fs::remove_file(token)?;
    }
    master.program_of(client, "salt").args(args).run()
}

fn outputs(master: &Master, client: &Salt) -> Result<Vec<String>> {
    COMMANDS.iter().map(|(args, _)| Ok(run(master, client, args)?.stdout)).collect()
}

fn compare(master: &Master, client: &Salt, expected: &[String]) -> Result<()> {
    let mut checks = Checks::new();
    for ((args, refused), expected) in COMMANDS.iter().zip(expected) {
        checks.check(format!("{} at {}: {}", client.name(), master.name(), args.join(" ")), || {
            let output = run(master, client, args)?;
            ensure!(output.stdout == *expected, "printed {:?}, and the real Salt {expected:?}", output.stdout);
            ensure!(!client.is_ours() || (output.code != 0) == *refused, "ended with {}", output.code);
            let makes_token = args.contains(&"-T") && !refused;
            let token = token_of(&master.root().join("token"))?;
            ensure!(token.is_some() == makes_token, "kept the token {token:?}");
            Ok(())
        });
    }
    checks.finish()
}

/// Returns the token in a file, which only its user may read.
fn token_of(path: &Path) -> Result<Option<String>> {
    if !path.exists() {
        return Ok(None);
    }
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "the token has the mode {mode:o}");
    Ok(Some(fs::read_to_string(path)?))
}

/// A token that one client has made stands for the user of the other.
fn one_token_for_both(sandbox: &Sandbox, master: &Master, theirs: &Salt) -> Result<()> {
    let made = ["-T", "-a", "file", "--username", "fred", "--password", RIGHT, MINION, "test.ping"];
    run(master, theirs, &made)?.ok()?;
    let kept = master.program("salt").args(["-a", "file", MINION, "test.echo", "kept", "--out=txt"]).run()?.ok()?;
    ensure!(kept.stdout == "one: kept\n", "{}", kept.stdout);
    let refused = master.program("salt").args(["-a", "file", MINION, "cmd.run", "id"]).run()?.exits(1)?;
    ensure!(refused.stdout == "Authorization error occurred.\n", "{}", refused.stdout);
    fs::remove_file(master.root().join("token"))?;
    let password = sandbox.root().join("password");
    fs::write(&password, format!("{RIGHT}\n"))?;
    let from_file = master.program("salt").env("SALT_PASSWORD_FILE", &password);
    from_file.args(["-a", "file", "--username", "fred", MINION, "test.ping"]).run()?.ok()?;
    let typed = master.program("salt").stdin(format!("fred\n{RIGHT}\n"));
    let typed = typed.args(["-a", "file", MINION, "test.ping", "--out=txt"]).run()?.ok()?;
    ensure!(typed.stdout.ends_with("one: True\n"), "{}", typed.stdout);
    Ok(())
}
