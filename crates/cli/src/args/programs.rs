//! The flags of each program. The parser, the help and the completion use this one table.

use super::option::{Flag, Group, Kind, Preset};

/// The programs that `saltern` can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `salt`: runs functions on minions.
    Salt,
    /// `salt-key`: manages minion keys.
    SaltKey,
    /// `salt-call`: runs a function on this machine.
    SaltCall,
    /// `salt-run`: runs a runner on the master.
    SaltRun,
    /// `salt-cp`: copies files to minions.
    SaltCp,
    /// `salt-api`: the HTTP interface of the master.
    SaltApi,
    /// `salt-master`: the master daemon.
    SaltMaster,
    /// `salt-minion`: the minion daemon.
    SaltMinion,
}

impl Program {
    /// All programs, in the order of the overview.
    pub const ALL: [Program; 8] = [
        Program::Salt,
        Program::SaltKey,
        Program::SaltCall,
        Program::SaltRun,
        Program::SaltCp,
        Program::SaltApi,
        Program::SaltMaster,
        Program::SaltMinion,
    ];

    /// Returns the program of a name such as `salt-key`.
    pub fn from_name(name: &str) -> Option<Program> {
        Program::ALL.into_iter().find(|program| program.name() == name)
    }

    /// Returns the name that a user types.
    pub fn name(self) -> &'static str {
        match self {
            Program::Salt => "salt",
            Program::SaltKey => "salt-key",
            Program::SaltCall => "salt-call",
            Program::SaltRun => "salt-run",
            Program::SaltCp => "salt-cp",
            Program::SaltApi => "salt-api",
            Program::SaltMaster => "salt-master",
            Program::SaltMinion => "salt-minion",
        }
    }

    /// Returns the part of the usage line after the name.
    pub fn usage(self) -> &'static str {
        match self {
            Program::Salt => "[options] '<target>' <function> [arguments]",
            Program::SaltCall | Program::SaltRun => "[options] <function> [arguments]",
            Program::SaltCp => "[options] '<target>' SOURCE DEST",
            Program::SaltKey | Program::SaltApi | Program::SaltMaster | Program::SaltMinion => "[options]",
        }
    }

    /// Returns a sentence about the program's purpose.
    pub fn about(self) -> &'static str {
        match self {
            Program::Salt => "Runs a function on many minions at once and prints what they return.",
            Program::SaltKey => "Lists, accepts, rejects, deletes and prints the keys of minions.",
            Program::SaltCall => "Runs a function on this machine, as its minion would.",
            Program::SaltRun => "Runs a runner: a function that works on the master itself.",
            Program::SaltCp => "Copies files from the master's host to minions.",
            Program::SaltApi => "The HTTP interface: lets clients log in and command the master on this host.",
            Program::SaltMaster => "The master: commands minions, serves files and pillar, keeps returns.",
            Program::SaltMinion => "The minion: carries out what its masters ask, any number of them at once.",
        }
    }

    /// Returns the name of the configuration file below the configuration directory.
    pub fn config_file(self) -> &'static str {
        // All others read the master's configuration, since they run on its host.
        match self {
            Program::SaltCall | Program::SaltMinion => "minion",
            _ => "master",
        }
    }

    /// Returns the flags, grouped as the help shows them.
    pub fn groups(self) -> Vec<Group> {
        match self {
            Program::Salt => salt_groups(),
            Program::SaltKey => key_groups(),
            Program::SaltCall => call_groups(),
            Program::SaltRun => run_groups(),
            Program::SaltCp => cp_groups(),
            Program::SaltApi | Program::SaltMaster | Program::SaltMinion => daemon_groups(self),
        }
    }
}

// === flags ===

const LEVELS: &[&str] =
    &["all", "debug", "error", "critical", "garbage", "info", "profile", "quiet", "trace", "warning"];
// Salt's order for the log file's level, which its errors show; the console has the one above.
const SORTED_LEVELS: &[&str] =
    &["all", "garbage", "trace", "debug", "profile", "info", "warning", "error", "critical", "quiet"];
const TARGET_TYPES: &[&str] = &["glob", "list", "compound", "grain", "grain_pcre", "pcre"];

const FIRST: [Flag; 5] = [
    Flag::on(&["--version"], "version", "Print name and version, then stop.").kind(Kind::Version),
    Flag::on(&["-V", "--versions-report"], "versions_report", "Print the versions of all parts, then stop."),
    Flag::on(&["-h", "--help"], "help", "Print this text, then stop.").kind(Kind::Help),
    Flag::text(
        &["--saltfile"],
        "saltfile",
        "A file with default flags per program. Without this flag: Saltfile in the working directory, then \
         ~/.salt/Saltfile.",
    ),
    Flag::text(&["-c", "--config-dir"], "config_dir", "The directory of the configuration. Default: {default}.")
        .preset(Preset::Text("/etc/salt")),
];

const HARD_CRASH: Flag = Flag::on(
    &["--hard-crash"],
    "hard_crash",
    "Accepted for scripts that pass it: errors are always shown with their whole chain.",
);
const ARGS_STDIN: Flag =
    Flag::on(&["--args-stdin"], "args_stdin", "Read more flags and arguments from standard input, one per line.");
const NO_PARSE: Flag = Flag::text(
    &["--no-parse"],
    "no_parse",
    "Names of keyword arguments, separated by commas, whose values stay text instead of being read as YAML.",
)
.preset(Preset::Text(""))
.value_name("argname1,argname2,...");
const EXECUTORS: [Flag; 2] = [
    Flag::text(&["--module-executors"], "module_executors", "The chain of executors the function runs through.")
        .value_name("EXECUTOR_LIST"),
    Flag::text(&["--executor-opts"], "executor_opts", "Options for these executors.").value_name("EXECUTOR_OPTS"),
];
const OUTPUT_DIFF: Flag =
    Flag::on(&["--output-diff"], "state_output_diff", "Show only the states that changed something.");
const DOC: &[&str] = &["-d", "--doc", "--documentation"];

const fn timeout(setting: &'static str, seconds: i64) -> Flag {
    Flag::int(&["-t", "--timeout"], setting, Preset::Int(seconds), "Seconds to wait. Default: {default}.")
        .value_name("TIMEOUT")
}

const SALT: [Flag; 25] = [
    Flag::on(&["-s", "--static"], "static", "Print all returns together when the last one is there."),
    Flag::on(&["-p", "--progress"], "progress", "Show a progress bar on the error output while returns come in."),
    Flag::on(
        &["--state-events"],
        "state_events",
        "During a run of states, show for each minion on the error output how far it is. Minions of Saltern only.",
    ),
    Flag::on(&["--failhard"], "failhard", "In a batch: stop at the first bad return."),
    Flag::on(&["--async"], "async", "Print the job id and stop, without waiting for returns."),
    Flag::text(
        &["--hold"],
        "job_hold",
        "Keep the job for minions that are away and wait for them: seconds, or a number with s, m, h or d, as in 10m. \
         Needs a master of Saltern; 0 holds nothing. Default: the option job_hold.",
    )
    .value_name("TIME"),
    Flag::int(
        &["--subset"],
        "subset",
        Preset::Int(0),
        "Run on so many of the targeted minions, picked at random among those that have the function.",
    ),
    Flag::on(&["-v", "--verbose"], "verbose", "Print the job id and the questions about running jobs."),
    Flag::off(&["--hide-timeout"], "show_timeout", "Say nothing of minions that did not answer."),
    Flag::on(&["--show-jid"], "show_jid", "Print the job id, without the rest of --verbose."),
    Flag::text(
        &["-b", "--batch", "--batch-size"],
        "batch",
        "Run on so many minions at a time; a number or a percentage.",
    )
    .preset(Preset::Text("")),
    Flag::text(
        &["--batch-wait"],
        "batch_wait",
        "Seconds to wait after each return before its place is given to the next minion.",
    )
    .kind(Kind::Float)
    .preset(Preset::Int(0)),
    Flag::int(
        &["--batch-safe-limit"],
        "batch_safe_limit",
        Preset::Int(0),
        "Run in batches by itself when at least so many minions are targeted.",
    ),
    Flag::text(&["--batch-safe-size"], "batch_safe_size", "The size of these batches.").preset(Preset::Int(8)),
    Flag::text(&["--return"], "return", "Returners the minions send their results to, besides the master.")
        .preset(Preset::Text(""))
        .value_name("RETURNER"),
    Flag::text(&["--return_config"], "return_config", "Another configuration for the returner.")
        .preset(Preset::Text(""))
        .value_name("RETURNER_CONF"),
    Flag::text(&["--return_kwargs"], "return_kwargs", "Keyword arguments for the returner.")
        .preset(Preset::EmptyMap)
        .value_name("RETURNER_KWARGS"),
    Flag::on(DOC, "doc", "Print the documentation of a function, a module, or all of them."),
    Flag::text(
        &["--args-separator"],
        "args_separator",
        "What separates the arguments of several functions. Default: {default}.",
    )
    .preset(Preset::Text(",")),
    Flag::on(&["--summary"], "cli_summary", "Print how many minions were targeted, answered and kept silent."),
    Flag::text(&["--metadata"], "metadata", "Data attached to the job, to find it later.").preset(Preset::Text("")),
    Flag::on(&["--start-event"], "start_event", "Ask each minion for an event before it runs the job."),
    OUTPUT_DIFF,
    Flag::on(&["--config-dump"], "config_dump", "Print the effective configuration of the master, then stop."),
    Flag::on(&["--preview-target"], "preview_target", "Print the minions that would be targeted and send nothing."),
];

const TARGETS: [Flag; 7] = [
    Flag::on(&["-H", "--hosts"], "list_hosts", "List the hosts of the roster, then stop; meant for salt-ssh."),
    Flag::on(&["-E", "--pcre"], "pcre", "The target is a regular expression on minion ids."),
    Flag::on(&["-L", "--list"], "list", "The target is a list of minion ids, separated by commas or blanks."),
    Flag::on(&["-G", "--grain"], "grain", "The target is a grain and a glob for its value: 'os:Deb*'."),
    Flag::on(&["-P", "--grain-pcre"], "grain_pcre", "The target is a grain and a regular expression: 'os:Deb.*'."),
    Flag::on(&["-N", "--nodegroup"], "nodegroup", "The target is a node group of the master's configuration."),
    Flag::on(&["-R", "--range"], "range", "The target is a range expression."),
];

const MORE_TARGETS: [Flag; 4] = [
    Flag::on(
        &["-C", "--compound"],
        "compound",
        "The target combines several kinds: 'G@os:Debian and web* or E@db[0-9]+'.",
    ),
    Flag::on(&["-I", "--pillar"], "pillar_target", "The target is a pillar key and a glob for its value."),
    Flag::on(&["-J", "--pillar-pcre"], "pillar_pcre", "The target is a pillar key and a regular expression."),
    Flag::on(&["-S", "--ipcidr"], "ipcidr", "The target is an address or a network."),
];

const DELIMITER: [Flag; 1] = [Flag::text(
    &["--delimiter"],
    "delimiter",
    "What separates the keys of nested grains and pillar. Default: '{default}'.",
)
.preset(Preset::Text(":"))];

const EAUTH: [Flag; 4] = [
    Flag::text(
        &["-a", "--auth", "--eauth", "--external-auth"],
        "eauth",
        "Log in with this backend of the master's external_auth.",
    )
    .preset(Preset::Text("")),
    Flag::on(&["-T", "--make-token"], "mktoken", "Keep a token of the login, for later commands."),
    Flag::text(&["--username"], "username", "The user of the login. Asked for if it is missing."),
    Flag::text(
        &["--password"],
        "password",
        "The password of the login. All users of this host can see it here; better is a file (SALT_PASSWORD_FILE), or to be asked.",
    ),
];

const OUTPUT: [Flag; 8] = [
    Flag::text(
        &["--out", "--output"],
        "output",
        "How to print: nested, highstate, json, yaml, txt, raw, pprint, table, key, quiet, newline_values_only, no_return, progress.",
    ),
    Flag::int(
        &["--out-indent", "--output-indent"],
        "output_indent",
        Preset::Unset,
        "The indentation in blanks; negative for none, where the form allows it.",
    ),
    Flag::text(&["--out-file", "--output-file"], "output_file", "Write to this file instead of the screen."),
    Flag::on(&["--out-file-append", "--output-file-append"], "output_file_append", "Append to that file."),
    Flag::on(&["--no-color", "--no-colour"], "no_color", "No colours."),
    Flag::on(&["--force-color", "--force-colour"], "force_color", "Colours, even if the output is no terminal."),
    Flag::text(
        &["--state-output", "--state_output"],
        "state_output",
        "How much of each state to show: full, terse, mixed, changes or filter.",
    ),
    Flag::text(&["--state-verbose", "--state_verbose"], "state_verbose", "False hides states that changed nothing."),
];

const LOG_FILE: [Flag; 2] = [
    Flag::text(&["--log-file"], "log_file", "The log file."),
    Flag::text(&["--log-file-level"], "log_level_logfile", "The level of the log file.")
        .kind(Kind::Choice(SORTED_LEVELS)),
];
const LOG_LEVEL: &str = "The level of the messages on the console. Default: warning.";

const KEY: [Flag; 4] = [
    Flag::on(&["-q", "--quiet"], "quiet", "Print less."),
    Flag::on(&["-y", "--yes"], "yes", "Do not ask."),
    Flag::text(
        &["--rotate-aes-key"],
        "rotate_aes_key",
        "False keeps the master's session key when keys are deleted or rejected: less safe, no wave of new logins. \
         Default: {default}.",
    )
    .preset(Preset::Flag(true)),
    Flag::text(
        &["--preserve-minions"],
        "preserve_minions",
        "True keeps the cached data of minions whose key is deleted. Default: {default}.",
    )
    .preset(Preset::Flag(false)),
];

const KEY_ACTIONS: [Flag; 16] = [
    Flag::text(
        &["-l", "--list"],
        "list",
        "List keys: pre, un or unaccepted; acc or accepted; rej or rejected; den or denied; all.",
    )
    .preset(Preset::Text(""))
    .value_name("ARG"),
    Flag::on(&["-L", "--list-all"], "list_all", "List all keys; what happens without any action."),
    Flag::text(&["-a", "--accept"], "accept", "Accept pending keys that match the glob.").preset(Preset::Text("")),
    Flag::on(&["-A", "--accept-all"], "accept_all", "Accept all pending keys."),
    Flag::text(&["-r", "--reject"], "reject", "Reject pending keys that match the glob.").preset(Preset::Text("")),
    Flag::on(&["-R", "--reject-all"], "reject_all", "Reject all pending keys."),
    Flag::on(&["--include-all"], "include_all", "The same as --include-rejected and --include-accepted."),
    Flag::on(&["--include-accepted"], "include_accepted", "Let reject match accepted keys as well."),
    Flag::on(&["--include-rejected"], "include_rejected", "Let accept match rejected keys as well."),
    Flag::on(&["--include-denied"], "include_denied", "Let accept and reject match denied keys as well."),
    Flag::text(&["-p", "--print"], "print", "Print the public keys that match the glob.").preset(Preset::Text("")),
    Flag::on(&["-P", "--print-all"], "print_all", "Print all public keys."),
    Flag::text(&["-d", "--delete"], "delete", "Delete the keys that match the glob.").preset(Preset::Text("")),
    Flag::on(&["-D", "--delete-all"], "delete_all", "Delete all keys."),
    Flag::text(&["-f", "--finger"], "finger", "Print the fingerprints of the keys that match the glob.")
        .preset(Preset::Text("")),
    Flag::on(&["-F", "--finger-all"], "finger_all", "Print all fingerprints, those of the master too."),
];

const KEY_GENERATION: [Flag; 8] = [
    Flag::text(&["--gen-keys"], "gen_keys", "Make a key pair with this name.").preset(Preset::Text("")),
    Flag::text(&["--gen-keys-dir"], "gen_keys_dir", "Where to put it. Default: '{default}'.").preset(Preset::Text(".")),
    Flag::int(&["--keysize"], "keysize", Preset::Int(2048), "Its size in bits, 2048 or more. Default: {default}."),
    Flag::on(
        &["--gen-signature"],
        "gen_signature",
        "Write the signature of the master's public key to a file, to be sent at each login.",
    ),
    Flag::text(&["--priv"], "priv", "The private key to sign with.").preset(Preset::Text("")),
    Flag::text(&["--signature-path"], "signature_path", "Where to write the signature.").preset(Preset::Text("")),
    Flag::text(&["--pub"], "pub", "The public key to sign.").preset(Preset::Text("")),
    Flag::on(&["--auto-create"], "auto_create", "Make the signing key pair if there is none."),
];

const CALL: [Flag; 21] = [
    Flag::on(&["-g", "--grains"], "grains_run", "Print the grains."),
    Flag::text(&["-m", "--module-dirs"], "module_dirs", "One more directory with modules; may be repeated.")
        .kind(Kind::Append)
        .preset(Preset::EmptyList),
    Flag::on(DOC, "doc", "Print the documentation of a function, a module, or all of them."),
    Flag::text(&["--master"], "master", "Use this master; without it the first of the configured ones that answers.")
        .preset(Preset::Text("")),
    Flag::text(&["--return"], "return", "Returners to send the result to.")
        .preset(Preset::Text(""))
        .value_name("RETURNER"),
    Flag::on(&["--local"], "local", "Ask no master: files and pillar come from this machine."),
    Flag::text(&["--file-root"], "file_root", "The file root of this call; may be repeated.").kind(Kind::Append),
    Flag::text(&["--pillar-root"], "pillar_root", "The pillar root of this call; may be repeated.").kind(Kind::Append),
    Flag::text(&["--states-dir"], "states_dir", "One more directory with states; may be repeated.").kind(Kind::Append),
    Flag::on(&["--retcode-passthrough"], "retcode_passthrough", "Exit with the return code of the function."),
    Flag::on(&["--metadata"], "print_metadata", "Print return code and outputter along with the result."),
    Flag::text(&["--set-metadata"], "metadata", "Data attached to the job, to find it later."),
    Flag::text(&["--id"], "id", "Act as this minion.").preset(Preset::Text("")),
    Flag::on(&["--skip-grains"], "skip_grains", "Do not load the grains."),
    Flag::on(&["--refresh-grains-cache"], "refresh_grains_cache", "Rebuild the cache of grains first."),
    Flag::on(&["--no-return-event"], "no_return_event", "Do not tell the master about the result."),
    timeout("auth_timeout", 60),
    OUTPUT_DIFF,
    Flag::text(&["--priv"], "user", "Run as this user."),
    Flag::on(&["-r", "--resources"], "resources_dispatch", "Run on managed resources too (not supported yet)."),
    Flag::text(&["--tgt"], "resources_tgt", "Which resources.").preset(Preset::Text("*")).value_name("TGT"),
];

const CALL_TGT_TYPE: Flag = Flag::text(&["--tgt-type"], "resources_tgt_type", "How resources are matched.")
    .kind(Kind::Choice(TARGET_TYPES))
    .preset(Preset::Text("glob"))
    .value_name("TYPE");

const PROFILING: [Flag; 2] = [
    Flag::text(&["--profiling-path"], "profiling_path", "Where profiling data go. Default: '{default}'.")
        .preset(Preset::Text("/tmp/stats")),
    Flag::on(
        &["--enable-profiling"],
        "profiling_enabled",
        "Write profiling data (not supported: use a system profiler).",
    ),
];

const RUN: [Flag; 4] = [
    Flag::text(&["--jid"], "jid", "Use this job id."),
    Flag::on(DOC, "doc", "Print the documentation of a runner, or of all."),
    Flag::on(&["--async"], "async", "Start the runner and stop, without waiting."),
    Flag::on(&["--skip-grains"], "skip_grains", "Do not load the grains."),
];

const DAEMON: [Flag; 3] = [
    Flag::on(&["-d", "--daemon"], "daemon", "Go to the background."),
    Flag::text(&["--pid-file"], "pidfile", "The file for the process id. Default: '{default}'."),
    Flag::on(
        &["--disable-keepalive"],
        "disable_keepalive",
        "Accepted for units that pass it: {prog} never restarts itself, the service manager does.",
    ),
];

// === groups ===

fn first_group(flags: impl IntoIterator<Item = Flag>) -> Group {
    Group { title: "", about: "", flags: FIRST.into_iter().chain(flags).collect() }
}

fn group(title: &'static str, about: &'static str, flags: impl IntoIterator<Item = Flag>) -> Group {
    Group { title, about, flags: flags.into_iter().collect() }
}

fn output_group(more: impl IntoIterator<Item = Flag>) -> Group {
    group("Output Options", "How results are printed.", OUTPUT.into_iter().chain(more))
}

fn eauth_group() -> Group {
    group("External Authentication", "", EAUTH)
}

fn log_group(names: &'static [&'static str], file_setting: &'static str) -> Group {
    let level = Flag::text(names, "log_level", LOG_LEVEL).kind(Kind::Choice(LEVELS));
    let mut flags = vec![level];
    flags.extend(LOG_FILE);
    // Salt gives `salt-key` a separate log file (`key_logfile`).
    flags[1].setting = file_setting;
    group("Logging Options", "They win over the configuration.", flags)
}

fn salt_groups() -> Vec<Group> {
    let general = EXECUTORS.into_iter().chain([timeout("timeout", 5), ARGS_STDIN, HARD_CRASH, NO_PARSE]).chain(SALT);
    vec![
        first_group(general),
        group("Target Options", "How the target is read.", TARGETS.into_iter().chain(MORE_TARGETS)),
        group("Additional Target Options", "", DELIMITER),
        eauth_group(),
        output_group([]),
        log_group(&["-l", "--log-level"], "log_file"),
    ]
}

fn key_groups() -> Vec<Group> {
    let user = Flag::text(&["-u", "--user"], "user", "Run as this user.");
    let mut eauth = eauth_group();
    // `-a` means accept here.
    eauth.flags[0].names = &eauth.flags[0].names[1..];
    vec![
        first_group([user, HARD_CRASH].into_iter().chain(KEY)),
        eauth,
        output_group([]),
        group("Actions", "", KEY_ACTIONS),
        group("Key Generation Options", "", KEY_GENERATION),
        log_group(&["--log-level"], "key_logfile"),
    ]
}

fn call_groups() -> Vec<Group> {
    let proxy = Flag::text(&["--proxyid"], "proxyid", "Act as this proxy minion (not supported yet).");
    let cache = Flag::text(&["--cachedir"], "cachedir", "The cache directory of this call.");
    let general = EXECUTORS
        .into_iter()
        .chain([ARGS_STDIN, HARD_CRASH, NO_PARSE, proxy, cache])
        .chain(CALL)
        .chain([CALL_TGT_TYPE]);
    vec![
        first_group(general),
        output_group([]),
        group("Profiling support", "", PROFILING),
        log_group(&["-l", "--log-level"], "log_file"),
    ]
}

fn run_groups() -> Vec<Group> {
    let general = [timeout("timeout", 1), ARGS_STDIN, HARD_CRASH, NO_PARSE].into_iter().chain(RUN);
    vec![
        first_group(general),
        eauth_group(),
        output_group([Flag::on(&["--quiet"], "quiet", "Print no result.")]),
        group("Profiling support", "", PROFILING),
        log_group(&["-l", "--log-level"], "log_file"),
    ]
}

fn cp_groups() -> Vec<Group> {
    let files = [
        Flag::on(
            &["-C", "--chunked"],
            "chunked",
            "Send in pieces: for large files, for whole directories, and to make missing directories.",
        ),
        Flag::off(&["-n", "--no-compression"], "gzip", "Do not compress the pieces."),
    ];
    vec![
        first_group([timeout("timeout", 5), HARD_CRASH]),
        group("Target Options", "How the target is read.", TARGETS),
        group("Additional Target Options", "", DELIMITER),
        group("File Options", "", files),
        output_group([]),
        log_group(&["-l", "--log-level"], "log_file"),
    ]
}

fn daemon_groups(program: Program) -> Vec<Group> {
    let user = Flag::text(&["-u", "--user"], "user", "Run as this user.");
    let mut daemon = DAEMON;
    let pid_file = match program {
        Program::SaltApi => "/var/run/salt-api.pid",
        Program::SaltMaster => "/var/run/salt-master.pid",
        _ => "/var/run/salt-minion.pid",
    };
    daemon[1].preset = Preset::Text(pid_file);
    let mut log_file = "log_file";
    if program == Program::SaltApi {
        // It reads the master's configuration, where these names belong to the master.
        daemon[1].setting = "api_pidfile";
        log_file = "api_logfile";
    }
    vec![first_group([user].into_iter().chain(daemon)), log_group(&["-l", "--log-level"], log_file)]
}
