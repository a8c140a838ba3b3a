//! Access control of two masters that share: groups of nodes, people who log in, other users of the host, and what differs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, MasterBuilder, Minion, Output, Salt, Sandbox, password_file, scenario, until_some};
use serde_json::{Value, json};

use crate::sharing::{member, wait_linked};

const PASSWORD: &str = "correct-horse-battery";
const PATIENCE: Duration = Duration::from_secs(60);
const POOL_PORT: u16 = 4520;

/// A user of the host who is not the master's, and the ids of user and group.
const LOCAL: (&str, u32, u32) = ("games", 5, 60);

/// The options of a set of two masters for a team: web servers are theirs, databases are not.
fn options(built: MasterBuilder, passwords: &Path) -> MasterBuilder {
    built
        .option("nodegroups", json!({"web": "web*", "db": "L@db1,db2", "all": "N@web or N@db"}))
        .option(
            "external_auth",
            json!({"file": {"^filename": passwords, "fred": ["test.ping", {"N@web": ["test.*"]}, "@jobs"]}}),
        )
        .option("publisher_acl", json!({ LOCAL.0: [{"web*": ["test.*"]}] }))
}

fn salt_of_fred(master: &Master, args: &[&str]) -> Result<Output> {
    let login = ["-a", "file", "--username", "fred", "--password", PASSWORD, "--out=json", "--static"];
    master.program("salt").args(login).args(args).run()
}

/// Runs `salt` as the other user, who may publish and not read events.
fn salt_of_other(master: &Master, args: &[&str]) -> Result<Output> {
    let (_, user, group) = LOCAL;
    master.program("salt").user(user, group).args(["--async"]).args(args).run()
}

fn refused(output: &Output) -> Result<()> {
    ensure!(output.code != 0 && output.stdout.contains("Authorization error occurred."), "not refused: {output}");
    Ok(())
}

/// Lets the other user read the configuration and their own key, as on a host where they have an account.
fn open_to_other(sandbox: &Sandbox, master: &Master) -> Result<()> {
    for (path, mode) in
        [(sandbox.root().to_owned(), 0o755), (master.root().to_owned(), 0o755), (master.conf().join("master"), 0o644)]
    {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).context("failed to open a directory")?;
    }
    Ok(())
}

#[test]
fn a_set_of_masters_has_one_access_control_and_says_where_it_differs() {
    scenario("access control of a set", |sandbox| {
        let ours = Salt::ours()?;
        let passwords = password_file(&sandbox.root().join("passwords"), &["fred"], PASSWORD)?;
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let built = |name: &str| options(member(&ours, name, &pair).option("auto_accept", true), &passwords);
        let one = built("m1").start(sandbox)?;
        let peer = json!([format!("{}:{POOL_PORT}", one.address())]);
        let mut two = built("m2").option("cluster_peers", peer.clone()).start(sandbox)?;
        wait_linked(&one, "m2")?;
        let _web = Minion::build(&ours, "web1").master(&one).start(sandbox)?;
        let _db = Minion::build(&ours, "db1").master(&two).start(sandbox)?;
        for master in [&one, &two] {
            master.wait_answering(&["db1", "web1"])?;
            may_do_what_is_granted(master)?;
            open_to_other(sandbox, master)?;
            let jid = salt_of_other(master, &["web1", "test.echo", "x"])?.ok()?;
            ensure!(jid.stdout.starts_with("Executed command with job ID: "), "{jid}");
            for wrong in [["web1", "cmd.run", "id"], ["db1", "test.echo", "x"], ["*", "test.echo", "x"]] {
                refused(&salt_of_other(master, &wrong)?)?;
            }
        }
        ensure!(differences(&one)? == json!({}), "nothing differs");

        // Somebody grants more on one master only.
        two.daemon()?.terminate(PATIENCE)?;
        let path = two.conf().join("master");
        let text = fs::read_to_string(&path)?;
        let more = text.replace(r#""web*":["test.*"]"#, r#""web*":["test.*","cmd.run"]"#);
        ensure!(more != text, "no publisher_acl in {text}");
        fs::write(&path, more)?;
        two.launch(sandbox)?;
        two.wait_ready()?;
        for (master, other) in [(&one, "m2"), (&two, "m1")] {
            wait_linked(master, other)?;
            let found = differences(master)?;
            ensure!(found == json!({"publisher_acl:games": {other: "differs"}}), "{} finds {found}", master.name());
        }
        Ok(())
    });
}

fn may_do_what_is_granted(master: &Master) -> Result<()> {
    let pinged = salt_of_fred(master, &["-N", "all", "test.ping"])?.ok()?.json()?;
    ensure!(pinged == json!({"db1": true, "web1": true}), "{pinged}");
    let echoed = salt_of_fred(master, &["-N", "web", "test.echo", "x"])?.ok()?.json()?;
    ensure!(echoed == json!({"web1": "x"}), "{echoed}");
    for wrong in [&["-N", "db", "test.echo", "x"][..], &["*", "test.echo", "x"], &["web1", "cmd.run", "id"]] {
        refused(&salt_of_fred(master, wrong)?)?;
    }
    Ok(())
}

/// Returns what `salt-run saltern.drift acl` says that differs.
fn differences(master: &Master) -> Result<Value> {
    let mut last = json!(null);
    let compared = until_some("access control to be compared", PATIENCE, || {
        last = master.runner(&["saltern.drift", "acl"]).ok()?;
        last["not_compared"].is_null().then(|| last["differs"].clone())
    });
    compared.with_context(|| format!("the last answer was {last}"))
}
