//! Other users of a host may read almost none of the files that the daemons write, and files made by states keep the
//! modes that Salt gives them.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Program, Salt, Sandbox, scenario, until};
use serde_json::json;

use crate::gitfs::Source;

/// A secret in arguments, pillar, pushed files, mine and grains.
const SECRET: &str = "correct-horse-battery";

/// Paths that may be open to others, by their ends, with reasons.
const OPEN: &[(&str, &str)] = &[
    (".pub", "public keys are public"),
    ("run/salt-master.pid", "monitoring that is not root reads the number, which ps shows anyway"),
    ("run/salt-minion.pid", "as above"),
    ("pki/minions/walked", "public keys are public"),
];

#[test]
fn nothing_of_a_run_is_open_to_other_users() {
    scenario("modes of all files", |sandbox| {
        let ours = Salt::ours()?;
        let source = Source::new(sandbox)?;
        source.commit("master", &[("from_git.txt".into(), SECRET.into()), ("below/more.txt".into(), SECRET.into())])?;
        let built =
            Master::build(&ours, "m").option("file_recv", true).option("fileserver_backend", json!(["roots", "git"]));
        let built = built
            .option("gitfs_remotes", json!([source.url()]))
            .option("ext_pillar", json!([{"git": [{ format!("pillar {}", source.url()): [{"env": "base"}] }]}]));
        let mut master = built.prepare(sandbox)?;
        let old = leave_open(&master)?;
        master.launch(sandbox)?;
        master.wait_ready()?;
        let minion = Minion::build(&ours, "walked").master(&master).option("mine_functions", secret_mine());
        let mut minion = minion.prepare(sandbox)?;
        open_all(minion.root())?;
        minion.launch(sandbox)?;
        master.accept(&["walked"])?;
        master.wait_answering(&["walked"])?;
        use_git(&master)?;
        use_schedule_without_minion(&minion)?;
        use_everything(&master, &minion)?;

        let mut wrong = Vec::new();
        for top in ["cache", "pki", "run"] {
            walk(&master.root().join(top), &old, &mut wrong)?;
            walk(&minion.root().join(top), &old, &mut wrong)?;
        }
        let written = ["conf/grains", "conf/minion.d/_schedule.conf", "conf/minion.d/beacons.conf", "minion.log"];
        for path in written.map(|name| minion.root().join(name)).iter().chain([&master.root().join("master.log")]) {
            ensure!(path.exists(), "{} was not written", path.display());
            walk(path, &old, &mut wrong)?;
        }
        ensure!(wrong.is_empty(), "open to other users:\n{}", wrong.join("\n"));
        nobody_finds_the_secret(sandbox, &[master.root().join("cache"), minion.root().join("cache")])
    });
}

/// Fetches files and pillar from repositories.
fn use_git(master: &Master) -> Result<()> {
    master.runner(&["fileserver.update"])?;
    let cached = master.ask("walked", &["cp.cache_file", "salt://from_git.txt"])?;
    ensure!(cached.as_str().is_some_and(|path| path.ends_with("from_git.txt")), "{cached}");
    until("the pillar to come from git", Duration::from_secs(60), || {
        master.ask("walked", &["pillar.items"]).is_ok_and(|pillar| pillar["from_git"] == "walked")
    })
}

/// Adds a job as if no minion ran: `salt-call` writes the file itself.
fn use_schedule_without_minion(minion: &Minion) -> Result<()> {
    let job = ["schedule.add", "early", "function=test.ping", "seconds=3600", "offline=True"];
    minion.program("salt-call").args(job).run()?.ok()?;
    // The running minion writes the same file later.
    let mut wrong = Vec::new();
    walk(&minion.conf().join("minion.d/_schedule.conf"), Path::new(""), &mut wrong)?;
    ensure!(wrong.is_empty(), "open to other users: {wrong:?}");
    Ok(())
}

fn secret_mine() -> serde_json::Value {
    json!({ "test.echo": [SECRET] })
}

/// Creates readable files as left behind by a real master or an older Saltern. Returns the path that is too deep to be
/// closed itself.
fn leave_open(master: &Master) -> Result<PathBuf> {
    let old = master.cache().join("jobs/00/0011223344");
    fs::create_dir_all(&old)?;
    fs::write(old.join(".load.p"), SECRET)?;
    fs::write(master.cache().join("leftover.p"), SECRET)?;
    open_all(master.root())?;
    Ok(master.cache().join("jobs/00"))
}

fn open_all(root: &Path) -> Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        let (mode, is_dir) = if path.is_dir() { (0o755, true) } else { (0o644, false) };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        if is_dir {
            open_all(&path)?;
        }
    }
    Ok(())
}

/// Makes both daemons write every kind of file.
fn use_everything(master: &Master, minion: &Minion) -> Result<()> {
    let made = minion.root().join("made");
    let source = minion.root().join("pushed.txt");
    fs::write(&source, SECRET)?;
    let kept = minion.root().join("kept");
    fs::write(&kept, format!("old {SECRET}"))?;
    master.serve("given.txt", SECRET.as_bytes())?;
    master.serve("script.sh", b"#!/bin/sh\ntouch \"$1\"\n")?;
    let sls = format!(
        "{0}/file:\n  file.managed:\n    - source: salt://given.txt\n    - makedirs: True\n{0}/tree:\n  file.directory: []\n\
         {0}/secret:\n  file.managed:\n    - contents: {SECRET}\n    - mode: '0600'\n{1}:\n  file.managed:\n    - contents: new\n    - backup: minion\n",
        made.display(),
        kept.display()
    );
    master.serve("walk.sls", sls.as_bytes())?;
    let path = |name: &str| made.join(name).display().to_string();
    let pushed = source.display().to_string();
    let by_script = path("by-script");
    let calls: &[&[&str]] = &[
        &["test.echo", SECRET],
        &["state.apply", "walk"],
        &["cmd.run", &format!("umask > {}", path("umask"))],
        &["cmd.script", "salt://script.sh", &format!("args={by_script}")],
        &["cp.push", &pushed],
        &["cp.cache_local_file", &pushed],
        &["mine.update"],
        &["mine.send", "test.ping"],
        &["data.update", "key", SECRET],
        &["grains.set", "secret", SECRET],
        &["schedule.add", "walk", "function=test.ping", "seconds=3600", "persist=True"],
        &["beacons.add", "load", "[{averages: {1m: [0.0, 2.0]}}]"],
        &["beacons.save"],
        &["saltutil.sync_all"],
        &["saltutil.refresh_pillar"],
        &["state.request", "walk"],
    ];
    for call in calls {
        master.ask("walked", call).with_context(|| call.join(" "))?;
    }
    minion.program("salt-call").args(["test.echo", SECRET]).run()?.ok()?;
    master.runner(&["jobs.list_jobs"])?;
    let wanted =
        [("file", 0o644), ("tree", 0o755), ("secret", 0o600), ("umask", 0o644), ("by-script", 0o644), ("", 0o755)];
    for (name, mode) in wanted {
        let found = fs::metadata(made.join(name)).with_context(|| format!("no {name}"))?.permissions().mode() & 0o7777;
        ensure!(found == mode, "a state or command made '{name}' with the mode {found:o}, Salt {mode:o}");
    }
    ensure!(minion.root().join("cache/file_backup").is_dir(), "no copy was kept");
    ensure!(fs::read_to_string(made.join("umask"))?.trim() == "0022", "commands have another umask");
    let pushed = master.cache().join("minions/walked/files");
    until("the pushed file to be there", Duration::from_secs(20), || pushed.is_dir())
}

fn walk(path: &Path, old: &Path, wrong: &mut Vec<String>) -> Result<()> {
    // Daemons do not change modes this deep. The closed directories above keep others out.
    if path == old {
        return Ok(());
    }
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let (mode, kind) = (found.permissions().mode() & 0o7777, found.file_type());
    let name = path.to_string_lossy();
    // The mode of a symbolic link is always 0777 and means nothing.
    let excused = kind.is_symlink() || (kind.is_file() && OPEN.iter().any(|(end, _)| name.ends_with(end)));
    let allowed = match () {
        () if kind.is_dir() => 0o750,
        () if kind.is_socket() => 0o660,
        () => 0o640,
    };
    if !excused && mode & !allowed != 0 {
        wrong.push(format!("{mode:04o} {name}"));
    }
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(&entry?.path(), old, wrong)?;
        }
    }
    Ok(())
}

/// Searches everything that an ordinary user can read.
fn nobody_finds_the_secret(sandbox: &Sandbox, tops: &[PathBuf]) -> Result<()> {
    const NOBODY: u32 = 65534;
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    fs::set_permissions(sandbox.root(), fs::Permissions::from_mode(0o755))?;
    let mut args = vec!["-rls".to_owned(), SECRET.to_owned()];
    args.extend(tops.iter().map(|top| top.display().to_string()));
    let all = Program::new(sandbox, Path::new("/usr/bin/grep")).args(&args).run()?;
    // As root first: a search in the wrong place would also find nothing.
    ensure!(!all.stdout.is_empty(), "the search finds nothing at all");
    let found = Program::new(sandbox, Path::new("/usr/bin/grep")).args(&args).user(NOBODY, NOBODY).run()?;
    ensure!(found.stdout.is_empty(), "an ordinary user reads the secret in:\n{}", found.stdout);
    Ok(())
}
