//! The programs as processes: exit code, standard output, error output.

use std::path::Path;
use std::process::{Command, Stdio};

/// The outcome of a run: exit code, output, errors.
#[derive(Debug, PartialEq)]
struct Run(i32, String, String);

fn saltern(arguments: &[&str], directory: &Path) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_saltern"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("SALT_CONFIG_DIR")
        .env("HOME", directory)
        .env("COLUMNS", "80")
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&directory.display().to_string(), "DIR");
    Run(output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn master() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().display();
    let config = format!("root_dir: {root}\npki_dir: pki\nsock_dir: s\ncachedir: cache\n");
    std::fs::create_dir_all(directory.path().join("etc")).unwrap();
    std::fs::write(directory.path().join("etc/master"), config).unwrap();
    for state in ["minions", "minions_pre", "minions_rejected", "minions_denied"] {
        std::fs::create_dir_all(directory.path().join("pki").join(state)).unwrap();
    }
    std::fs::create_dir_all(directory.path().join("cache")).unwrap();
    directory
}

#[test]
fn usage_errors_have_salts_words_and_code() {
    let directory = tempfile::tempdir().unwrap();
    let run = saltern(&["salt", "-x"], directory.path());
    let usage = "Usage: salt [options] '<target>' <function> [arguments]\n\nsalt: error: no such option: -x\n";
    assert_eq!(run, Run(64, String::new(), usage.into()));
    let run = saltern(&["salt-key", "-l", "foo"], directory.path());
    assert_eq!(run.0, 64);
    assert_eq!(run.2, "Usage: salt-key [options]\n\nsalt-key: error: 'foo' is not a valid argument to '--list'\n");
}

#[test]
fn the_exit_code_stays_when_nobody_reads_the_errors() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_saltern"));
    command.args(["salt", "-x"]).env("HOME", directory.path()).env_remove("SALT_CONFIG_DIR");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(64));
}

#[test]
fn a_daemon_that_cannot_start_says_why_with_salts_exit_code() {
    let directory = master();
    let root = directory.path().display();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    let config = std::fs::read_to_string(directory.path().join("etc/master")).unwrap();
    let port = format!("interface: 127.0.0.1\npublish_port: {}\n", taken.local_addr().unwrap().port());
    let cases = [
        ("salt-minion", "a: [1\n".to_owned(), 1, "Error parsing configuration file: DIR/etc/minion - while parsing"),
        ("salt-minion", "- a\n".to_owned(), 1, "conf should be a document, not <class 'list'>."),
        ("salt-minion", "user: nosuchuser\n".to_owned(), 67, "for user nosuchuser. The user is not available."),
        (
            "salt-minion",
            format!("log_file: {root}/file/log\n"),
            1,
            "Failed to create path DIR/file/log, is DIR/file a file?",
        ),
        ("salt-minion", "log_file: udp://127.0.0.1:1/LOG_NOPE\n".to_owned(), 69, "facility 'LOG_NOPE' is not known"),
        ("salt-minion", format!("cachedir: {root}/file/c\n"), 20, "Failed to create directory path \"DIR/file/c\" - "),
        ("salt-master", port, 4, "The ports are not available to bind"),
    ];
    for (program, option, code, says) in cases {
        let (file, text) = match program {
            "salt-minion" => ("etc/minion", format!("id: m\nroot_dir: {root}\nsock_dir: s\n{option}")),
            _ => ("etc/master", format!("{config}{option}")),
        };
        std::fs::write(directory.path().join(file), if option.starts_with("- ") { option.clone() } else { text })
            .unwrap();
        for flags in [&[][..], &["-d"], &["-l", "quiet"]] {
            let run = saltern(&[&[program, "-c", "etc"], flags].concat(), directory.path());
            assert_eq!((run.0, run.2.matches(says).count()), (code, 1), "{program} {flags:?} with {option}: {run:?}");
        }
    }
}

#[test]
fn a_wrong_log_level_is_named_and_counts_as_error() {
    let directory = master();
    let path = directory.path().join("etc/master");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}log_level: loud\n")).unwrap();
    let run = saltern(&["salt-run", "-c", "etc", "--out=json", "test.arg", "a"], directory.path());
    assert!(run.0 == 0 && run.2.contains("Could not translate the logging level string 'loud'"), "{run:?}");
}

#[test]
fn the_name_may_be_an_argument_or_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let run = saltern(&["salt-key", "--version"], directory.path());
    assert!(run.1.starts_with("salt-key 3008.5 (Saltern "), "{run:?}");
    assert_eq!(saltern(&["link", "."], directory.path()).0, 0);
    let output = Command::new(directory.path().join("salt-run")).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("salt-run 3008.5 (Saltern "));
    assert_eq!(saltern(&["nonsense"], directory.path()).0, 64);
}

#[test]
fn programs_that_are_not_here_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["salt-ssh", "salt-cloud", "salt-proxy", "salt-syndic", "spm"] {
        let run = saltern(&[name, "--help"], directory.path());
        assert_eq!((run.0, run.1.as_str()), (69, ""), "{run:?}");
        assert!(run.2.starts_with(&format!("saltern: error: {name} is not part of Saltern: ")), "{run:?}");
    }
    let link = directory.path().join("salt-ssh");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_saltern"), &link).unwrap();
    assert_eq!(Command::new(&link).arg("--version").output().unwrap().status.code(), Some(69));
    let run = saltern(&["salt-kye"], directory.path());
    assert!(run.0 == 64 && run.2.contains("Did you mean 'salt-key'?"), "{run:?}");
    for own in ["link", "completions", "demo"] {
        let run = saltern(&[own, "--help"], directory.path());
        assert!(run.0 == 0 && run.1.starts_with(&format!("Usage: saltern {own}")) && run.2.is_empty(), "{run:?}");
    }
}

#[test]
fn a_master_that_never_ran_has_no_keys() {
    let directory = master();
    std::fs::remove_dir_all(directory.path().join("pki")).unwrap();
    let nothing = "Accepted Keys:\nDenied Keys:\nUnaccepted Keys:\nRejected Keys:\n";
    assert_eq!(saltern(&["salt-key", "-c", "etc", "-L"], directory.path()), Run(0, nothing.into(), String::new()));
    for flags in [&["-F"][..], &["-f", "x"], &["-p", "x"]] {
        let run = saltern(&[&["salt-key", "-c", "etc"], flags].concat(), directory.path());
        assert_eq!((run.0, run.2.as_str()), (0, ""), "{run:?}");
    }
}

#[test]
fn an_unknown_node_group_is_named_alone() {
    let directory = master();
    let path = directory.path().join("etc/master");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}nodegroups: {{front: 'web*'}}\n")).unwrap();
    let run = saltern(&["salt", "-c", "etc", "-C", "N@fronts or web1", "test.ping"], directory.path());
    assert_eq!((run.0, run.1.as_str()), (1, "Node group fronts unavailable in DIR/etc/master\n"), "{run:?}");
    assert!(run.2.contains("Did you mean 'front'?"), "{run:?}");
}

#[test]
fn an_unknown_job_is_said_to_be_unknown() {
    let directory = master();
    let ask = |jid: &str| saltern(&["salt-run", "-c", "etc", "--out=json", "jobs.lookup_jid", jid], directory.path());
    let run = ask("20200101000000000000");
    assert_eq!((run.0, run.1.as_str()), (0, "{}\n"), "{run:?}");
    assert!(run.2.contains("There is no job 20200101000000000000 in the job cache"), "{run:?}");
    assert!(ask("abc").2.contains("abc is not a job id"));
    let run = saltern(&["salt-run", "-c", "etc", "saltern.job", "20200101000000000000"], directory.path());
    assert!(run.2.contains("There is no job 20200101000000000000 in the job cache"), "{run:?}");
}

#[test]
fn completion_asks_the_program() {
    let directory = master();
    std::fs::write(directory.path().join("pki/minions/web1"), "").unwrap();
    let complete = |line: &str| saltern(&["complete", "bash", line], directory.path());
    assert_eq!(complete("salt -c etc w"), Run(0, "web1\n".into(), String::new()));
    assert_eq!(complete("salt --out=js").1, "json\n");
    let run = saltern(&["complete", "fish", "salt-key", "--gen-k"], directory.path());
    assert!(run.1.starts_with("--gen-keys\t"), "{run:?}");
    // A real bash takes the script, and its Tab gives what the program says.
    let script = saltern(&["completions", "bash"], directory.path()).1.replace("DIR", ".");
    let ask = "COMP_LINE='salt -c etc we'; COMP_POINT=${#COMP_LINE}; _saltern 2>/dev/null; echo \"${COMPREPLY[@]}\"";
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_saltern"), bin.path().join("saltern")).unwrap();
    let output = Command::new("bash")
        .args(["-c", &format!("{script}\n{ask}")])
        .env("PATH", format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap()))
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "web1\n", "{output:?}");
}

#[test]
fn salt_says_what_is_missing() {
    let directory = master();
    let run = saltern(&["salt", "-c", "etc", "*"], directory.path());
    assert_eq!((run.0, run.2.as_str()), (42, "\nIncomplete options passed.\n\n"));
    assert!(run.1.starts_with("Usage: salt [options]"));
    let run = saltern(&["salt", "-c", "etc", "*", "test.ping"], directory.path());
    assert_eq!(run.1, "The salt master could not be contacted. Is master running?\n");
    assert_eq!(run.0, 1);
}

#[test]
fn a_batch_without_a_size_is_refused_before_anybody_is_asked() {
    let directory = master();
    let run = saltern(&["salt", "-c", "etc", "-b", "abc", "*", "test.ping"], directory.path());
    let says = "Invalid batch data sent: abc\nData must be in the form of %10, 10% or 3\n";
    assert_eq!(run, Run(1, String::new(), says.into()));
}

#[test]
fn logins_that_cannot_be_tried_are_refused() {
    let directory = master();
    for flag in ["--username=fred", "--password=secret", "-T"] {
        for command in [["salt", "*", "test.ping"], ["salt-run", "test.arg", "x"], ["salt-key", "-l", "acc"]] {
            let [program, first, second] = command;
            let run = saltern(&[program, "-c", "etc", flag, first, second], directory.path());
            assert_eq!(run.0, 64, "{run:?}");
            assert!(run.2.contains("need a backend (--auth/--eauth)") && !run.2.contains("secret"), "{run:?}");
        }
    }
    let says = "The specified external authentication system \"x\" is not available\n\
                Available eauth types: auto, file, ldap, pam, rest, sharedsecret\n";
    for (code, command) in
        [(2, ["salt", "*", "test.ping"]), (1, ["salt-run", "test.arg", "x"]), (1, ["salt-key", "-l", "acc"])]
    {
        let [program, first, second] = command;
        let run = saltern(&[program, "-c", "etc", "--eauth", "x", first, second], directory.path());
        assert_eq!(run, Run(code, says.into(), "ERROR: Authentication failed\n".into()));
    }
    let run = saltern(&["salt-key", "-c", "etc", "--eauth", "file", "--gen-keys", "web1"], directory.path());
    assert!(run.0 == 1 && run.2.contains("run them without --eauth"), "{run:?}");
}

#[test]
fn a_wrong_option_names_file_and_line() {
    let directory = master();
    let path = directory.path().join("etc/master");
    let mut config = std::fs::read_to_string(&path).unwrap();
    config.push_str("ret_port: many\n");
    std::fs::write(path, config).unwrap();
    let run = saltern(&["salt-key", "-c", "etc", "-L"], directory.path());
    assert_eq!(run.0, 1);
    assert!(run.2.starts_with("[ERROR   ] config: DIR/etc/master:5") && run.2.contains("ret_port"), "{run:?}");
}

#[test]
fn keys_are_listed_accepted_and_deleted() {
    let directory = master();
    let at = |arguments: &[&str]| {
        let mut all = vec!["salt-key", "-c", "etc"];
        all.extend(arguments);
        saltern(&all, directory.path())
    };
    let nothing = "Accepted Keys:\nDenied Keys:\nUnaccepted Keys:\nRejected Keys:\n";
    assert_eq!(at(&[]), Run(0, nothing.into(), String::new()));
    let made = at(&["--gen-keys=web1", "--gen-keys-dir=gen"]);
    assert!(made.0 == 0 && made.1.starts_with("return:\n    "), "{made:?}");
    std::fs::copy(directory.path().join("gen/web1.pub"), directory.path().join("pki/minions_pre/web1")).unwrap();
    let accepted =
        "The following keys are going to be accepted:\nUnaccepted Keys:\nweb1\nKey for minion web1 accepted.\n";
    assert_eq!(at(&["-a", "web*", "-y"]), Run(0, accepted.into(), String::new()));
    let none = "The key glob 'web*' does not match any unaccepted keys.\n";
    assert_eq!(at(&["-a", "web*", "-y"]), Run(0, none.into(), String::new()));
    assert_eq!(at(&["-l", "acc", "--out=json"]).1, "{\n    \"minions\": [\n        \"web1\"\n    ]\n}\n");
    // The end of the input is no agreement.
    let asked = "The following keys are going to be deleted:\nAccepted Keys:\nweb1\nProceed? [N/y] \n";
    assert_eq!(at(&["-d", "web1"]), Run(0, asked.into(), String::new()));
    assert!(at(&["-D", "-y"]).1.ends_with("Key for minion web1 deleted.\n"));
    assert_eq!(at(&[]).1, nothing);
}

#[test]
fn salt_call_works_without_a_master() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().display();
    std::fs::create_dir(directory.path().join("etc")).unwrap();
    std::fs::write(directory.path().join("etc/minion"), format!("root_dir: {root}\nid: web1\n")).unwrap();
    let call = |arguments: &[&str]| {
        let mut all = vec!["salt-call", "-c", "etc", "--local", "--skip-grains"];
        all.extend(arguments);
        saltern(&all, directory.path())
    };
    assert_eq!(call(&["test.ping"]), Run(0, "local:\n    True\n".into(), String::new()));
    assert_eq!(call(&["no.such"]), Run(255, String::new(), "'no.such' is not available.\n".into()));
    assert_eq!(call(&["test.retcode", "42", "--retcode-passthrough", "--out=json", "--out-indent=-1"]).0, 42);
    let run = saltern(&["salt-call", "-c", "etc", "-g", "x"], directory.path());
    assert_eq!((run.0, run.1.as_str()), (64, ""));
}

#[test]
fn flags_come_from_the_saltfile_unless_given() {
    let directory = master();
    std::fs::write(directory.path().join("Saltfile"), "salt-key:\n  config_dir: etc\n  output: json\n").unwrap();
    let run = saltern(&["salt-key", "-l", "acc"], directory.path());
    assert_eq!(run, Run(0, "{\n    \"minions\": []\n}\n".into(), String::new()));
    let run = saltern(&["salt-key", "-l", "acc", "--out=yaml"], directory.path());
    assert_eq!(run.1, "minions: []\n");
}

#[test]
fn an_output_file_that_cannot_be_written_is_named() {
    let directory = master();
    let run = saltern(&["salt-run", "-c", "etc", "test.arg", "--out-file=missing/x"], directory.path());
    assert_ne!(run.0, 0);
    assert!(run.2.contains("missing/x: No such file or directory"), "{run:?}");
}

#[test]
fn a_minion_gets_the_whole_event_of_a_wheel_function() {
    let directory = master();
    let run = saltern(&["wheel", "-c", "etc", "--out", "json", "key.name_match", "match=x*"], directory.path());
    let event: serde_json::Value = serde_json::from_str(&run.1).expect("JSON");
    assert_eq!((run.0, &event["fun"], &event["success"]), (0, &"wheel.key.name_match".into(), &true.into()), "{run:?}");
    assert_eq!(event["fun_args"], serde_json::json!([{ "match": "x*" }]));
    let run = saltern(&["wheel", "-c", "etc", "--out", "json", "no.such"], directory.path());
    assert_eq!((run.0, run.2.as_str()), (1, "'no.such' is not available.\n"));
}

#[test]
fn a_call_without_a_master_leaves_no_key_pair() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    std::fs::write(root.join("minion"), format!("root_dir: {}\nid: image\n", root.display())).unwrap();
    let run = saltern(&["salt-call", "-c", ".", "--local", "--skip-grains", "config.get", "id"], root);
    assert_eq!((run.0, run.1.as_str()), (0, "local:\n    image\n"), "{run:?}");
    assert!(!root.join("etc/salt/pki/minion/minion.pem").exists());
}

#[test]
fn a_call_tells_a_function_all_but_its_arguments() {
    let directory = tempfile::tempdir().unwrap();
    let config = format!("root_dir: {}\nid: web1\nfile_client: local\n", directory.path().display());
    std::fs::write(directory.path().join("minion"), config).unwrap();
    let call = ["salt-call", "-c", ".", "--local", "--metadata", "--out", "json", "test.kwarg", "a=1"];
    let run = saltern(&call, directory.path());
    let answer: serde_json::Value = serde_json::from_str(&run.1).expect("JSON");
    let names = |value: &serde_json::Value| {
        value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names(&answer["local"]), of(&["jid", "return", "retcode", "id", "fun", "fun_args"]));
    assert_eq!(names(&answer["local"]["return"]), of(&["__pub_fun", "__pub_jid", "__pub_pid", "__pub_tgt", "a"]));
}

#[test]
fn a_call_that_is_stopped_ends_its_command() {
    let directory = tempfile::tempdir().unwrap();
    let config = format!("root_dir: {}\nid: web1\nfile_client: local\n", directory.path().display());
    std::fs::write(directory.path().join("minion"), config).unwrap();
    let noted = directory.path().join("pid");
    let command = format!("echo $$ > {0}.new; mv {0}.new {0}; sleep 60", noted.display());
    let mut call = Command::new(env!("CARGO_BIN_EXE_saltern"))
        .args(["salt-call", "-c", ".", "--local", "cmd.run", &command])
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program runs");
    while !noted.exists() && call.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let stopped = Command::new("kill").arg(call.id().to_string()).status().unwrap();
    assert!(stopped.success());
    assert_eq!(call.wait().unwrap().code(), Some(0));
    let pid = std::fs::read_to_string(&noted).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[test]
fn programs_write_to_the_masters_log_file_and_say_what_is_odd_in_the_configuration() {
    let directory = master();
    let root = directory.path();
    let config = std::fs::read_to_string(root.join("etc/master")).unwrap();
    std::fs::write(root.join("etc/master"), format!("{config}keep_jobs_seconds:\n")).unwrap();
    let log = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_default();

    let run = saltern(&["salt-run", "-c", "etc", "-l", "debug", "jobs.list_jobs"], root);
    assert!(run.2.contains("[DEBUG   ]") && run.2.contains("[WARNING ] "), "{run:?}");
    let master = log("var/log/salt/master");
    assert!(master.contains("[WARNING ]") && master.contains("keep_jobs_seconds"), "{master}");
    assert!(!master.contains("[DEBUG   ]"), "-l is for the console: {master}");

    let flags = ["salt-run", "-c", "etc", "-l", "quiet", "--log-file", "own.log", "--log-file-level", "info"];
    let run = saltern(&[&flags[..], &["jobs.list_jobs"]].concat(), root);
    assert_eq!(run.2, "", "{run:?}");
    assert!(log("own.log").contains("Runner completed: "), "{}", log("own.log"));
    assert_eq!(log("var/log/salt/master"), master);
}
