//! Chooses the program: by the name that `saltern` was called by, or by its first argument.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::args::{self, OWN_WORDS, Parsed, Program, Stop};
use crate::terminal::{print, usage_error};
use crate::{complete, demo, elsewhere, exit_codes, hint, ldap, link, pam, swarm, version, wheel};

/// Runs the command line; its first word is the name of the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words = Vec::new();
    for argument in arguments {
        match argument.into_string() {
            Ok(word) => words.push(word),
            // Salt decodes such arguments with surrogate escapes. Here ids and options are valid UTF-8 everywhere.
            Err(argument) => return fail(&format!("the argument {argument:?} is not valid UTF-8"), exit_codes::USAGE),
        }
    }
    let called =
        words.first().map(|name| Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned());
    let rest = words.split_off(words.len().min(1));
    let called = called.as_deref().unwrap_or_default();
    if let Some(sentence) = elsewhere::sentence(called) {
        return fail(&sentence, exit_codes::UNAVAILABLE);
    }
    match Program::from_name(called) {
        Some(program) => run(program, rest),
        None => own(rest),
    }
}

/// Runs what `saltern` does under its own name.
fn own(mut words: Vec<String>) -> ExitCode {
    let rest = words.split_off(words.len().min(1));
    let Some(first) = words.pop() else {
        print(&overview());
        return ExitCode::SUCCESS;
    };
    // Before the words of `saltern` itself: `saltern salt --help` is the help of `salt`.
    if let Some(program) = Program::from_name(&first) {
        return run(program, rest);
    }
    if let Some(sentence) = elsewhere::sentence(&first) {
        return fail(&sentence, exit_codes::UNAVAILABLE);
    }
    let help = rest.iter().any(|word| matches!(word.as_str(), "-h" | "--help"));
    match (first.as_str(), rest.as_slice()) {
        ("-h" | "--help" | "help", _) => print(&overview()),
        ("--version", _) => print(&format!("saltern {} (as Salt {})\n", version::SALTERN, version::SALT)),
        ("-V" | "--versions-report", _) => print(&format!("{}\n", version::report())),
        ("link", _) if help => print(LINK_HELP),
        ("completions", _) if help => print(complete::HELP),
        // Without help or errors: the scripts would offer the text as a candidate.
        ("complete", words) => return complete::main(words),
        ("link", [force, directory] | [directory, force]) if force == "--force" => {
            return link::link(Path::new(directory), true);
        }
        ("link", [directory]) if directory != "--force" => return link::link(Path::new(directory), false),
        ("completions", [shell]) => return completions(shell),
        ("demo", arguments) => return demo::main(arguments),
        ("swarm", arguments) => return swarm::main(arguments),
        ("wheel", _) => return wheel::main(rest),
        (auth::ldap::HELPER, []) => return ldap::check(),
        (auth::pam::KEEPER, [service]) => return pam::keeper(service),
        (auth::pam::HELPER, [service]) => return pam::check(service),
        ("link", _) => return fail("'saltern link' takes one directory", exit_codes::USAGE),
        ("completions", _) => return fail("'saltern completions' takes one of bash, zsh, fish", exit_codes::USAGE),
        (other, _) => return unknown(other),
    }
    ExitCode::SUCCESS
}

fn run(program: Program, words: Vec<String>) -> ExitCode {
    // As in Salt, the report is printed only if the rest of the line is valid.
    match args::parse(program, words).and_then(more_from_stdin(program)) {
        Ok(parsed) if parsed.settings.get("versions_report").is_some_and(value::Value::truthy) => {
            print(&format!("{}\n", version::report()));
            ExitCode::SUCCESS
        }
        Ok(parsed) => crate::programs::run(program, parsed),
        Err(Stop::Help) => {
            print(&args::help::help(program, columns()));
            ExitCode::SUCCESS
        }
        Err(Stop::Version) => {
            print(&format!("{}\n", version::line(program)));
            ExitCode::SUCCESS
        }
        Err(Stop::Usage(text)) => usage_error(program, &text),
    }
}

/// With `--args-stdin`, each line of standard input is one more flag or argument.
fn more_from_stdin(program: Program) -> impl FnOnce(Parsed) -> Result<Parsed, Stop> {
    move |mut parsed| {
        if !parsed.settings.get("args_stdin").is_some_and(value::Value::truthy) {
            return Ok(parsed);
        }
        let lines: Result<Vec<String>, _> = std::io::stdin().lines().collect();
        let lines =
            lines.map_err(|error| Stop::Usage(format!("failed to read arguments from standard input: {error}")))?;
        let more = args::parse(program, lines.iter().map(|line| line.trim_end_matches('\r').to_owned()).collect())?;
        // Only the flags in the input: Salt's second pass resets all others to their defaults.
        for setting in more.given {
            if let Some(value) = more.settings.get(setting) {
                parsed.settings.insert(setting, value.clone());
            }
            if !parsed.given.contains(&setting) {
                parsed.given.push(setting);
            }
        }
        parsed.arguments.extend(more.arguments);
        Ok(parsed)
    }
}

fn fail(text: &str, code: u8) -> ExitCode {
    rt::complain!("saltern: error: {text}");
    ExitCode::from(code)
}

fn completions(shell: &str) -> ExitCode {
    match complete::script(shell) {
        Some(script) => {
            print(&script);
            ExitCode::SUCCESS
        }
        None => fail(&format!("no completion for '{shell}' (bash, zsh or fish)"), exit_codes::USAGE),
    }
}

fn unknown(name: &str) -> ExitCode {
    let known = Program::ALL.map(Program::name).into_iter().chain(OWN_WORDS);
    let hint = hint::nearest(name, known).map(|near| format!(" {}", hint::did_you_mean(near))).unwrap_or_default();
    fail(&format!("no such program: {name} (see saltern --help){hint}"), exit_codes::USAGE)
}

const LINK_HELP: &str = "\
Usage: saltern link [--force] DIR

Puts the names salt, salt-api, salt-call, salt-cp, salt-key, salt-master, salt-minion and salt-run into DIR, as links to
this file. Links to this file or to another one called saltern are replaced. If a link to another program is there, or a
file that is not a link, nothing is changed, and the program ends with status 1.

Options:
  --force     replace links to other programs, such as those of Salt's packages
  -h, --help  print this help
";

fn overview() -> String {
    let mut out = String::from(
        "Usage: saltern <program> [arguments]\n\n\
         Salt's programs in one. The program is chosen by the first argument, or by the name this file is called by.\n\n\
         Programs:\n",
    );
    for program in Program::ALL {
        out.push_str(&format!("  {:<13}{}\n", program.name(), program.about()));
    }
    out.push_str(
        "\nMore:\n  \
         link DIR     Put these names into a directory, as links to this file.\n  \
         completions  Print shell completion for bash, zsh or fish.\n  \
         demo         Start two masters and three minions on this machine and watch them.\n  \
         swarm        Put a master under the load of thousands of minions.\n\n\
         Each program has its own --help.\n",
    );
    out
}

fn columns() -> usize {
    // `optparse` reads the variable, too. It does not query the terminal.
    std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 40).unwrap_or(80)
}
