//! Logins with `external_auth`: clients of both kinds on masters of both kinds, with the same output.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Master, Minion, Output, Salt, Sandbox, differences, missing, password_file, scenario};
use serde_json::{Value, json};

const RIGHT: &str = "correct-horse-battery";
const WRONG: &str = "wrong-horse-battery";
const MINION: &str = "one";

/// Command lines whose output must not depend on client and master, and whether the master refuses them. `RIGHT` and `WRONG`
/// stand for flags with a password.
const COMMANDS: &[(&str, bool)] = &[
    ("salt -a file RIGHT one test.ping --out=json", false),
    ("salt -a file RIGHT one test.echo hello", false),
    ("salt -a file RIGHT one cmd.run id", true),
    ("salt -a file RIGHT one cmd.run id --out=json", true),
    ("salt -a file WRONG one test.ping", true),
    ("salt -a file WRONG one test.ping --out=json", true),
    ("salt -a file --username nobody --password x one test.ping", true),
    ("salt -a auto RIGHT one test.ping", true),
    ("salt -a nonsense RIGHT one test.ping", true),
    ("salt -T -a file RIGHT one test.ping --out=json", false),
    ("salt -T -a file WRONG one test.ping", true),
    ("salt-run -a file RIGHT test.arg 1 two a=3", false),
    ("salt-run -a file RIGHT test.arg 1 two a=3 --out=json", false),
    ("salt-run -a file RIGHT test.metasyntactic", false),
    ("salt-run -a file RIGHT config.get transport", false),
    ("salt-run -a file RIGHT config.get user", true),
    ("salt-run -a file RIGHT cache.grains one", true),
    ("salt-run -a file RIGHT cache.grains one --out=json", true),
    ("salt-run -a file WRONG test.arg", true),
    ("salt-run -a auto RIGHT test.arg", true),
    ("salt-run -a nonsense RIGHT test.arg", true),
    ("salt-run -a file RIGHT --async test.arg", false),
    ("salt-run -T -a file RIGHT test.metasyntactic", false),
    ("salt-run -T -a file WRONG test.arg", true),
    ("salt-key --eauth file RIGHT -L", false),
    ("salt-key --eauth file RIGHT -l acc --out=json", false),
    ("salt-key --eauth file RIGHT -f nobody", false),
    ("salt-key --eauth file RIGHT -p one", true),
    ("salt-key --eauth file RIGHT -p one --out=json", true),
    ("salt-key --eauth file RIGHT -a nobody -y", false),
    ("salt-key --eauth file WRONG -L", true),
    ("salt-key -T --eauth file RIGHT -l acc", false),
    ("salt-key -T --eauth file WRONG -l acc", true),
];

fn master(sandbox: &Sandbox, salt: &Salt, name: &str, keys: &Path) -> Result<(Master, Minion)> {
    let passwords = password_file(&sandbox.root().join("passwords"), &["fred"], RIGHT)?;
    let auth = json!({"file": {"^filename": passwords, "fred": [
        "test.*",
        "@test",
        {"@config": [{"get": {"args": ["transport"]}}]},
        {"@wheel": ["key.list", "key.finger", "key.glob_match", "key.accept", "key.delete"]},
    ]}});
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
            let expected = (outputs(&master, &theirs)?, scripted(&master, &theirs)?);
            compare(&master, &ours, &expected.0)?;
            keys_are_changed(&master)?;
            expected
        };
        let (master, _minion) = master(sandbox, &ours, "ours", &keys)?;
        compare(&master, &theirs, &expected.0)?;
        compare(&master, &ours, &expected.0)?;
        keys_are_changed(&master)?;
        tokens_are_made_and_deleted(&master)?;
        let different = differences(&expected.1, &scripted(&master, &theirs)?);
        ensure!(different.is_empty(), "clients in Python at their master | at ours:\n{}", different.join("\n"));
        let log = master.log();
        ensure!(!log.contains(RIGHT) && !log.contains(WRONG), "a password is in the log of the master");
        one_token_for_both(sandbox, &master, &theirs)
    });
}

fn run(master: &Master, client: &Salt, command: &str) -> Result<Output> {
    // A token of the command before would take the place of the login.
    let token = master.root().join("token");
    if token.exists() {
        fs::remove_file(token)?;
    }
    let flags = |user, password| format!("--username {user} --password {password}");
    // Too many failures would keep fred out.
    let command = command.replace("RIGHT", &flags("fred", RIGHT)).replace("WRONG", &flags("ann", WRONG));
    let mut words = command.split(' ');
    let program = words.next().context("a command without a program")?;
    master.program_of(client, program).args(words).run()
}

fn outputs(master: &Master, client: &Salt) -> Result<Vec<String>> {
    COMMANDS.iter().map(|(command, _)| Ok(run(master, client, command)?.stdout)).collect()
}

/// Returns what the clients in Python may do.
fn scripted(master: &Master, theirs: &Salt) -> Result<Value> {
    // Both are asked about the same keys.
    offer_key(master, &master.pki().join("minions").join(MINION), "new")?;
    offer_key(master, &master.pki().join("minions").join(MINION), "other")?;
    let seen = master.python(theirs, "logins.py", &[RIGHT, WRONG])?.ok()?.last_json()?;
    for id in ["minions/new", "minions/other"] {
        fs::remove_file(master.pki().join(id)).with_context(|| format!("{id} is somewhere else"))?;
    }
    Ok(seen)
}

fn offer_key(master: &Master, key: &Path, id: &str) -> Result<()> {
    let pending = master.pki().join("minions_pre");
    fs::create_dir_all(&pending)?;
    fs::copy(key, pending.join(id)).map(drop).with_context(|| format!("failed to offer a key for {id}"))
}

/// Our `salt-key` changes keys through a master. That of Salt does nothing.
fn keys_are_changed(master: &Master) -> Result<()> {
    offer_key(master, &master.pki().join("minions").join(MINION), "new")?;
    offer_key(master, &master.pki().join("minions").join(MINION), "other")?;
    let ours = Salt::ours()?;
    let key = |action: &str| run(master, &ours, &format!("salt-key --eauth file RIGHT {action} -y"));
    let accepted = key("-a new")?.ok()?;
    let says = "The following keys are going to be accepted:\nUnaccepted Keys:\nnew\nKey for minion new accepted.\n";
    ensure!(accepted.stdout == says, "{accepted}");
    let refused = key("-r other")?.exits(1)?;
    ensure!(
        refused.stdout.ends_with("Authentication failure of type \"eauth\" occurred for user fred.\n"),
        "{refused}"
    );
    let deleted = key("-d new")?.ok()?;
    ensure!(deleted.stdout.ends_with("Accepted Keys:\nnew\nKey for minion new deleted.\n"), "{deleted}");
    ensure!(!master.pki().join("minions/new").exists() && master.pki().join("minions_pre/other").exists());
    Ok(fs::remove_file(master.pki().join("minions_pre/other"))?)
}

/// The runner `auth`, in the form of its output.
fn tokens_are_made_and_deleted(master: &Master) -> Result<()> {
    let runner = |args: &[&str]| master.program("salt-run").args(args).args(["--out=json"]).run();
    let password = format!("password={RIGHT}");
    let made = runner(&["auth.mk_token", "username=fred", &password, "eauth=file"])?.ok()?.json()?;
    let token = made["token"].as_str().context("no token")?;
    ensure!(made["name"] == json!("fred") && made["eauth"] == json!("file"), "{made}");
    let wrong = runner(&["auth.mk_token", "username=fred", "password=x", "eauth=file"])?.ok()?.json()?;
    ensure!(wrong == json!(""), "{wrong}");
    for expected in [json!(true), json!(false)] {
        let deleted = runner(&["auth.del_token", token])?.ok()?.json()?;
        ensure!(deleted == expected, "{deleted}");
    }
    Ok(())
}

fn compare(master: &Master, client: &Salt, expected: &[String]) -> Result<()> {
    let mut checks = Checks::new();
    for ((command, refused), expected) in COMMANDS.iter().zip(expected) {
        checks.check(format!("{} at {}: {command}", client.name(), master.name()), || {
            let output = run(master, client, command)?;
            ensure!(output.stdout == *expected, "printed {:?}, and the real Salt {expected:?}", output.stdout);
            ensure!(!client.is_ours() || (output.code != 0) == *refused, "ended with {}", output.code);
            let makes_token = command.contains("-T") && !refused;
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
    run(master, theirs, "salt -T -a file RIGHT one test.ping")?.ok()?;
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
