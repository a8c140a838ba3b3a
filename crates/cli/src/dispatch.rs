//! Which of the programs is meant: by the name `saltern` is called by, or by its first argument.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;

use crate::args::{self, Parsed, Program, Stop};
use crate::{demo, exit_codes, link, swarm, version, wheel};

/// Runs what the command line asks for; the first argument is the name of the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words = Vec::new();
    for argument in arguments {
        match argument.into_string() {
            Ok(word) => words.push(word),
            Err(argument) => return fail(&format!("the argument {argument:?} is no valid UTF-8"), exit_codes::USAGE),
        }
    }
    let called =
        words.first().map(|name| Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned());
    let rest = words.split_off(words.len().min(1));
    match called.as_deref().and_then(Program::from_name) {
        Some(program) => run(program, rest),
        None => own(rest),
    }
}

/// What `saltern` does under its own name.
fn own(mut words: Vec<String>) -> ExitCode {
    let rest = words.split_off(words.len().min(1));
    let Some(first) = words.pop() else {
        print(&overview());
        return ExitCode::SUCCESS;
    };
    if let Some(program) = Program::from_name(&first) {
        return run(program, rest);
    }
    match (first.as_str(), rest.as_slice()) {
        ("-h" | "--help" | "help", _) => print(&overview()),
        ("--version", _) => print(&format!("saltern {} (as Salt {})\n", version::SALTERN, version::SALT)),
        ("-V" | "--versions-report", _) => print(&format!("{}\n", version::report())),
        ("link", [directory]) => return link::link(Path::new(directory)),
        ("completions", [shell]) => return completions(shell),
        ("demo", arguments) => return demo::main(arguments),
        ("swarm", arguments) => return swarm::main(arguments),
        ("wheel", _) => return wheel::main(rest),
        ("link", _) => return fail("'saltern link' takes one directory", exit_codes::USAGE),
        ("completions", _) => return fail("'saltern completions' takes one of bash, zsh, fish", exit_codes::USAGE),
        (other, _) => return fail(&format!("no such program: {other} (see saltern --help)"), exit_codes::USAGE),
    }
    ExitCode::SUCCESS
}

fn run(program: Program, words: Vec<String>) -> ExitCode {
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

/// With `--args-stdin` each line of the standard input is one more flag or argument.
fn more_from_stdin(program: Program) -> impl FnOnce(Parsed) -> Result<Parsed, Stop> {
    move |mut parsed| {
        if !parsed.settings.get("args_stdin").is_some_and(value::Value::truthy) {
            return Ok(parsed);
        }
        let lines: Result<Vec<String>, _> = std::io::stdin().lines().collect();
        let lines =
            lines.map_err(|error| Stop::Usage(format!("failed to read arguments from standard input: {error}")))?;
        let more = args::parse(program, lines.iter().map(|line| line.trim_end_matches('\r').to_owned()).collect())?;
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

/// Says what is wrong with a command line, in the form of Salt's programs.
pub fn usage_error(program: Program, text: &str) -> ExitCode {
    eprintln!("{}\n{}: error: {text}", args::help::usage(program), program.name());
    ExitCode::from(exit_codes::USAGE)
}

fn fail(text: &str, code: u8) -> ExitCode {
    eprintln!("saltern: error: {text}");
    ExitCode::from(code)
}

fn completions(shell: &str) -> ExitCode {
    let shell = match shell {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        other => return fail(&format!("no completion for '{other}' (bash, zsh or fish)"), exit_codes::USAGE),
    };
    print(&args::completion::script(shell));
    ExitCode::SUCCESS
}

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

/// Prints without minding a reader that went away.
pub fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn columns() -> usize {
    std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 40).unwrap_or(80)
}
