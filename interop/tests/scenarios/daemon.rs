//! The daemons as programs: signals, `-d`, files, flags, users, and invalid configuration.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use interop::{Master, Minion, Program, Salt, Sandbox, Transport, measure, scenario, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

/// The time limit for Saltern from SIGTERM until every process is gone.
const GONE: Duration = Duration::from_secs(1);
/// The time limit for a real daemon if it is used instead.
const REAL_GONE: Duration = Duration::from_secs(40);

/// User and group `nobody`, used to run unprivileged when the test itself is privileged.
const NOBODY: u32 = 65534;

fn gone(salt: &Salt) -> Duration {
    if salt.is_ours() { GONE } else { REAL_GONE }
}

#[test]
fn sigterm_ends_daemons_within_a_second_with_all_children() {
    scenario("SIGTERM", |sandbox| {
        let ours = Salt::ours()?;
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let start = |name: &str| {
            let built = Master::build(&ours, name).key_pair(&pair).option("auto_accept", true);
            built.start(sandbox)
        };
        let mut masters = [start("m1")?, start("m2")?, start("m3")?];
        let mut minion = Minion::build(&ours, "busy").masters(&masters).start(sandbox)?;
        masters.iter().try_for_each(|master| master.wait_answering(&["busy"]))?;
        // One child in the background of its shell and one in the foreground: killing only the direct child would leave
        // an orphan.
        masters[0].send(&["busy", "cmd.run", "sleep 1234.5 & sleep 1234.5", "python_shell=True"])?;
        masters[1].send(&["busy", "test.sleep", "300"])?;
        until("the jobs to run", Duration::from_secs(20), || sleeps(sandbox) >= 2)?;

        let took = minion.daemon()?.terminate(gone(&ours))?;
        println!("  the minion was gone after {took:?}");
        if ours.is_ours() {
            until("the commands of its jobs to be gone", Duration::from_millis(200), || sleeps(sandbox) == 0)?;
        }
        for master in &mut masters {
            let took = master.daemon()?.terminate(gone(&ours))?;
            println!("  the master {} was gone after {took:?}", master.name());
        }
        Ok(())
    });
}

/// Counts the processes of the long job.
fn sleeps(sandbox: &Sandbox) -> usize {
    let command = |pid: Pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    sandbox.processes().into_iter().filter(|pid| command(*pid).starts_with(b"sleep\x001234.5")).count()
}

#[test]
fn daemons_go_to_the_background_and_write_their_pid() {
    scenario("-d and the pid file", |sandbox| {
        let ours = Salt::ours()?;
        let mut master = Master::build(&ours, "m").option("auto_accept", true).prepare(sandbox)?;
        let pid_file = master.root().join("run/salt-master.pid");
        Program::new(sandbox, &ours.program("salt-master")).arg_dir("-c", &master.conf()).args(["-d"]).run()?.ok()?;
        master.wait_ready()?;
        let minion = Minion::build(&ours, "background").master(&master).prepare(sandbox)?;
        let own_pid_file = minion.root().join("other.pid");
        let program =
            minion.program("salt-minion").args(["-d".as_ref(), "--pid-file".as_ref(), own_pid_file.as_os_str()]);
        program.run()?.ok()?;
        master.wait_answering(&["background"])?;
        for path in [pid_file, own_pid_file] {
            let pid = read_pid(&path)?;
            let name = fs::read(format!("/proc/{pid}/cmdline")).context("the pid file names no process")?;
            ensure!(String::from_utf8_lossy(&name).contains("salt"), "{} names another process", path.display());
            let mode = fs::metadata(&path)?.permissions().mode() & 0o777;
            // A user who can write the file decides which process an init script kills.
            ensure!(mode & 0o022 == 0, "{} has the mode {mode:o}", path.display());
            kill(pid, Signal::SIGTERM)?;
            until("the daemon to be gone", gone(&ours), || !measure::runs(pid))?;
        }
        Ok(())
    });
}

fn read_pid(path: &Path) -> Result<Pid> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(Pid::from_raw(text.trim().parse().with_context(|| format!("{text:?} is no pid"))?))
}

/// Texts that people and tools look for in Salt's logs at level info.
const MASTER_TEXTS: &[&str] =
    &["Setting up the Salt Master", "Authentication request from talker", "Authentication accepted from talker"];
const MINION_TEXTS: &[&str] = &[
    "Setting up \"talker\" the Salt Minion",
    "Minion is ready to receive requests!",
    "Executing command test.echo with jid ",
    "Starting a new job ",
    "Returning information for job: ",
];

#[test]
fn lines_carry_the_job_they_belong_to() {
    scenario("%(jid)s in the log", |sandbox| {
        let ours = Salt::ours()?;
        let format = "%(jid)s%(minion_id)s %(message)s";
        let master = Master::build(&ours, "m").option("auto_accept", true).option("log_fmt_logfile", format);
        let master = master.start(sandbox)?;
        let minion = Minion::build(&ours, "talker").master(&master).option("log_fmt_logfile", format).start(sandbox)?;
        master.wait_answering(&["talker"])?;
        master.ask("talker", &["test.echo", "hello"])?;
        for (log, ids, text) in [
            (master.log(), "[talker] ", "Got return from talker"),
            (master.log(), " ", "Published command test.echo"),
            (minion.log(), " ", "execution finished"),
        ] {
            let carries = |line: &str| {
                let rest = line.strip_prefix("[JID: ").and_then(|rest| rest.split_once(']'));
                rest.is_some_and(|(jid, rest)| jid.len() == 20 && rest.starts_with(ids) && rest.contains(text))
            };
            ensure!(log.lines().any(carries), "no line with its job says {text:?}:\n{log}");
        }
        Ok(())
    });
}

#[test]
fn logs_have_salts_format_and_texts() {
    scenario("log files", |sandbox| {
        let ours = Salt::ours()?;
        let master = Master::build(&ours, "m").option("auto_accept", true).start(sandbox)?;
        let minion = Minion::build(&ours, "talker").master(&master).start(sandbox)?;
        let odd =
            Minion::build(&ours, "odd").master(&master).option("log_fmt_logfile", "%(levelname)s|%(name)s|%(message)s");
        let odd = odd.option("log_level_logfile", "debug").start(sandbox)?;
        master.wait_answering(&["talker", "odd"])?;
        master.ask("talker", &["test.echo", "hello"])?;
        for (log, texts) in [(master.log(), MASTER_TEXTS), (minion.log(), MINION_TEXTS)] {
            let missing: Vec<_> = texts.iter().filter(|text| !log.contains(**text)).collect();
            ensure!(missing.is_empty(), "the log lacks {missing:?}:\n{log}");
            let formatted = log.lines().filter(|line| formatted(line)).count();
            // Not all, because a message may have several lines.
            ensure!(formatted * 10 >= log.lines().count() * 9, "lines in another format: {log}");
        }
        let log = odd.log();
        ensure!(log.lines().any(|line| line.starts_with("DEBUG|salt.") && line.matches('|').count() >= 2), "{log}");
        Ok(())
    });
}

/// `2024-02-29 13:14:15,123 [salt.minion      :1234][INFO    ][4321] text`.
fn formatted(line: &str) -> bool {
    let Some((time, rest)) = line.split_at_checked(23) else { return false };
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let parts: Vec<_> = rest.splitn(4, '[').collect();
    shape == "0000-00-00 00:00:00,000"
        && matches!(parts.as_slice(), [" ", name, level, text] if name.contains(':') && level.len() == 9 && text.contains("] "))
}

#[test]
fn unknown_plug_ins_are_tolerated_with_one_warning_each() {
    scenario("unknown plug-ins", |sandbox| {
        let ours = Salt::ours()?;
        let master = Master::build(&ours, "m").option("auto_accept", true);
        let master = master
            .option("ext_pillar", json!([{"our_cmdb": {"url": "http://x"}}]))
            .option("fileserver_backend", json!(["roots", "our_fs"]))
            .option("engines", json!([{"our_engine": {"a": 1}}]))
            .option("event_return", json!(["our_event_return"]))
            // A configuration of Salt must start Saltern even if it mentions plug-ins that only Python can load.
            .option("extension_modules", "/nonexistent/extmods")
            .option("an_option_nobody_knows", json!({"deep": ["er"]}))
            .start(sandbox)?;
        let minion = Minion::build(&ours, "tolerant").master(&master);
        let minion = minion
            .option("beacons", json!({"our_beacon": [{"interval": 5}]}))
            .option("engines", json!([{"our_minion_engine": {}}]))
            .option("module_executors", json!(["direct_call"]))
            .option("an_option_nobody_knows", true)
            .start(sandbox)?;
        master.wait_answering(&["tolerant"])?;
        // A second time, because the warnings must not repeat with each job.
        master.wait_answering(&["tolerant"])?;
        if !ours.is_ours() {
            return Ok(());
        }
        let expected = [
            (master.log(), ["our_cmdb", "our_fs", "'engines' has no effect", "our_event_return"].as_slice()),
            (minion.log(), ["our_beacon", "'engines' has no effect"].as_slice()),
        ];
        for (log, names) in expected {
            for name in names {
                let lines: Vec<_> = log.lines().filter(|line| line.contains(name)).collect();
                ensure!(
                    lines.len() == 1 && ["[WARNING ]", "[ERROR   ]"].iter().any(|level| lines[0].contains(level)),
                    "expected one warning on {name}, not {lines:#?}"
                );
            }
        }
        Ok(())
    });
}

#[test]
fn daemons_run_unprivileged_with_only_a_folder_and_a_root_dir() {
    scenario("unprivileged", |sandbox| {
        fs::set_permissions(sandbox.root(), fs::Permissions::from_mode(0o755))?;
        let ours = Salt::ours()?;
        if !ours.is_ours() {
            return Ok(());
        }
        // A copy, because the build directory may be closed to other users.
        let ours = ours.copied_to(&sandbox.folder("bin")?)?;
        let privileged = nix::unistd::getuid().is_root();
        let (uid, gid) = if privileged {
            (NOBODY, NOBODY)
        } else {
            (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw())
        };
        let user = if privileged { "nobody".to_owned() } else { whoami()? };
        let home = sandbox.folder("u")?;
        let address = sandbox.address(&[4505, 4506]);
        let both = format!("root_dir: {}/r\nuser: {user}\n", home.display());
        fs::write(home.join("master"), format!("{both}interface: {address}\nauto_accept: True\n"))?;
        fs::write(home.join("minion"), format!("{both}master: {address}\nid: humble\nacceptance_wait_time: 1\n"))?;
        give(&home, uid, gid)?;
        let run = |name: &str| {
            let program = Program::new(sandbox, &ours.program(name)).env("HOME", &home).user(uid, gid);
            program.args(["--disable-keepalive", &format!("--config-dir={}", home.display())])
        };
        let client = |name: &str| {
            Program::new(sandbox, &ours.program(name)).env("HOME", &home).user(uid, gid).arg_dir("-c", &home)
        };
        let mut master = run("salt-master").start(&sandbox.root().join("master.out"))?;
        let mut minion = run("salt-minion").start(&sandbox.root().join("minion.out"))?;
        let mut last = String::new();
        let answered = until("the unprivileged minion to answer", Duration::from_secs(90), || {
            let output = client("salt").args(["*", "test.ping", "--out=json", "--static", "-t", "3"]).run();
            last = output.as_ref().map_or_else(|error| format!("{error:#}"), ToString::to_string);
            output.is_ok_and(|output| output.json().is_ok_and(|map| map == json!({"humble": true})))
        });
        answered.with_context(|| last)?;
        for path in ["r/etc/salt/pki/master/minions/humble", "r/var/log/salt/master", "r/var/log/salt/minion"] {
            ensure!(home.join(path).exists(), "{path} is missing below root_dir");
        }
        let pem = home.join("r/etc/salt/pki/master/master.pem");
        ensure!(fs::metadata(&pem)?.permissions().mode() & 0o077 == 0, "others may read {}", pem.display());
        minion.terminate(gone(&ours))?;
        master.terminate(gone(&ours))?;
        Ok(())
    });
}

fn whoami() -> Result<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())?;
    Ok(user.context("this user has no name")?.name)
}

fn give(path: &Path, uid: u32, gid: u32) -> Result<()> {
    chown(path, Some(uid), Some(gid)).with_context(|| format!("failed to give {} away", path.display()))?;
    if path.is_dir() {
        fs::read_dir(path)?.flatten().try_for_each(|entry| give(&entry.path(), uid, gid))?;
    }
    Ok(())
}

#[test]
fn wrong_configuration_is_refused_naming_file_and_line() {
    scenario("wrong configuration", |sandbox| {
        let ours = Salt::ours()?;
        if !ours.is_ours() {
            return Ok(());
        }
        let master = Master::build(&ours, "m").prepare(sandbox)?;
        let main = master.conf().join("master");
        let good = fs::read_to_string(&main)?;
        let line = good.lines().count() + 1;
        // Two kinds of mistakes: values of the wrong type, and text that is not YAML. The line may be the next one,
        // because YAML notices an open bracket only there.
        let cases = [
            (format!("{good}worker_threads: many\n"), "worker_threads"),
            (format!("{good}file_roots: 7\n"), "file_roots"),
            (format!("{good}keep_jobs_seconds: [1]\n"), "keep_jobs_seconds"),
            (format!("{good}broken: [1, 2\n"), "master"),
        ];
        for (text, named) in cases {
            fs::write(&main, &text)?;
            let output = master.program("salt-master").limit(Duration::from_secs(10)).run()?;
            let said = format!("{}{}", output.stdout, output.stderr);
            ensure!(output.code != 0, "started with {text:?}");
            ensure!(
                said.contains(named) && said.contains(&main.display().to_string()),
                "no word on {named} in {output}"
            );
            let lines = [line, line + 1]
                .map(|line| said.contains(&format!(":{line}")) || said.contains(&format!("line {line}")));
            ensure!(lines.contains(&true), "the line {line} is not named in {output}");
        }
        Ok(())
    });
}

#[test]
fn every_program_answers_version_and_help() {
    scenario("versions", |sandbox| {
        let ours = Salt::ours()?;
        for name in ["salt", "salt-key", "salt-call", "salt-run", "salt-cp", "salt-master", "salt-minion"] {
            for flag in ["--version", "--help", "--versions-report"] {
                let output = Program::new(sandbox, &ours.program(name)).args([flag]).run()?.ok()?;
                let wanted = if flag == "--versions-report" { "Salt" } else { name };
                ensure!(output.stdout.contains(wanted), "{output}");
            }
            let output = Program::new(sandbox, &ours.program(name)).args(["--no-such-flag"]).run()?;
            // Salt's option parser exits with `EX_USAGE` (64) and this text; scripts check the code.
            ensure!(output.code == 64 && output.stderr.contains("no such option: --no-such-flag"), "{output}");
        }
        Ok(())
    });
}

#[test]
fn a_silent_master_costs_the_others_nothing() {
    scenario("a hanging master", |sandbox| {
        let ours = Salt::ours()?;
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let start = |name: &str| {
            let built =
                Master::build(&ours, name).key_pair(&pair).transport(Transport::Zeromq).option("auto_accept", true);
            built.start(sandbox)
        };
        let mut masters = [start("m1")?, start("m2")?];
        let _minion = Minion::build(&ours, "unhurt").masters(&masters).start(sandbox)?;
        masters.iter().try_for_each(|master| master.wait_answering(&["unhurt"]))?;
        let first = masters[0].daemon()?.pid();
        // Stopped and not killed: its connections stay open, which is the case that timeouts must handle.
        nix::sys::signal::killpg(first, Signal::SIGSTOP)?;
        for number in 0..5 {
            let answer = masters[1].ask("unhurt", &["test.echo", &format!("{number} beside a silent master")])?;
            if answer != json!(format!("{number} beside a silent master")) {
                bail!("got {answer}");
            }
        }
        nix::sys::signal::killpg(first, Signal::SIGCONT)?;
        masters[0].wait_answering(&["unhurt"])
    });
}

#[test]
fn systemd_is_told_when_a_daemon_is_ready() {
    scenario("NOTIFY_SOCKET", |sandbox| {
        let ours = Salt::ours()?;
        let path = sandbox.root().join("notify");
        let socket = UnixDatagram::bind(&path).context("failed to bind the notification socket")?;
        socket.set_read_timeout(Some(Duration::from_secs(90)))?;
        let master = Master::build(&ours, "m").option("auto_accept", true).prepare(sandbox)?;
        let minion = Minion::build(&ours, "told").master(&master).prepare(sandbox)?;
        let daemons = [(master.program("salt-master"), "master.out"), (minion.program("salt-minion"), "minion.out")];
        let mut running = Vec::new();
        for (program, output) in daemons {
            running.push(program.env("NOTIFY_SOCKET", &path).start(&sandbox.root().join(output))?);
            let mut buffer = [0; 256];
            // As the unit files are of `Type=notify`, systemd would otherwise take the start for failed.
            let length = socket.recv(&mut buffer).with_context(|| format!("{output} told nothing"))?;
            let told = String::from_utf8_lossy(&buffer[..length]).into_owned();
            ensure!(told.lines().any(|line| line == "READY=1"), "systemd was told {told:?}");
        }
        master.wait_answering(&["told"])
    });
}
