//! Logins with PAM on a copy of `/etc`, in a mount namespace: the helper alone, and a master with its keeper.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A hash of crypt(3), and its password.
const HASH: &str = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";
const RIGHT: &str = "Hello world!";

/// The user of the master, the fourth of the accounts.
const MASTER: u32 = FIRST + 3;
const FIRST: u32 = 61000;

const LIBRARY: &str = "/lib/x86_64-linux-gnu/libpam.so.0";

/// Returns a command that runs this program with another `/etc`, after another command in the same namespace.
fn saltern(etc: &Path, before: &str, arguments: &[&str]) -> Command {
    let script = format!("mount --make-rprivate / && mount --bind {} /etc && {before} && exec \"$@\"", etc.display());
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_saltern")]).args(arguments);
    command
}

/// Asks the helper of a service, and returns its exit code and its answer.
fn ask(etc: &Path, before: &str, service: &str, question: &str) -> (Option<i32>, String) {
    let (mut socket, theirs) = UnixStream::pair().expect("a socket can be made");
    let mut helper = saltern(etc, before, &["pam-check", service]);
    let mut running = helper.stdin(OwnedFd::from(theirs)).spawn().expect("unshare runs");
    // It holds the other end of the socket.
    drop(helper);
    socket.write_all(question.as_bytes()).expect("the helper reads");
    socket.shutdown(Shutdown::Write).expect("the question ends");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("the answer is text");
    (running.wait().expect("the helper ends").code(), answer)
}

/// Returns whether this test can look behind the system's back.
fn can_run() -> bool {
    let library = Path::new(LIBRARY);
    let is_root = nix::unistd::geteuid().is_root();
    let may_mount = || Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    let can_run = is_root && library.exists() && may_mount();
    if !can_run {
        eprintln!("skipped: it needs root, mount namespaces, and PAM in {}", library.display());
    }
    can_run
}

fn append(path: &Path, lines: &str) {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
}

/// A copy of `/etc` with accounts: a good one, one for a master, and those that must not get in.
fn accounts() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    // The master's user goes through it.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let etc = place.path().join("etc");
    assert!(Command::new("cp").args(["-a", "/etc"]).arg(&etc).status().unwrap().success());
    let users = [
        ("fred", HASH.to_owned(), ""),
        ("locked", format!("!{HASH}"), ""),
        ("expired", HASH.to_owned(), "1"),
        ("saltmaster", "!".to_owned(), ""),
        ("overdue", HASH.to_owned(), ""),
        ("noshell", HASH.to_owned(), ""),
        ("empty", String::new(), ""),
        ("ann", HASH.to_owned(), ""),
    ];
    for (id, (name, hash, expires)) in (FIRST..).zip(&users) {
        // A password that has to be changed after a day, and a shell that is none.
        let most_days = if *name == "overdue" { 1 } else { 99999 };
        let shell = if *name == "noshell" { "/usr/sbin/nologin" } else { "/bin/sh" };
        append(&etc.join("passwd"), &format!("{name}:x:{id}:{id}::/nonexistent:{shell}\n"));
        append(&etc.join("shadow"), &format!("{name}:{hash}:20000:0:{most_days}:7::{expires}:\n"));
        append(&etc.join("group"), &format!("{name}:x:{id}:\n"));
    }
    append(&etc.join("group"), "operators:x:62000:fred,ann\n");
    fs::set_permissions(etc.join("shadow"), fs::Permissions::from_mode(0o640)).unwrap();
    // Modules and their programs must not get at the answer, nor be waited for.
    let careless = place.path().join("careless");
    fs::write(&careless, "#!/bin/sh\nprintf 'yes\\0'\nprintf 'yes\\0' >&0\n(sleep 15 &)\n").unwrap();
    fs::set_permissions(&careless, fs::Permissions::from_mode(0o755)).unwrap();
    let rules = format!(
        "auth optional pam_exec.so quiet {}\nauth required pam_unix.so nodelay\naccount required pam_unix.so\n",
        careless.display()
    );
    append(&etc.join("pam.d/salt-test"), &rules);
    // As services such as `ftp` have it.
    append(&etc.join("pam.d/salt-shells"), &format!("auth required pam_shells.so\n{rules}"));
    append(&etc.join("shells"), "/bin/sh\n");
    (place, etc)
}

#[test]
fn pam_decides_about_passwords_and_accounts() {
    if !can_run() {
        return;
    }
    let (_place, etc) = accounts();
    let question = |name: &str, password: &str| ask(&etc, "true", "salt-test", &format!("{name}\0{password}"));
    let (code, answer) = question("fred", RIGHT);
    let mut parts: Vec<&str> = answer.split_terminator('\0').collect();
    parts.sort_unstable();
    assert_eq!((code, parts), (Some(0), vec!["fred", "operators", "yes"]));
    let no = (Some(1), "no\0".to_owned());
    for (name, password) in [
        ("fred", "wrong"),
        ("fred", ""),
        ("nobody-here", RIGHT),
        ("locked", RIGHT),
        ("expired", RIGHT),
        ("overdue", RIGHT),
        ("empty", ""),
        ("empty", RIGHT),
    ] {
        assert_eq!(question(name, password), no, "{name} {password}");
    }
    // Whether a shell counts is for the service to say.
    for (service, name, code) in
        [("salt-shells", "fred", 0), ("salt-shells", "noshell", 1), ("salt-test", "noshell", 0)]
    {
        let (found, answer) = ask(&etc, "true", service, &format!("{name}\0{RIGHT}"));
        assert_eq!(found, Some(code), "{service} {name}: {answer}");
    }
    for (name, code, word) in [
        ("fred", 0, "usable"),
        ("locked", 1, "closed"),
        ("expired", 1, "closed"),
        ("overdue", 1, "closed"),
        ("nobody-here", 1, "missing"),
    ] {
        assert_eq!(
            ask(&etc, "true", "salt-test", name),
            (Some(code), format!("{word}\0")),
            "{name} without a password"
        );
    }
    // A host without PAM.
    let hide = format!("mount --bind /dev/null {}", fs::canonicalize(LIBRARY).unwrap().display());
    let absent = ask(&etc, &hide, "salt-test", &format!("fred\0{RIGHT}"));
    assert_eq!(absent, (Some(2), "PAM is not installed here (libpam.so.0)\0".to_owned()));
}

/// A master, which is killed at the end of the test.
struct Master(Child);

impl Drop for Master {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a token for a user, or the empty text of a refusal. Waits until the master answers.
fn token(etc: &Path, conf: &str, name: &str, password: &str) -> Value {
    let (username, password) = (format!("username={name}"), format!("password={password}"));
    let arguments = ["salt-run", "-c", conf, "auth.mk_token", &username, &password, "eauth=pam", "--out=json"];
    for _ in 0..200 {
        let output = saltern(etc, "true", &arguments).output().unwrap();
        match serde_json::from_slice(&output.stdout) {
            Ok(Value::String(text)) if text.contains("must be running") => {}
            Ok(answer) => return answer,
            Err(_) => {}
        }
    }
    panic!("the master does not answer: {:?}", saltern(etc, "true", &arguments).output());
}

/// Sends a job with a token, and returns all that `salt` prints.
fn with_token(etc: &Path, conf: &str, token: &Value) -> String {
    fs::write(Path::new(conf).join("salt_token"), token["token"].as_str().unwrap()).unwrap();
    let output = saltern(etc, "true", &["salt", "-c", conf, "-a", "pam", "*", "test.ping"]).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_master_that_is_not_root_asks_pam() {
    if !can_run() {
        return;
    }
    let (place, etc) = accounts();
    let conf = place.path().join("conf");
    fs::create_dir(&conf).unwrap();
    let root = place.path().join("root");
    fs::create_dir(&root).unwrap();
    std::os::unix::fs::chown(&root, Some(MASTER), Some(MASTER)).unwrap();
    let ports = [0; 2].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
    let [publish, requests] = ports.each_ref().map(|port| port.local_addr().unwrap().port());
    let log = root.join("log");
    let options = json!({
        "root_dir": root, "pki_dir": "pki", "cachedir": "cache", "sock_dir": "sock",
        "user": "saltmaster", "interface": "127.0.0.1", "publish_port": publish, "ret_port": requests,
        "log_file": log, "log_level": "quiet", "log_level_logfile": "trace", "pidfile": "run/master.pid",
        "external_auth": { "pam": { "operators%": ["test.*"] } }, "auth.pam.service": "salt-test",
        "token_file": conf.join("salt_token"),
    });
    fs::write(conf.join("master"), options.to_string()).unwrap();
    drop(ports);
    let conf = conf.to_str().unwrap();
    let mut program = saltern(&etc, "true", &["salt-master", "-c", conf]);
    let mut master = Master(program.stderr(Stdio::piped()).spawn().unwrap());

    let given = token(&etc, conf, "fred", RIGHT);
    let mut groups: Vec<&str> = given["groups"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    groups.sort_unstable();
    assert_eq!((given["name"].as_str(), groups), (Some("fred"), vec!["fred", "operators"]), "{given}");
    // Without a locked account the token is good: nobody is there to answer.
    assert!(with_token(&etc, conf, &given).contains("No minions matched"), "{}", with_token(&etc, conf, &given));
    let made_before = token(&etc, conf, "ann", RIGHT);
    let shadow = fs::read_to_string(etc.join("shadow")).unwrap();
    fs::write(etc.join("shadow"), shadow.replace("ann:$", "ann:!$")).unwrap();
    let refused = with_token(&etc, conf, &made_before);
    assert!(refused.contains("Authentication"), "{refused}");

    for (name, password) in [("fred", "Hello world"), ("locked", RIGHT), ("expired", RIGHT), ("nobody-here", RIGHT)] {
        assert_eq!(token(&etc, conf, name, password), json!(""), "{name}");
    }
    let owner = |pid: &str| fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let uid = |status: &str| status.lines().find_map(|line| line.strip_prefix("Uid:\t").map(str::to_owned)).unwrap();
    assert!(
        uid(&owner(&master.0.id().to_string())).starts_with(&format!("{MASTER}\t")),
        "the master has given up root"
    );
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("user fred with pam from 127.0.0.1 logged in"), "{logged}");
    assert!(logged.contains("user locked with pam from 127.0.0.1 may not log in: wrong name or password"), "{logged}");
    assert!(logged.contains("tokens of user ann with pam do not count: the account is closed"), "{logged}");
    assert!(!logged.contains("Hello") && !logged.contains("yes\0"), "{logged}");

    // The keeper has the error output of the master, and ends with it, even if it is killed.
    master.0.kill().unwrap();
    let mut complaints = String::new();
    master.0.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!(complaints, "");
}
