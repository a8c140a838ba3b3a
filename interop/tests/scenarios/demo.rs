//! `saltern demo`: its output, and that it leaves nothing behind, however it ends.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use interop::{Output, Program, Salt, Sandbox, scenario};

/// Each step of the demonstration prints one of these.
const STEPS: [&str; 11] = [
    "# Both masters command the same minions.",
    "Total states run:     2",
    "=> from the death of the first master to the answers of all minions to the second: ",
    "Waiting for 1 minion: db1",
    "=> from the start of the minion to its answer to the held job: ",
    "=> from the start of the first master to the answers of all minions: ",
    "linked",
    "Key for minion far1 accepted.",
    "hello from the other side\n$ salt-run -c master2",
    "=> from the start of the first master to the result that it missed: ",
    "base/motd.sls:",
];

/// Ends the demonstration in the middle by a signal to it alone; prints its exit code.
const INTERRUPT: &str = r##"
coproc DEMO { exec "$0" demo --keep; }
pid=$DEMO_PID
while read -r line; do
    case $line in "# The first master dies.") kill -"$1" "$pid" ;; esac
done <&"${DEMO[0]}"
wait "$pid"
echo "code $?"
"##;

/// Reads one line of it, as `head` does; prints its exit code.
const CLOSE: &str = r#""$0" demo | head -n 1 >/dev/null; echo "code ${PIPESTATUS[0]}""#;

// One test: the demonstration has fixed addresses.
#[test]
fn the_demonstration_leaves_nothing_behind() {
    scenario("demo", |sandbox| {
        let saltern = Salt::saltern()?;
        let told = run(sandbox, &saltern, &["demo"])?;
        ensure!(told.code == 0, "the demonstration failed: {} {}", told.stdout, told.stderr);
        for step in STEPS {
            ensure!(told.stdout.contains(step), "{step:?} is not in {}", told.stdout);
        }
        for (signal, code) in [("INT", "code 130\n"), ("TERM", "code 130\n"), ("HUP", "code 130\n")] {
            let told = bash(sandbox, INTERRUPT, &saltern, signal)?;
            ensure!(told.stdout == code, "after SIG{signal}: {} {}", told.stdout, told.stderr);
        }
        let told = bash(sandbox, CLOSE, &saltern, "")?;
        ensure!(told.stdout == "code 141\n", "with a closed output: {} {}", told.stdout, told.stderr);
        Ok(())
    });
}

fn bash(sandbox: &Sandbox, script: &str, saltern: &Path, argument: &str) -> Result<Output> {
    let saltern = saltern.to_string_lossy();
    run(sandbox, &PathBuf::from("bash"), &["-c", script, &saltern, argument])
}

/// Runs a program to its end, and checks that it leaves no file and no process.
fn run(sandbox: &Sandbox, program: &Path, args: &[&str]) -> Result<Output> {
    let scratch = sandbox.folder("scratch")?;
    let told = Program::new(sandbox, program).args(args).env("TMPDIR", &scratch).run()?;
    let left: Vec<_> = fs::read_dir(&scratch)?.collect();
    ensure!(left.is_empty(), "{} leaves {left:?}", told.line);
    let processes = sandbox.processes();
    ensure!(processes.is_empty(), "{} leaves the processes {processes:?}", told.line);
    Ok(told)
}
