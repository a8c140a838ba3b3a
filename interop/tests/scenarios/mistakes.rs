//! Mistakes of operators: broken configuration, levels that do not exist, logs and ports that cannot be opened, binary
//! files.
//!
//! No daemon runs. Each command must end with the exit code and the messages of the real program.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Output, Program, Salt, Sandbox, missing, scenario};

/// A mistake, and what comes of it on both sides.
struct Mistake {
    /// An overlay of the configuration: a file below the root, and its text. `ROOT` and `ADDRESS` are replaced.
    file: (&'static str, &'static str),
    /// The command line, without `-c`.
    command: &'static str,
    code: i32,
    /// The text that one of the outputs must contain.
    says: &'static str,
}

const fn mistake(file: (&'static str, &'static str), command: &'static str, code: i32, says: &'static str) -> Mistake {
    Mistake { file, command, code, says }
}

const BROKEN: &str = "a: [1\n";
const NOTHING: (&str, &str) = ("etc/minion.d/empty.conf", "");

const MISTAKES: &[Mistake] = &[
    mistake(
        ("etc/master", BROKEN),
        "salt-key -L",
        1,
        "[ERROR   ] Error parsing configuration file: ROOT/etc/master - ",
    ),
    mistake(("etc/master", BROKEN), "salt-master -d", 1, "Error parsing configuration file: ROOT/etc/master - "),
    mistake(
        ("etc/minion", "- a\n"),
        "salt-call --local test.ping",
        1,
        "conf should be a document, not <class 'list'>.",
    ),
    mistake(("etc/minion.d/x.conf", BROKEN), "salt-minion", 1, "configuration file: ROOT/etc/minion.d/x.conf - "),
    mistake(("etc/minion.d/x.conf", "include: nope/*.conf\n"), "salt-call --local test.ping", 0, "True"),
    mistake(("etc/minion.d/x.conf", "log_level: wrong\n"), "salt-call --local test.ping", 0, "True"),
    mistake(
        ("etc/minion.d/x.conf", "log_level_logfile: wrong\n"),
        "salt-call --local test.ping",
        0,
        "Could not translate the logging level string 'wrong' into an actual logging level integer.",
    ),
    mistake(
        NOTHING,
        "salt-call --local -l wrong test.ping",
        64,
        "salt-call: error: option -l: invalid choice: 'wrong'",
    ),
    mistake(("etc/master.d/x.conf", "user: nosuchuser\n"), "salt-master", 67, NO_USER),
    mistake(("etc/master.d/x.conf", "user: nosuchuser\n"), "salt-key -L", 67, NO_USER),
    mistake(("etc/minion.d/x.conf", "user: nosuchuser\n"), "salt-minion -d", 67, NO_USER),
    mistake(("var/log/salt", ""), "salt-master", 1, "is ROOT/var/log/salt a file?"),
    mistake(("var/log/salt", ""), "salt-master -d", 1, "is ROOT/var/log/salt a file?"),
    mistake(
        ("etc/minion.d/x.conf", "log_file: udp://127.0.0.1:1/LOG_NOPE\n"),
        "salt-minion",
        69,
        "'LOG_NOPE' is not known",
    ),
    mistake(("var/cache", ""), "salt-master", 20, "Failed to create directory path \"ROOT/var/cache/salt/master\""),
    mistake(("var/cache", ""), "salt-minion -d", 20, "Failed to create directory path \"ROOT/var/cache/salt/minion\""),
    mistake(("etc/master.d/x.conf", "interface: ADDRESS\n"), "salt-master", 4, "The ports are not available to bind"),
    mistake(
        ("etc/master.d/x.conf", "interface: ADDRESS\n"),
        "salt-master -d",
        4,
        "The ports are not available to bind",
    ),
    mistake(NOTHING, "salt-call --local cp.get_file_str ROOT/image", 1, NO_TEXT),
    mistake(NOTHING, "salt-call --local cp.get_url salt://image None", 1, NO_TEXT),
    mistake(NOTHING, "salt-call --local cp.get_template salt://image ROOT/copy", 0, "ROOT/copy"),
    mistake(NOTHING, "salt-call --local event.fire text tag", 0, "False"),
    mistake(NOTHING, "salt-key -l", 64, "salt-key: error: -l option requires 1 argument"),
    mistake(NOTHING, "salt-key -l nosuch", 64, "salt-key: error: 'nosuch' is not a valid argument to '--list'"),
    mistake(NOTHING, "salt-key -l acc extra", 0, "Accepted Keys:"),
    mistake(NOTHING, "salt-key -D -A -y", 0, "The key glob '*' does not match any unaccepted keys."),
    mistake(NOTHING, "salt-key -L --out nosuch", 0, "Invalid outputter nosuch specified, fall back to nested"),
    mistake(NOTHING, "salt-key --keysize=100 --gen-keys=x", 64, "The minimum value for keysize is 2048"),
    mistake(NOTHING, "salt-key --keysize=abc --gen-keys=x", 64, "option --keysize: invalid integer value: 'abc'"),
    mistake(NOTHING, "salt m test.ping --timeout=abc", 64, "option --timeout: invalid integer value: 'abc'"),
    mistake(
        NOTHING,
        "salt m test.ping --batch-wait abc",
        64,
        "option --batch-wait: invalid floating-point value: 'abc'",
    ),
    mistake(NOTHING, "salt-call --local --out-file ROOT/no/such test.ping", 1, "No such file or directory"),
    mistake(NOTHING, "salt-call --local --id= test.ping", 0, "True"),
    mistake(NOTHING, "salt-key --rotate-aes-key no -L", 0, "Accepted Keys:"),
    mistake(NOTHING, "salt-call --local cp.recv {/x/a:hi} ROOT/no/", 0, "Destination unavailable"),
    mistake(NOTHING, "salt-call --local test.pin", 1, "CLI Example:\n        \n                salt '*' test.ping"),
];

const NO_USER: &str = "Failed to prepare the Salt environment for user nosuchuser. The user is not available.";
const NO_TEXT: &str = "'utf-8' codec can't decode byte 0x89 in position 0: invalid start byte";

#[test]
fn mistakes_have_the_same_outcome() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("mistakes", |sandbox| {
        let sides = [("theirs", Salt::real("3008.5").context("checked above")?), ("ours", Salt::ours()?)];
        let address = sandbox.address(&[4505, 4506]).to_string();
        let _taken = TcpListener::bind((address.as_str(), 4505)).context("the port was free")?;
        let mut checks = Checks::new();
        for (number, mistake) in MISTAKES.iter().enumerate() {
            for (side, salt) in &sides {
                checks.check(format!("{side}: {} with {:?}", mistake.command, mistake.file), || {
                    let root = sandbox.folder(&format!("{number}-{side}"))?;
                    let output = run(sandbox, salt, &root, mistake, &address)?;
                    said(&output, mistake, &root)
                });
            }
        }
        checks.finish()
    });
}

fn run(sandbox: &Sandbox, salt: &Salt, root: &Path, mistake: &Mistake, address: &str) -> Result<Output> {
    let filled = |text: &str| text.replace("ROOT", &root.display().to_string()).replace("ADDRESS", address);
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(&path, filled(text)).with_context(|| format!("failed to write {}", path.display()))
    };
    let roots = "root_dir: ROOT\npki_dir: pki\nsock_dir: s\nuser: root\nfile_roots: {base: [ROOT]}\n";
    write("etc/master", &format!("{roots}interface: 127.0.0.1\n"))?;
    write("etc/minion", &format!("{roots}id: m\nmaster: 127.0.0.1\n"))?;
    fs::write(root.join("image"), b"\x89PNG\r\n\x1a\n\0")?;
    write(mistake.file.0, mistake.file.1)?;
    let mut words = mistake.command.split(' ').map(filled);
    let program = Program::new(sandbox, &salt.program(&words.next().unwrap_or_default()));
    program.arg_dir("-c", &root.join("etc")).args(words).run()
}

fn said(output: &Output, mistake: &Mistake, root: &Path) -> Result<()> {
    ensure!(output.code == mistake.code, "expected exit code {} of {output}", mistake.code);
    let text = format!("{}{}", output.stdout, output.stderr).replace(&root.display().to_string(), "ROOT");
    ensure!(text.contains(mistake.says), "expected {:?} of {output}", mistake.says);
    Ok(())
}
