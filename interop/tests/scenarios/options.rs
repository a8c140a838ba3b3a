//! Options: our table has all of Salt's, and options that forbid something do so in both.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use interop::{Checks, Minion, Program, Salt, Sandbox, missing, scenario};
use serde_json::{Value, json};

#[test]
fn the_table_has_every_option_of_salt() {
    let lines = ["3006.30", "3007.17", "3008.5"];
    if missing(&lines) {
        return;
    }
    scenario("options of Salt", |sandbox| {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the root")?.join("docs/options.md");
        let page = std::fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
        let ours: BTreeSet<&str> = page.split('`').skip(1).step_by(2).collect();
        let mut lacking = Vec::new();
        for line in lines {
            let salt = Salt::real(line).context("checked above")?;
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("py/options.py");
            let output = Program::new(sandbox, &salt.python()?).args([&script]).run()?.ok()?;
            let names: Vec<String> = serde_json::from_value(output.last_json()?)?;
            ensure!(names.len() > 500, "{line} has only {} options", names.len());
            lacking.extend(
                names.iter().filter(|name| !ours.contains(name.as_str())).map(|name| format!("{line}: {name}")),
            );
        }
        if lacking.is_empty() { Ok(()) } else { bail!("not in crates/config/src/effects.rs:\n{}", lacking.join("\n")) }
    });
}

/// A restricting option and calls that it may block. Both sides must block the same ones.
struct Row {
    option: (&'static str, &'static [&'static str]),
    /// The call, and its output if it was not blocked.
    calls: &'static [(&'static [&'static str], &'static str)],
}

/// The output of a state that succeeded.
const DONE: &str = "\"result\": true";

const COMMAND: (&[&str], &str) = (&["cmd.run", "echo went-by"], "went-by");
const STATE: (&[&str], &str) = (&["state.apply", "command"], DONE);
const TEMPLATE: (&[&str], &str) = (&["state.apply", "template"], DONE);
const MODULE: (&[&str], &str) = (&["state.apply", "module"], DONE);
const CHECK: (&[&str], &str) = (&["state.apply", "check"], DONE);
const FILE: (&[&str], &str) = (&["state.apply", "file"], DONE);
const ECHO: (&[&str], &str) = (&["test.echo", "went-by"], "went-by");

const ROWS: &[Row] = &[
    Row {
        option: ("whitelist_modules", &["test", "state", "sys"]),
        calls: &[ECHO, COMMAND, STATE, TEMPLATE, MODULE, CHECK, FILE, (&["sys.list_functions", "cmd"], "cmd.run_all")],
    },
    Row { option: ("disable_modules", &["cmdmod"]), calls: &[ECHO, COMMAND, STATE, TEMPLATE, MODULE] },
    Row { option: ("disable_states", &["cmd"]), calls: &[ECHO, COMMAND, STATE, TEMPLATE, MODULE, FILE] },
    Row { option: ("whitelist_state_modules", &["test", "file"]), calls: &[COMMAND, STATE, TEMPLATE, MODULE, FILE] },
    Row {
        option: ("disable_grains", &["core"]),
        calls: &[(&["grains.get", "osfullname"], "Debian"), (&["grains.get", "id"], "m")],
    },
    Row { option: ("cmd_blacklist_glob", &["echo *"]), calls: &[COMMAND, STATE, ECHO] },
    Row { option: ("cmd_whitelist_glob", &["true"]), calls: &[COMMAND, STATE, ECHO] },
    Row {
        option: ("grains_blacklist", &["osf*"]),
        calls: &[(&["grains.get", "osfullname"], "Debian"), (&["grains.get", "id"], "m")],
    },
    Row { option: ("renderer_blacklist", &["jinja"]), calls: &[TEMPLATE, STATE] },
    Row { option: ("disabled_requisites", &["require"]), calls: &[(&["state.apply", "required"], DONE)] },
];

const TREE: &[(&str, &str)] = &[
    ("command", "x:\n  cmd.run:\n    - name: echo hi\n"),
    ("template", "x:\n  test.nop:\n    - name: \"{{ salt['cmd.run']('echo hi') }}\"\n"),
    ("module", "x:\n  module.run:\n    - cmd.run:\n      - cmd: echo hi\n"),
    ("check", "x:\n  test.nop:\n    - onlyif: 'true'\n"),
    ("file", "FOLDER/out:\n  file.managed:\n    - contents: hi\n"),
    ("required", "x:\n  test.nop:\n    - require:\n      - test: y\ny:\n  test.fail_without_changes: []\n"),
];

#[test]
fn what_is_forbidden_there_is_forbidden_here() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("options that forbid", |sandbox| {
        let (real, ours) = (Salt::real("3008.5").context("checked above")?, Salt::ours()?);
        let mut checks = Checks::new();
        for (number, row) in ROWS.iter().enumerate() {
            let theirs = tried(sandbox, &real, number, row)?;
            let answers = tried(sandbox, &ours, number, row)?;
            for (((call, _), theirs), ours) in row.calls.iter().zip(theirs).zip(answers) {
                checks.check(format!("{} {:?}: {}", row.option.0, row.option.1, call.join(" ")), || {
                    ensure!(
                        theirs.0 == ours.0,
                        "through there: {}, here: {}\n{}\n{}",
                        theirs.0,
                        ours.0,
                        theirs.1,
                        ours.1
                    );
                    Ok(())
                });
            }
        }
        checks.finish()
    });
}

/// Returns whether each call of a row succeeded, and its output.
fn tried(sandbox: &Sandbox, salt: &Salt, number: usize, row: &Row) -> Result<Vec<(bool, String)>> {
    let tree = sandbox.folder(&format!("tree-{number}-{}", salt.name()))?;
    for (name, text) in TREE {
        let text = text.replace("FOLDER", tree.to_str().context("a path that is text")?);
        std::fs::write(tree.join(format!("{name}.sls")), text)?;
    }
    // Without a master: these options restrict what a minion does for itself too, and no daemon has to start for each
    // row.
    let minion = Minion::build(salt, &format!("m{number}-{}", salt.name()))
        .option("file_roots", json!({"base": [tree]}))
        .option("file_client", "local")
        .option(row.option.0, Value::from(row.option.1.to_vec()))
        .prepare(sandbox)?;
    let one = |(call, through): &(&[&str], &str)| {
        let output = minion.program("salt-call").args(["--local", "--out=json"]).args(*call).run()?;
        Ok((output.stdout.contains(through), output.to_string()))
    };
    row.calls.iter().map(one).collect()
}
