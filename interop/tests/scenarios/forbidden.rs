//! Options of masters and minions that forbid: with the same configuration, Salt and Saltern refuse the same requests.
//!
//! `options.rs` has those that restrict a minion without a master.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Master, Minion, Output, Salt, Sandbox, missing, scenario, stable, until};
use serde_json::{Value, json};

const LINE: &str = "3008.5";

/// Options, by name.
type Options = &'static [(&'static str, &'static str)];

/// A master and a minion with options that forbid something, and commands that meet them.
struct Setting {
    name: &'static str,
    /// Values are YAML, which JSON is a part of.
    master: Options,
    minion: Options,
    /// True if a minion answers. Without one, the commands need none.
    answering: bool,
    commands: &'static [&'static str],
    /// Local users who publish: user, owner of the key file, target, function, arguments.
    users: &'static [(&'static str, &'static str, &'static str, &'static str, &'static [&'static str])],
    /// Ids that request acceptance, each with a different key.
    applicants: &'static [&'static str],
}

const PLAIN: Setting =
    Setting { name: "", master: &[], minion: &[], answering: true, commands: &[], users: &[], applicants: &[] };

/// The minion that is asked, and one that asks through `salt-call`.
const TARGET: &str = "target";
const OTHER: &str = "other";

const SETTINGS: &[Setting] = &[
    Setting {
        name: "permissions",
        master: &[
            ("auto_accept", "true"),
            (
                "publisher_acl",
                r#"{"nobody": ["test.ping", "test.arg*", {"tar*": ["grains.get"]}], "daemon": ["test.*"]}"#,
            ),
            ("publisher_acl_blacklist", r#"{"users": ["games", "^ma.*"], "modules": ["cmd.*", "^pillar\\.items$"]}"#),
            ("sudo_acl", "true"),
            ("peer", r#"{"oth.*": ["test.ping", "test.arg"]}"#),
            ("peer_run", r#"{"oth.*": ["test.arg"]}"#),
            ("file_recv", "false"),
            ("file_ignore_regex", r#"["/secret/", "\\.bak$"]"#),
            ("file_ignore_glob", r#"["*.swp", "hidden/*"]"#),
            ("fileserver_followsymlinks", "false"),
            ("allow_minion_key_revoke", "false"),
        ],
        minion: &[(
            "mine_functions",
            r#"{"told": [{"mine_function": "test.echo"}, "hello"],
                "kept": [{"mine_function": "test.echo"}, "secret", {"allow_tgt": "nobody*"}],
                "both": [{"mine_function": "test.echo"}, "some", {"allow_tgt": "other"}]}"#,
        )],
        commands: &[
            "other salt-call --out=json publish.publish target test.ping",
            "other salt-call --out=json publish.publish target test.echo a",
            "other salt-call --out=json publish.runner test.arg a",
            "other salt-call --out=json publish.runner manage.up",
            "target salt-call --out=json publish.runner test.arg a",
            "other salt-call --out=json cp.push ROOT/small",
            "master salt target mine.update",
            "other salt-call --out=json mine.get target told",
            "other salt-call --out=json mine.get target kept",
            "other salt-call --out=json mine.get target both",
            "target salt-call --out=json mine.get target both",
            "master salt-run mine.get target kept",
            "master salt-run fileserver.file_list",
            "other salt-call --out=json cp.get_file_str salt://secret/a",
            "other salt-call --out=json cp.get_file_str salt://open/c.bak",
            "other salt-call --out=json cp.get_file_str salt://hidden/b",
            "other salt-call --out=json cp.get_file_str salt://link",
            "other salt-call --out=json cp.get_file_str salt://linked/d",
            "other salt-call --out=json cp.get_file_str salt://outside",
            "master salt target cmd.run true",
            "other salt-call --out=json saltutil.revoke_auth",
            "master salt other test.ping",
            "sudo_nobody salt target test.ping",
            "sudo_nobody salt target test.echo a",
            "sudo_bin salt target test.ping",
            "sudo_games salt target test.ping",
        ],
        users: &[
            ("root", "root", "*", "test.ping", &[]),
            ("root", "root", "*", "cmd.run", &["true"]),
            ("root", "root", "*", "pillar.items", &[]),
            ("root", "root", "*", "pillar.item", &["a"]),
            ("nobody", "nobody", "*", "test.ping", &[]),
            ("nobody", "nobody", "*", "test.arg_type", &["1"]),
            ("nobody", "nobody", "*", "test.echo", &["1"]),
            ("nobody", "nobody", "target", "grains.get", &["id"]),
            ("nobody", "nobody", "*", "saltutil.find_job", &["1"]),
            ("nobody", "daemon", "*", "test.ping", &[]),
            ("nobody", "nobody", "absent", "test.ping", &[]),
            ("daemon", "daemon", "*", "test.echo", &["1"]),
            ("daemon", "daemon", "*", "grains.get", &["id"]),
            ("bin", "bin", "*", "test.ping", &[]),
            ("games", "root", "*", "test.ping", &[]),
            ("mail", "root", "*", "test.ping", &[]),
        ],
        ..PLAIN
    },
    Setting {
        name: "sizes, caches, blackout",
        master: &[
            ("auto_accept", "true"),
            ("file_recv", "true"),
            ("file_recv_max_size", "1"),
            ("minion_data_cache", "false"),
            ("timeout", "4"),
        ],
        minion: &[
            ("grains", r#"{"minion_blackout": true, "minion_blackout_whitelist": ["test.ping", "grains.get"]}"#),
            ("disable_returners", r#"["rawfile_json"]"#),
            ("rawfile_json.filename", "ROOT/returned"),
        ],
        commands: &[
            "master salt-run cache.grains *",
            "master salt -G id:target test.ping",
            "master salt target test.echo a",
            "master salt target grains.get id",
            "master salt target saltutil.refresh_pillar",
            "master salt target test.ping --return rawfile_json",
            "other salt-call --out=json cp.get_file_str ROOT/returned",
            "target salt-call test.echo a",
            "other salt-call --out=json cp.push ROOT/small",
            "other salt-call --out=json cp.push ROOT/large",
        ],
        ..PLAIN
    },
    Setting {
        name: "unsigned minions",
        master: &[("auto_accept", "true"), ("require_minion_sign_messages", "true"), ("timeout", "3")],
        answering: false,
        commands: &["master salt target test.ping", "other salt-call test.ping"],
        ..PLAIN
    },
    Setting {
        name: "automatic signing",
        master: &[("autosign_file", "ROOT/good"), ("autoreject_file", "ROOT/bad"), ("max_minions", "2")],
        answering: false,
        applicants: &["unknown", "bad1", "good1", "good-and-bad", "good1", "good2", "good3", "unknown2"],
        commands: &["master salt-key -L"],
        ..PLAIN
    },
    Setting {
        name: "open mode",
        master: &[("open_mode", "true"), ("autoreject_file", "ROOT/bad")],
        answering: false,
        applicants: &["any", "any", "bad1"],
        commands: &["master salt-key -L"],
        ..PLAIN
    },
];

#[test]
fn the_same_requests_are_refused() {
    if missing(&[LINE]) {
        return;
    }
    scenario("requests that options forbid", |sandbox| {
        let sides = [Salt::real(LINE).context("checked above")?, Salt::ours()?];
        let mut checks = Checks::new();
        for (number, setting) in SETTINGS.iter().enumerate() {
            let [theirs, ours] = [&sides[0], &sides[1]].map(|salt| tried(sandbox, salt, number, setting));
            let (theirs, ours) = (theirs?, ours?);
            for ((what, theirs), (_, ours)) in theirs.into_iter().zip(ours) {
                checks.check(format!("{}: {what}", setting.name), || {
                    ensure!(theirs == ours, "\n=== {LINE}:\n{theirs}\n=== ours:\n{ours}");
                    Ok(())
                });
            }
        }
        checks.finish()
    });
}

/// Starts the daemons of one side and returns each attempt with its outcome.
fn tried(sandbox: &Sandbox, salt: &Salt, number: usize, setting: &Setting) -> Result<Vec<(String, String)>> {
    let root = sandbox.folder(&format!("{number}-{}", salt.name()))?;
    prepare_files(&root)?;
    let value = |text: &str| -> Value {
        let text = text.replace("ROOT", &root.display().to_string());
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    };
    let mut built = Master::build(salt, &format!("m{number}-{}", salt.name()));
    for (name, text) in setting.master {
        built = built.option(name, value(text));
    }
    // Fewer than three cause a warning, which names a file.
    built = built.option("worker_threads", 3);
    let master = built.option("file_roots", json!({"base": [root.join("served")]})).start(sandbox)?;
    let minion = |id: &str| -> Result<Minion> {
        // The folder of a minion has its id, which is the same on both sides.
        let mut built = Minion::build(salt, &format!("{number}-{}/{id}", salt.name())).master(&master).option("id", id);
        for (name, text) in setting.minion {
            built = built.option(name, value(text));
        }
        built.prepare(sandbox)
    };
    let (mut target, other) = (minion(TARGET)?, minion(OTHER)?);
    if setting.applicants.is_empty() {
        target.launch(sandbox)?;
        let ready = || target.log().contains("Minion is ready to receive requests!");
        until("the minion to be connected", Duration::from_secs(60), ready)?;
    }
    if setting.answering {
        master.wait_answering(&[TARGET])?;
    }
    let real = Salt::real(LINE).context("checked above")?;
    let mut outcomes = signed_in(&master, &real, setting)?;
    for command in setting.commands {
        let output = run(&master, [&target, &other], command, &root)?;
        outcomes.push(((*command).to_owned(), outcome(&output, &root)));
    }
    outcomes.extend(published(&master, &real, setting)?);
    Ok(outcomes)
}

fn prepare_files(root: &Path) -> Result<()> {
    let served = root.join("served");
    for name in ["secret/a", "hidden/b", "open/c", "open/c.bak", "x.swp", "dir/d"] {
        let path = served.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&served))?;
        fs::write(path, format!("{name}\n"))?;
    }
    symlink("dir/d", served.join("link"))?;
    symlink("dir", served.join("linked"))?;
    symlink("/etc/passwd", served.join("outside"))?;
    fs::write(root.join("small"), "small")?;
    // More than one piece, and more than the megabyte that is allowed.
    fs::write(root.join("large"), vec![b'x'; 3 << 20])?;
    fs::write(root.join("good"), "good*\n")?;
    fs::write(root.join("bad"), "bad*\ngood-and-bad\n")?;
    Ok(())
}

/// Runs `who program arguments`; who is `master`, a minion, or `sudo_` and a user.
fn run(master: &Master, minions: [&Minion; 2], command: &str, root: &Path) -> Result<Output> {
    let mut words = command.split(' ').map(|word| word.replace("ROOT", &root.display().to_string()));
    let (who, program) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let program = match (who.as_str(), who.strip_prefix("sudo_")) {
        (TARGET, _) => minions[0].program(&program),
        (OTHER, _) => minions[1].program(&program),
        (_, Some(user)) => master.program(&program).env("SUDO_USER", user),
        _ => master.program(&program),
    };
    program.args(words).run()
}

/// Returns what must be the same on both sides.
fn outcome(output: &Output, root: &Path) -> String {
    let text = stable(&format!("{}{}", output.stdout, output.stderr), &[(&root.display().to_string(), "ROOT")]);
    // The exit code is another (COMPATIBILITY.md), and Saltern knows users before it asks what they may do.
    if ["Authentication error occurred.", "Authorization error occurred."].contains(&text.trim()) {
        return "refused".to_owned();
    }
    // Python complains of objects that Salt left open, in separate lines.
    let lines = text.lines().filter(|line| !line.trim_start_matches("[WARNING ] ").starts_with("unclosed "));
    format!("exit code {}\n{}", output.code, lines.collect::<Vec<_>>().join("\n"))
}

fn signed_in(master: &Master, real: &Salt, setting: &Setting) -> Result<Vec<(String, String)>> {
    if setting.applicants.is_empty() {
        return Ok(Vec::new());
    }
    let rows = json!(setting.applicants).to_string();
    let answers = master.python_program(real, "sign_in.py", &[])?.stdin(rows).run()?.ok()?.last_json()?;
    let answers = answers.as_array().context("a list")?.iter().map(Value::to_string);
    Ok(setting.applicants.iter().map(|id| format!("sign-in of {id}")).zip(answers).collect())
}

fn published(master: &Master, real: &Salt, setting: &Setting) -> Result<Vec<(String, String)>> {
    // Only root can give the key files to their users.
    if setting.users.is_empty() || !nix::unistd::geteuid().is_root() {
        return Ok(Vec::new());
    }
    let rows = json!(setting.users).to_string();
    let answers = master.python_program(real, "publish_as.py", &[])?.stdin(rows).run()?.ok()?.last_json()?;
    let answers = answers.as_array().context("a list")?.iter().map(Value::to_string);
    Ok(setting.users.iter().map(|row| format!("publication {row:?}")).zip(answers).collect())
}
