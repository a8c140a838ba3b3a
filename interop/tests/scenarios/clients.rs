//! Clients of one kind on a master of the other: the same returns, printed text and events.
//!
//! A hot minion of each kind serves a master of each kind, so that the output of a command depends only on the client
//! and the master, which are then exchanged.

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Master, Minion, Salt, Sandbox, differences, missing, scenario, stable};
use serde_json::{Value, json};

/// The minions of both masters.
const THEIRS: &str = "minion-theirs";
const OURS: &str = "minion-ours";
/// An accepted key without a minion.
const AWAY: &str = "minion-away";

/// Command lines whose output, errors and exit code must not depend on client and master.
///
/// Words are separated by ` | `; `{m}` is a minion.
const COMMANDS: &[&str] = &[
    "salt | {m} | test.ping",
    "salt | {m} | test.ping | --out=json",
    "salt | {m} | test.ping | --out=txt",
    "salt | {m} | test.ping | --out=raw",
    "salt | {m} | test.ping | --out=yaml",
    "salt | {m} | test.ping | --no-color | --static",
    "salt | {m} | test.ping | --force-color",
    "salt | {m} | test.arg | 1 | two | 3.5 | [4, five] | six=6 | seven={a: [null, true]}",
    "salt | {m} | test.arg | 1 | two | 3.5 | [4, five] | six=6 | seven={a: [null, true]} | --out=json | --static",
    "salt | {m} | test.arg | 1 | two | 3.5 | [4, five] | six=6 | seven={a: [null, true]} | --out=yaml",
    "salt | {m} | test.arg | 1 | two | 3.5 | [4, five] | six=6 | seven={a: [null, true]} | --out=json | --out-indent=-1",
    "salt | {m} | test.echo | grüße, 'quoted' \"twice\"",
    "salt | {m} | test.echo | a\nb\n\nc",
    "salt | {m} | test.echo | '' | --out=json",
    "salt | {m} | test.kwarg | a=1 | b='x y'",
    "salt | {m} | cmd.run | printf 'one\\n two\\n'",
    "salt | {m} | cmd.run | exit 3",
    "salt | {m} | cmd.retcode | exit 3",
    "salt | {m} | cmd.run_stdout | echo out; echo err >&2 | python_shell=True",
    "salt | {m} | no.such_function",
    "salt | {m} | test.arg | --show-jid",
    "salt | {m} | test.ping | -v",
    "salt | {m} | test.ping | --summary",
    "salt | {m} | test.ping | -b | 1",
    "salt | {m} | test.ping,test.echo | ,hello",
    "salt | {m} | pillar.get | nested:text",
    "salt | {m} | grains.get | id",
    "salt | {m} | config.get | id",
    "salt | -E | ^{m}$ | test.ping",
    "salt | -C | L@{m} and E@mini.* and not nobody | test.ping",
    "salt | -G | id:{m} | test.ping",
    "salt | -P | id:^{m}$ | test.ping",
    "salt | nobody | test.ping",
    "salt | -L | nobody,noone | test.ping",
    "salt | --preview-target | {m} | test.ping",
    "salt-key | -L",
    "salt-key | -L | --out=json",
    "salt-key | -l | acc",
    "salt-key | -l | pre",
    "salt-key | -p | {m}",
    "salt-key | -a | nobody | -y",
    "salt-key | -d | nobody | -y",
    "salt-run | manage.up",
    "salt-run | jobs.active",
    "salt-run | fileserver.file_list",
    "salt-run | fileserver.envs",
    "salt-run | cache.grains | nobody",
    "salt-run | test.arg | 1 | b=2",
    "salt-run | config.get | transport",
    "salt-run | mine.update | {m}",
    "salt-run | mine.get | * | test.ping",
    "salt-run | http.query | http://127.0.0.1:9/nobody",
    "salt-run | no.such_runner",
    "salt-run | event.send | interop/x | {\"a\": 1}",
    // Programs that read the output get JSON of every command, and a batch gives its fields in one order.
    "salt | nobody | test.ping | --out=json",
    "salt | nobody | test.ping | --static | --out=json",
    "salt | {m} | test.ping | -d | --out=json",
    "salt | {m} | test.ping | -d | --out=json",
    "salt | {m} | test.ping | -b | 1 | --out=json",
    "salt | {m} | test.ping | -b | 1 | --out=json",
];

/// The same with a minion that does not answer; these take longer.
const WITH_AN_ABSENT_ONE: &[&str] = &[
    "salt | -L | {m},minion-away | test.ping | -t | 2",
    "salt-run | manage.status",
    "salt | minion-away | test.ping | -t | 2 | --static | --out=json",
];

#[test]
fn text_returns_and_exit_codes_are_the_same() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("clients: printed text", |sandbox| {
        let theirs = Salt::real("3008.5").context("checked above")?;
        let (masters, _minions) = start(sandbox, &theirs)?;
        let mut checks = Checks::new();
        // Other tests compare the returns of minions. Here the two minions take turns.
        let mut compare = |commands: &[&str]| {
            for (command, minion) in commands.iter().zip([THEIRS, OURS].into_iter().cycle()) {
                let words: Vec<_> = command.split(" | ").map(|word| word.replace("{m}", minion)).collect();
                checks.check(words.join(" "), || same_everywhere(&masters, &words));
            }
        };
        compare(COMMANDS);
        add_absent_minion(&masters)?;
        compare(WITH_AN_ABSENT_ONE);
        checks.check("LocalClient", || same_script(&masters, "local_client.py"));
        checks.check("every form of arguments", || same_arguments(&masters));
        checks.check("get_event", || same_script(&masters, "events.py"));
        checks.check("job cache", || job_cache(&masters));
        checks.finish()
    });
}

#[test]
fn clients_of_every_line_command_our_master() {
    if missing(&interop::LINES) {
        return;
    }
    scenario("clients of every line on our master", |sandbox| {
        let ours = Salt::ours()?;
        // Salt's clients also look for their jobs on the disk in Salt's layout, where Saltern stores no others.
        let master = Master::build(&ours, "ours").option("auto_accept", true).start(sandbox)?;
        let _minion = Minion::build(&ours, OURS).master(&master).start(sandbox)?;
        master.wait_answering(&[OURS])?;
        let mut checks = Checks::new();
        for line in interop::LINES {
            let theirs = Salt::real(line).context("checked above")?;
            checks.check(format!("salt of {line}"), || {
                let output =
                    master.program_of(&theirs, "salt").args(["*", "test.ping", "--out=json", "--static"]).run()?;
                ensure!(output.clone().ok()?.json()? == json!({OURS: true}), "{output}");
                Ok(())
            });
            checks.check(format!("LocalClient of {line}"), || {
                let output = master.python(&theirs, "local_client.py", &[OURS])?.ok()?;
                let seen = output.last_json()?;
                let expected = json!({"args": [1, "two", [3]], "kwargs": {"four": {"five": null}}});
                let arg = &seen["cmd"][OURS];
                ensure!(
                    arg["args"] == expected["args"] && arg["kwargs"]["four"] == expected["kwargs"]["four"],
                    "{arg}"
                );
                ensure!(seen["get_full_returns"] == json!("later"), "{seen}");
                Ok(())
            });
            checks.check(format!("early events of {line}"), || {
                // A client that fires right after connecting must receive its own event: the subscription has to be in
                // force by then.
                let lost = master.python(&theirs, "early_events.py", &["30"])?.ok()?.last_json()?;
                ensure!(lost == json!([]), "events fired right after connecting were lost: {lost}");
                Ok(())
            });
            checks.check(format!("get_event of {line}"), || {
                let seen = master.python(&theirs, "events.py", &[OURS])?.ok()?.last_json()?.to_string();
                for tag in ["salt/job/JID/new", "salt/job/JID/ret/minion-ours", "interop/from-minion", "interop/own"] {
                    ensure!(seen.contains(tag), "no {tag} in {seen}");
                }
                Ok(())
            });
        }
        checks.finish()
    });
}

/// Starts a master of each kind with the same keys, and a hot minion of each kind.
fn start(sandbox: &Sandbox, theirs: &Salt) -> Result<([Master; 2], [Minion; 2])> {
    let ours = Salt::ours()?;
    let pair = Master::make_key_pair(theirs, sandbox)?;
    let master = |salt: &Salt, name: &str| {
        let built = Master::build(salt, name).key_pair(&pair).option("auto_accept", true).option("timeout", 5);
        // Salt's runners and clients read the job cache from the disk, so both masters must store jobs in the same
        // layout.
        let built = built.option("gather_job_timeout", 2).option("master_job_cache", "local_cache");
        let mut master = built.prepare(sandbox)?;
        master.serve("file.txt", b"served")?;
        master.launch(sandbox).map(|()| master)
    };
    let mut masters = [master(theirs, "theirs")?, master(&ours, "ours")?];
    masters.iter_mut().try_for_each(Master::wait_ready)?;
    let minion = |salt: &Salt, id: &str| Minion::build(salt, id).masters(&masters).start(sandbox);
    let minions = [minion(theirs, THEIRS)?, minion(&ours, OURS)?];
    masters.iter().try_for_each(|master| master.wait_answering(&[THEIRS, OURS]))?;
    Ok((masters, minions))
}

/// Accepts a key on each master for a minion that does not exist.
fn add_absent_minion(masters: &[Master; 2]) -> Result<()> {
    masters.iter().try_for_each(|master| {
        let accepted = master.pki().join("minions");
        let copied = std::fs::copy(accepted.join(OURS), accepted.join(AWAY));
        copied.map(|_bytes| ()).with_context(|| format!("failed to add a key to {}", master.name()))
    })
}

/// Runs a command line with both clients on both masters and compares everything that is printed.
fn same_everywhere(masters: &[Master; 2], words: &[String]) -> Result<()> {
    let mut first: Option<(String, String)> = None;
    for master in masters {
        for client in masters.iter().map(Master::salt) {
            let output = master.program_of(client, &words[0]).args(&words[1..]).run()?;
            let who = format!("{} on the master {}", client.name(), master.name());
            let root = master.root().display().to_string();
            let replacements = [(root.as_str(), "ROOT")];
            // Python sometimes warns about an unclosed object of Salt itself.
            let errors: Vec<_> = output.stderr.lines().filter(|line| !line.starts_with("unclosed Runner ")).collect();
            let text = format!("exit code {}\n{}--- stderr\n{}", output.code, output.stdout, errors.join("\n"));
            let text = without_times(&stable(&text, &replacements));
            match &first {
                None => first = Some((who, text)),
                Some((other, expected)) => {
                    ensure!(*expected == text, "\n=== {other}:\n{expected}\n=== {who}:\n{text}");
                }
            }
        }
    }
    Ok(())
}

/// Drops lines with times and log lines of the client.
fn without_times(text: &str) -> String {
    let chatter = ["Warning", "unclosed MasterMinion"];
    let lines = text.lines().filter(|line| !line.starts_with('[') && chatter.iter().all(|word| !line.contains(word)));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Runs a Python script of the real Salt against both masters, with the minion of each kind.
fn same_script(masters: &[Master; 2], script: &str) -> Result<()> {
    let theirs = masters[0].salt();
    for minion in [THEIRS, OURS] {
        let run = |master: &Master| -> Result<Value> {
            let mut output = master.python(theirs, script, &[minion])?.ok()?;
            output.stdout = stable(&output.stdout, &[]);
            output.last_json()
        };
        let different = differences(&run(&masters[0])?, &run(&masters[1])?);
        ensure!(different.is_empty(), "with {minion}, on their master | on ours:\n{}", different.join("\n"));
    }
    Ok(())
}

/// Sends the same arguments to the minion of each kind through each master. Both must parse text that looks like a
/// keyword argument alike.
fn same_arguments(masters: &[Master; 2]) -> Result<()> {
    for master in masters {
        let run = |minion: &str| -> Result<Value> {
            let mut output = master.python(masters[0].salt(), "arguments.py", &[minion])?.ok()?;
            output.stdout = stable(&output.stdout, &[(minion, "MINION")]);
            output.last_json()
        };
        let (theirs, ours) = (run(THEIRS)?, run(OURS)?);
        ensure!(theirs.as_object().is_some_and(|seen| seen.len() > 50), "too little was compared: {theirs}");
        let different = differences(&theirs, &ours);
        ensure!(different.is_empty(), "on {}, their minion | ours:\n{}", master.name(), different.join("\n"));
    }
    Ok(())
}

/// Looks up a job in each master's cache with each kind of runner.
fn job_cache(masters: &[Master; 2]) -> Result<()> {
    for master in masters {
        let jid = master.send(&["-L", &format!("{THEIRS},{OURS}"), "test.echo", "kept"])?;
        let expected = json!({THEIRS: "kept", OURS: "kept"});
        for client in masters.iter().map(Master::salt) {
            let lookup = || {
                let output = master.program_of(client, "salt-run").args(["jobs.lookup_jid", &jid, "--out=json"]).run();
                output.and_then(|output| output.json()).unwrap_or_default()
            };
            let mut last = Value::Null;
            let found = interop::until("the job in the cache", std::time::Duration::from_secs(20), || {
                last = lookup();
                last == expected
            });
            found.with_context(|| format!("{} on {} gave {last}", client.name(), master.name()))?;
            let list =
                master.program_of(client, "salt-run").args(["jobs.list_job", &jid, "--out=json"]).run()?.json()?;
            ensure!(list["Function"] == json!("test.echo") && list["Arguments"] == json!(["kept"]), "{list}");
        }
    }
    Ok(())
}
