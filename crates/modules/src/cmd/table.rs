//! The table entries of the functions that run commands.
//!
//! They share some thirty arguments, so they are written as tables of names and defaults, in Salt's order, and read by
//! name in [`super::options`]; a plain signature each would say the same thing twelve times.

use exec::{Body, Function, Param};
use value::Value;

use super::calls;
use super::options::{CallArgs, default_shell};

/// Makes the list of parameters: names, with defaults unless they must be given.
macro_rules! params {
    ($($name:literal $(= $default:expr)?),* $(,)?) => {
        &[$(Param { name: $name, default: params!(@default $($default)?), keyword_only: false }),*]
    };
    // The default is a function, because a `Value` cannot be built in a constant.
    (@default) => { None };
    (@default $default:expr) => { Some(|| Value::from($default)) };
}

/// Makes the entry of one function: its constant, name, implementation, documentation, parameters.
macro_rules! entry {
    ($constant:ident, $name:literal, $call:path, $doc:expr, [$($params:tt)*]) => {
        #[doc = concat!("The table entry of `", $name, "`.")]
        pub static $constant: Function = Function {
            name: $name,
            doc: $doc,
            params: params![$($params)*],
            varargs: None,
            kwargs: Some("kwargs"),
            out: None,
            // The entry names itself, since the names of the parameters are in it.
            body: Body::Plain(|ctx, bound| $call(ctx, CallArgs::of(&$constant, bound))),
        };
    };
}

/// The arguments that all functions that run a command share.
macro_rules! arguments {
    () => {
        "
cwd
    Directory to start in.
runas, group
    User and group to run as, with the environment of that user's login.
shell, python_shell
    The shell (by default the one that the environment variable ``SHELL`` of the minion names, else /bin/sh), and
    whether the line goes through it.
env, clean_env, prepend_path
    Variables to add, whether to begin with none, directories to search first.
stdin
    Text to feed; ``\\n`` becomes a new line unless ``stdin_raw_newlines`` is set.
timeout
    Seconds after which the command and all it started are killed.
umask, rstrip, output_encoding
    File mode mask, whether white space at the end of the output goes, how the output is encoded.
ignore_retcode, success_retcodes, success_stdout, success_stderr
    What counts as success.
output_loglevel, hide_output
    Level the output is logged at (``quiet``: nothing at all is logged), and whether it is left out of the return.
reset_system_locale
    Whether messages are to be in English (the default).
template
    Template engine for the command. Only text that needs no rendering is accepted.
"
    };
}

entry!(
    RUN,
    "run",
    calls::run,
    concat!(
        "Runs a command and returns what it wrote, stderr included.

The line goes through the shell when an operator calls this, and is only split into words when another function
does; ``python_shell`` decides otherwise. Without ``cwd`` it starts in the home directory of the user it runs as.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.run 'ls -l /srv | wc -l'
    salt '*' cmd.run 'make check' cwd=/srv/app runas=builder timeout=600
    salt '*' cmd.run 'sort' stdin='b\\na\\n'
"
    ),
    [
        "cmd",
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "python_shell" = Value::Null,
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "rstrip" = true,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "log_callback" = Value::Null,
        "hide_output" = false,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "redirect_stderr" = true,
        "bg" = false,
        "password" = Value::Null,
        "encoded_cmd" = false,
        "raise_err" = false,
        "prepend_path" = Value::Null,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    RUN_STDOUT,
    "run_stdout",
    calls::run_stdout,
    concat!(
        "Runs a command and returns what it wrote to stdout alone.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.run_stdout 'lsblk --json'
"
    ),
    [
        "cmd",
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "python_shell" = Value::Null,
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "rstrip" = true,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "log_callback" = Value::Null,
        "hide_output" = false,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "password" = Value::Null,
        "prepend_path" = Value::Null,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    RUN_STDERR,
    "run_stderr",
    calls::run_stderr,
    concat!(
        "Runs a command and returns what it wrote to stderr alone.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.run_stderr 'nginx -t'
"
    ),
    [
        "cmd",
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "python_shell" = Value::Null,
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "rstrip" = true,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "log_callback" = Value::Null,
        "hide_output" = false,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "password" = Value::Null,
        "prepend_path" = Value::Null,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    RUN_ALL,
    "run_all",
    calls::run_all,
    concat!(
        "Runs a command and returns its process id, exit code, stdout and stderr.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.run_all 'systemctl is-active cron'
"
    ),
    [
        "cmd",
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "python_shell" = Value::Null,
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "rstrip" = true,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "log_callback" = Value::Null,
        "hide_output" = false,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "redirect_stderr" = false,
        "password" = Value::Null,
        "encoded_cmd" = false,
        "prepend_path" = Value::Null,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    RUN_BG,
    "run_bg",
    calls::run_bg,
    concat!(
        "Starts a command, leaves it running and returns its process id. Its output is lost.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.run_bg '/usr/local/bin/reindex' output_loglevel=quiet
"
    ),
    [
        "cmd",
        "cwd" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "python_shell" = Value::Null,
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "umask" = Value::Null,
        "timeout" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "log_callback" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "password" = Value::Null,
        "prepend_path" = Value::Null,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    RUN_CHROOT,
    "run_chroot",
    calls::run_chroot,
    concat!(
        "Runs a command in another root directory.

``dev``, ``proc`` and ``sys`` are mounted there first, and the directories in ``binds`` as well; afterwards
processes that still run in it are ended and everything is unmounted.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.run_chroot /mnt/image 'apt-get update'
"
    ),
    [
        "root",
        "cmd",
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "python_shell" = true,
        "binds" = Value::Null,
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "rstrip" = true,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "quiet",
        "log_callback" = Value::Null,
        "hide_output" = false,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "bg" = false,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    RETCODE,
    "retcode",
    calls::retcode,
    concat!(
        "Runs a command and returns its exit code.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.retcode 'test -e /etc/motd'
"
    ),
    [
        "cmd",
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "python_shell" = Value::Null,
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "log_callback" = Value::Null,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "password" = Value::Null,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    SHELL,
    "shell",
    calls::shell,
    concat!(
        "Runs a command through the shell, whoever calls, and returns what it wrote.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.shell 'dmesg | tail -n 3'
"
    ),
    [
        "cmd",
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "rstrip" = true,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "log_callback" = Value::Null,
        "hide_output" = false,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "bg" = false,
        "password" = Value::Null,
        "prepend_path" = Value::Null,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    SCRIPT,
    "script",
    calls::script,
    concat!(
        "Fetches a script from the master or elsewhere, runs it here and returns what ``cmd.run_all`` would.

The script lies in a temporary file that only the user it runs as can read, and is removed afterwards.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.script salt://scripts/check.sh
    salt '*' cmd.script salt://scripts/check.sh args='--fast \"my disk\"' cwd=/srv
"
    ),
    [
        "source",
        "args" = Value::Null,
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "python_shell" = Value::Null,
        "env" = Value::Null,
        "template" = Value::Null,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "log_callback" = Value::Null,
        "hide_output" = false,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "bg" = false,
        "password" = Value::Null,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    SCRIPT_RETCODE,
    "script_retcode",
    calls::script_retcode,
    concat!(
        "Fetches a script as ``cmd.script`` does, runs it and returns its exit code.
",
        arguments!(),
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.script_retcode salt://scripts/check.sh
"
    ),
    [
        "source",
        "args" = Value::Null,
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "group" = Value::Null,
        "shell" = default_shell(),
        "python_shell" = Value::Null,
        "env" = Value::Null,
        "template" = "jinja",
        "umask" = Value::Null,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "saltenv" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "log_callback" = Value::Null,
        "use_vt" = false,
        "password" = Value::Null,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    POWERSHELL,
    "powershell",
    calls::refuse_powershell,
    concat!(
        "Runs a PowerShell command on Windows. Refused here.
",
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.powershell 'Get-Process'
"
    ),
    [
        "cmd",
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "shell" = "powershell",
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "rstrip" = true,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "hide_output" = false,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "password" = Value::Null,
        "depth" = Value::Null,
        "encode_cmd" = false,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);

entry!(
    POWERSHELL_ALL,
    "powershell_all",
    calls::refuse_powershell,
    concat!(
        "Runs a PowerShell command on Windows and returns everything about it. Refused here.
",
        "
CLI Example:

.. code-block:: bash

    salt '*' cmd.powershell_all 'Get-Process'
"
    ),
    [
        "cmd",
        "cwd" = Value::Null,
        "stdin" = Value::Null,
        "runas" = Value::Null,
        "shell" = "powershell",
        "env" = Value::Null,
        "clean_env" = false,
        "template" = Value::Null,
        "rstrip" = true,
        "umask" = Value::Null,
        "output_encoding" = Value::Null,
        "output_loglevel" = "debug",
        "quiet" = false,
        "timeout" = Value::Null,
        "reset_system_locale" = true,
        "ignore_retcode" = false,
        "saltenv" = Value::Null,
        "use_vt" = false,
        "password" = Value::Null,
        "depth" = Value::Null,
        "encode_cmd" = false,
        "force_list" = false,
        "success_retcodes" = Value::Null,
        "success_stdout" = Value::Null,
        "success_stderr" = Value::Null
    ]
);
