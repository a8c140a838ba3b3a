use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exec::testing::context;
use exec::{Call, Context, Job};
use value::{Map, Value, list, map};

use super::MODULE;

fn ctx() -> Context {
    context(&[&MODULE], map! { "id" => "m" }, map! {}, map! {}).0
}

/// A context whose calls come from an operator.
fn job_ctx(load: Map) -> Context {
    Context { job: std::sync::Arc::new(Job::new(load)), ..ctx() }
}

fn call(ctx: &Context, fun: &str, cmd: impl Into<Value>, kwargs: Map) -> exec::Result<Value> {
    let call = Call { args: vec![cmd.into()], kwargs };
    ctx.agent.clone().registry().call(ctx, fun, call)
}

fn operator() -> Context {
    job_ctx(map! { "jid" => "20260101000000000000", "fun" => "cmd.run" })
}

#[test]
fn an_operators_line_goes_through_the_shell_and_others_are_split() {
    assert_eq!(call(&operator(), "cmd.run", "echo $((1+1))", map! {}).unwrap(), "2".into());
    assert_eq!(call(&ctx(), "cmd.run", "echo $((1+1)) 'a  b'", map! {}).unwrap(), "$((1+1)) a  b".into());
    assert_eq!(call(&ctx(), "cmd.shell", "echo $((1+1))", map! {}).unwrap(), "2".into());
    // False and None for the shell differ: only None keeps the whole line as the name of a program.
    assert_eq!(call(&ctx(), "cmd.run", "echo $X", map! { "shell" => false }).unwrap(), "$X".into());
    let name = call(&ctx(), "cmd.run", "echo $X", map! { "shell" => () }).unwrap_err().to_string();
    assert!(name.ends_with("No such file or directory: 'echo $X'"), "{name}");
}

#[test]
fn the_shell_of_the_environment_runs_what_names_none() {
    const EXPECTED: &str = "SALTERN_TEST_SHELL";
    // The environment of a process cannot be changed safely, so other processes look.
    if let Ok(expected) = std::env::var(EXPECTED) {
        assert_eq!(call(&operator(), "cmd.run", "echo $0", map! {}).unwrap(), expected.into());
        return;
    }
    for (shell, expected) in [(None, "/bin/sh"), (Some("/bin/bash"), "/bin/bash")] {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "cmd::tests::the_shell_of_the_environment_runs_what_names_none"]);
        again.env_remove("SHELL").envs(shell.map(|shell| ("SHELL", shell))).env(EXPECTED, expected);
        let output = again.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}

#[test]
fn the_shapes_are_those_of_salt() {
    let ctx = operator();
    let all = call(&ctx, "cmd.run_all", "echo a; echo b >&2; exit 3", map! {}).unwrap().into_map().unwrap();
    // The order of the keys shows in every output format.
    assert_eq!(all.text_keys().collect::<Vec<_>>(), ["pid", "retcode", "stdout", "stderr"]);
    assert_eq!(
        (all.get("retcode"), all.get_str("stdout"), all.get_str("stderr")),
        (Some(&3.into()), Some("a"), Some("b"))
    );
    assert_eq!(ctx.job.retcode(), 3);
    assert_eq!(call(&ctx, "cmd.run", "echo a; echo b >&2", map! {}).unwrap(), "a\nb".into());
    assert_eq!(call(&ctx, "cmd.run_stdout", "echo a; echo b >&2", map! {}).unwrap(), "a".into());
    assert_eq!(call(&ctx, "cmd.run_stderr", "echo a; echo b >&2", map! {}).unwrap(), "b".into());
    assert_eq!(call(&ctx, "cmd.retcode", "exit 4", map! {}).unwrap(), 4.into());
    // A signal is a negative code, as Python's `returncode` has it.
    assert_eq!(call(&ctx, "cmd.retcode", "kill -9 $$", map! {}).unwrap(), (-9).into());
}

#[test]
fn what_counts_as_success_can_be_said() {
    let ctx = operator();
    let retcode = |kwargs| {
        call(&ctx, "cmd.run_all", "echo fine; echo bad >&2; exit 2", kwargs).map(|all| all.get("retcode").cloned())
    };
    assert_eq!(retcode(map! { "success_retcodes" => list![2] }).unwrap(), Some(0.into()));
    assert_eq!(retcode(map! { "success_retcodes" => "1,2" }).unwrap(), Some(0.into()));
    assert_eq!(retcode(map! { "success_stdout" => "fin" }).unwrap(), Some(0.into()));
    assert_eq!(retcode(map! { "success_stderr" => list!["bad"] }).unwrap(), Some(0.into()));
    assert_eq!(retcode(map! { "success_stdout" => "nope" }).unwrap(), Some(2.into()));
    let refused = retcode(map! { "success_retcodes" => "x" }).unwrap_err().to_string();
    assert_eq!(refused, "success_retcodes must be a list of integers");
    call(&ctx, "cmd.run", "exit 7", map! { "ignore_retcode" => true }).unwrap();
    assert_eq!(ctx.job.retcode(), 0);
}

#[test]
fn arguments_shape_the_surroundings() {
    let ctx = operator();
    let run = |line: &str, kwargs| call(&ctx, "cmd.run", line, kwargs).unwrap().to_string();
    assert_eq!(run("pwd", map! { "cwd" => "/usr" }), "/usr");
    // The command line passes backslash and n as two characters.
    assert_eq!(run("cat", map! { "stdin" => "a\\nb" }), "a\nb");
    assert_eq!(run("cat", map! { "stdin" => "a\\nb", "stdin_raw_newlines" => true }), "a\\nb");
    assert_eq!(run("umask", map! { "umask" => "027" }), "0027");
    assert_eq!(run("echo $A$B", map! { "env" => list![map! { "A" => 1 }, map! { "B" => true }] }), "1True");
    assert_eq!(run("echo ${HOME-none}", map! { "env" => list!["HOME"] }), "");
    assert_eq!(run("echo $LC_TIME", map! {}), "C");
    assert_eq!(run("echo x$HOME", map! { "clean_env" => true }), "x");
    assert!(run("echo $PATH", map! { "prepend_path" => "/first" }).starts_with("/first:"));
    assert_eq!(run("printf 'a \n'", map! { "rstrip" => false }), "a \n");
    assert_eq!(run("echo secret", map! { "hide_output" => true }), "");
    assert_eq!(run("printf '\\351'", map! { "output_encoding" => "latin-1" }), "é");
}

#[test]
fn nonsense_is_refused_in_salts_words() {
    for (kwargs, text) in [
        (map! { "cwd" => "/nonexist" }, "Specified cwd '/nonexist' either not absolute or does not exist"),
        (map! { "shell" => "/bin/nosh" }, "The shell /bin/nosh is not available"),
        // Each case has one wrong argument, so the order of the checks does not matter here.
        (map! { "umask" => 0 }, "Zero umask is not allowed."),
        (map! { "umask" => "9x" }, "Invalid umask: '9x'"),
        (map! { "runas" => "nouser" }, "User 'nouser' is not available"),
        (map! { "template" => "foo" }, "Attempted to render file paths with unavailable engine foo"),
        (map! { "timeout" => "soon" }, "Error: timeout soon must be a number"),
        (map! { "env" => list!["A=b"] }, "illegal environment variable name"),
        (map! { "env" => map! { "A=b" => 1 } }, "illegal environment variable name"),
    ] {
        assert_eq!(call(&operator(), "cmd.run", "pwd", kwargs).unwrap_err().to_string(), text);
    }
    let missing = call(&ctx(), "cmd.run", "nonexist foo", map! { "cwd" => "/" }).unwrap_err().to_string();
    assert_eq!(
        missing,
        "Unable to run command '['nonexist', 'foo']' with the context '{'cwd': '/', 'shell': False, 'stdout': -1, \
         'stderr': -2, 'with_communicate': True, 'timeout': None, 'bg': False, 'close_fds': True}', reason: \
         [Errno 2] No such file or directory: 'nonexist'"
    );
    assert_eq!(call(&ctx(), "cmd.run", "echo \"x", map! {}).unwrap_err().to_string(), "No closing quotation");
    let raised = call(&operator(), "cmd.run", "echo why; exit 1", map! { "raise_err" => true });
    assert_eq!(raised.unwrap_err().to_string(), "why");
}

#[test]
fn forbidden_commands_are_refused_to_operators_only() {
    let opts = map! { "cmd_blacklist_glob" => list!["*shutdown*"] };
    let (mut ctx, _) = context(&[&MODULE], opts, map! {}, map! {});
    // Without a job id the call is one of another function, which the list does not bind.
    call(&ctx, "cmd.run", "echo shutdown", map! {}).unwrap();
    ctx.job = operator().job;
    let refused = call(&ctx, "cmd.run", "echo shutdown", map! {}).unwrap_err().to_string();
    assert_eq!(refused, "The shell command \"echo shutdown\" is not permitted");
}

#[test]
fn large_output_and_input_flow_at_once() {
    // Far more than a pipe holds (64 KiB): feeding all input before reading would deadlock with `tee`.
    let text = "x".repeat(3_000_000);
    let kwargs = map! { "stdin" => &text, "rstrip" => false };
    let all = call(&operator(), "cmd.run_all", "tee /dev/stderr", kwargs).unwrap();
    assert_eq!(all.get("stdout").and_then(Value::as_str).map(str::len), Some(3_000_000));
    assert_eq!(all.get("stderr").and_then(Value::as_str).map(str::len), Some(3_000_000));
    let bytes = call(&operator(), "cmd.run", "printf 'a\\377\\000b'", map! {}).unwrap();
    assert_eq!(bytes, "a\u{fffd}\0b".into());
}

fn alive(pid: i32) -> bool {
    // A zombie still has a directory but no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// Waits until something is there.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn until_gone(pid: i32) {
    until(|| (!alive(pid)).then_some(()));
}

#[test]
fn what_takes_too_long_is_killed_with_all_it_started() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // The child in the background holds the pipes open: killing the shell alone would leave the reader waiting.
    let line = format!("sleep 600 & echo $! > {}; wait", file.path().display());
    let all = call(&operator(), "cmd.run_all", line.as_str(), map! { "timeout" => 0.5 }).unwrap();
    let all = all.into_map().unwrap();
    assert_eq!(all.text_keys().collect::<Vec<_>>(), ["stdout", "stderr", "retcode", "pid"]);
    assert_eq!(all.get_str("stdout"), Some(format!("{line} : Timed out after 0.5 seconds").as_str()));
    assert_eq!(all.get("retcode"), Some(&1.into()));
    let child = std::fs::read_to_string(file.path()).unwrap().trim().parse().unwrap();
    until_gone(child);
}

/// Runs a command that writes its shell's process id, and returns that id once it is there.
fn running(ctx: &Context, line: &str) -> (JoinHandle<exec::Result<Value>>, i32) {
    let file = tempfile::NamedTempFile::new().unwrap();
    // Renamed into place, so that the reader never sees a file without the number.
    let line = format!("echo $$ > {}.tmp; mv {0}.tmp {0}; {line}", file.path().display());
    let inner = ctx.clone();
    let thread = std::thread::spawn(move || exec::caught(|| call(&inner, "cmd.run", line, map! {})));
    let pid = until(|| std::fs::read_to_string(file.path()).unwrap_or_default().trim().parse().ok());
    (thread, pid)
}

#[test]
fn a_killed_job_takes_its_processes_along() {
    let ctx = operator();
    // The shell ignores SIGTERM, so only the SIGKILL after the grace period can end it.
    let (thread, pid) = running(&ctx, "trap '' TERM; sleep 600 & wait");
    assert_eq!(ctx.job.children(), [pid]);
    ctx.job.cancel.cancel();
    assert!(matches!(thread.join().unwrap(), Err(exec::Error::Terminated)));
    until_gone(pid);
    assert!(ctx.job.children().is_empty());
}

#[test]
fn a_command_in_the_background_runs_on() {
    let ctx = operator();
    let file = tempfile::NamedTempFile::new().unwrap();
    let line = format!("sleep 0.05; echo done > {}", file.path().display());
    let map = call(&ctx, "cmd.run_bg", line, map! {}).unwrap().into_map().unwrap();
    assert_eq!(map.text_keys().collect::<Vec<_>>(), ["pid"]);
    until(|| (std::fs::read_to_string(file.path()).unwrap() == "done\n").then_some(()));
    let all = call(&ctx, "cmd.run_all", "true", map! { "bg" => true }).unwrap();
    assert_eq!(all.get("retcode"), Some(&Value::Null));
}

#[test]
#[ignore = "needs root: only root can become another user"]
fn another_user_has_its_own_ids_and_home() {
    let ctx = operator();
    let kwargs = || map! { "runas" => "nobody" };
    assert_eq!(call(&ctx, "cmd.run", "id -un; id -G", kwargs()).unwrap(), "nobody\n65534".into());
    assert_eq!(call(&ctx, "cmd.run", "echo $USER", kwargs()).unwrap(), "nobody".into());
    let grouped = call(&ctx, "cmd.run", "id -gn", map! { "group" => "daemon" }).unwrap();
    assert_eq!(grouped, "daemon".into());
}

#[test]
fn code_runs_in_its_language() {
    let ctx = operator();
    let call_code = Call { args: vec!["bash".into(), "echo $1; exit 3".into()], kwargs: map! { "args" => "hi" } };
    let all = ctx.agent.clone().registry().call(&ctx, "cmd.exec_code_all", call_code.clone()).unwrap();
    assert_eq!((all.get("stdout"), all.get("retcode")), (Some(&"hi".into()), Some(&3.into())));
    assert_eq!(ctx.agent.clone().registry().call(&ctx, "cmd.exec_code", call_code).unwrap(), "hi".into());
}

#[test]
fn terminals_are_named_by_their_short_names() {
    let ctx = operator();
    let refused = call(&ctx, "cmd.tty", "sda", map! {}).unwrap();
    assert_eq!(refused, map! { "Error" => "The specified device is not a valid TTY" }.into());
    // No such terminal exists, so nothing is written to the screen of the user who runs the tests.
    let away = call(&ctx, "cmd.tty", "pts99999", map! {}).unwrap();
    assert_eq!(away, map! { "Error" => "Echoing to /dev/pts/99999 returned error" }.into());
}

#[test]
fn nothing_is_lost_however_long_it_takes() {
    let ctx = operator();
    let all = |line: &str| {
        let all = call(&ctx, "cmd.run_all", line, map! {}).unwrap().into_map().unwrap();
        let text = |name| all.get_str(name).unwrap_or_default().to_owned();
        (text("stdout"), text("stderr"), all.get("retcode").cloned())
    };
    assert_eq!(all("echo a; echo b >&2; exit 3"), ("a".into(), "b".into(), Some(3.into())));
    let late = "echo a; sleep 0.1; echo b; echo c >&2; sleep 0.1; exit 4";
    assert_eq!(all(late), ("a\nb".into(), "c".into(), Some(4.into())));
    // End of file on both pipes does not mean that the process has ended.
    let closed = "exec >&- 2>&-; sleep 0.1; exit 5";
    assert_eq!(all(closed), (String::new(), String::new(), Some(5.into())));
    let (out, err, code) = all("head -c 300000 /dev/zero | tr '\\0' x; head -c 200000 /dev/zero | tr '\\0' y >&2");
    assert_eq!((out.len(), err.len(), code), (300_000, 200_000, Some(0.into())));
}
