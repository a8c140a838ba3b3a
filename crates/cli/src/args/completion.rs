//! Shell completion, made by `clap_complete` from the same tables the parser reads.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;

use super::help::value_name;
use super::option::{Flag, Kind};
use super::programs::Program;

/// Returns a completion script that serves `saltern` and all the names it can have.
pub fn script(shell: Shell) -> String {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut saltern(), "saltern", &mut out);
    for program in Program::ALL {
        clap_complete::generate(shell, &mut command(program), program.name(), &mut out);
    }
    let mut text = String::from_utf8_lossy(&out).into_owned();
    if shell == Shell::Zsh {
        text = one_zsh_file(&text);
    }
    text
}

/// Zsh reads the names a file completes from its first line only, and completes by the file's own function
/// name unless it is sourced, so the eight scripts are folded into one that works either way.
fn one_zsh_file(text: &str) -> String {
    let names: Vec<&str> = std::iter::once("saltern").chain(Program::ALL.map(Program::name)).collect();
    let mut out = format!("#compdef {}\n", names.join(" "));
    let mut skipping = false;
    for line in text.lines() {
        if line.starts_with("#compdef") {
            continue;
        }
        // Each script ends by running or registering itself; this is done once, at the end.
        if line.starts_with("if [ \"$funcstack[1]\"") {
            skipping = true;
        }
        if !skipping {
            out.push_str(line);
            out.push('\n');
        }
        if line == "fi" {
            skipping = false;
        }
    }
    out.push_str(
        "if [ \"${funcstack[1]#_salt}\" != \"$funcstack[1]\" ]; then\n    \"_${service:-saltern}\" \"$@\"\nelse\n",
    );
    for name in names {
        out.push_str(&format!("    compdef _{name} {name}\n"));
    }
    out.push_str("fi\n");
    out
}

fn saltern() -> Command {
    let mut saltern = Command::new("saltern").about("Salt's programs in one.");
    for program in Program::ALL {
        saltern = saltern.subcommand(command(program));
    }
    saltern
        .subcommand(
            Command::new("link")
                .about("Put the programs' names into a directory, as links to this program")
                .arg(Arg::new("directory").required(true).value_hint(clap::ValueHint::DirPath)),
        )
        .subcommand(
            Command::new("completions")
                .about("Print a completion script")
                .arg(Arg::new("shell").required(true).value_parser(["bash", "zsh", "fish"])),
        )
        .subcommand(Command::new("demo").about("Start two masters and three minions on this machine and show them"))
}

fn command(program: Program) -> Command {
    let mut command =
        Command::new(program.name()).about(program.about()).disable_help_flag(true).disable_version_flag(true);
    for flag in program.groups().iter().flat_map(|group| &group.flags) {
        command = command.arg(argument(flag));
    }
    match program {
        Program::Salt => command.arg(words("target")).arg(words("function")).arg(many("arguments")),
        Program::SaltCall | Program::SaltRun => command.arg(words("function")).arg(many("arguments")),
        Program::SaltCp => command.arg(words("target")).arg(many("files").value_hint(clap::ValueHint::FilePath)),
        Program::SaltKey | Program::SaltMaster | Program::SaltMinion => command,
    }
}

fn words(name: &'static str) -> Arg {
    Arg::new(format!("<{name}>")).value_name(name)
}

fn many(name: &'static str) -> Arg {
    words(name).num_args(0..)
}

fn argument(flag: &Flag) -> Arg {
    let long: Vec<&str> = flag.names.iter().filter_map(|name| name.strip_prefix("--")).collect();
    let short = flag.names.iter().find(|name| !name.starts_with("--")).and_then(|name| name.chars().nth(1));
    let mut argument = Arg::new(flag.display_name()).help(first_sentence(flag.help));
    if let Some((first, more)) = long.split_first() {
        argument = argument.long(first.to_string()).visible_aliases(more.iter().map(|name| name.to_string()));
    }
    if let Some(letter) = short {
        argument = argument.short(letter);
    }
    if !flag.takes_value() {
        return argument.action(ArgAction::SetTrue);
    }
    argument = argument.value_name(value_name(flag));
    match (flag.kind, flag.setting) {
        (Kind::Choice(words), _) => argument.value_parser(PossibleValuesParser::new(words.iter().copied())),
        (_, "output") => argument.value_parser(PossibleValuesParser::new(outputters::NAMES.iter().copied())),
        (_, "config_dir" | "gen_keys_dir" | "cachedir" | "profiling_path" | "signature_path") => {
            argument.value_hint(clap::ValueHint::DirPath)
        }
        (_, "saltfile" | "log_file" | "key_logfile" | "output_file" | "pidfile" | "priv" | "pub") => {
            argument.value_hint(clap::ValueHint::FilePath)
        }
        (_, "user") => argument.value_hint(clap::ValueHint::Username),
        _ => argument,
    }
}

/// Completion lists show one line per flag.
fn first_sentence(help: &str) -> String {
    let help = help.replace("{prog}", "the daemon");
    help.split(". ").next().unwrap_or(&help).trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_flag_is_in_each_script() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = script(shell);
            for program in Program::ALL {
                assert!(text.contains(program.name()), "{shell}: {} is missing", program.name());
            }
            assert!(text.contains("batch-safe-limit") && text.contains("gen-signature"), "{shell}");
        }
    }
}
