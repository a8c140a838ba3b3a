//! The text of `--help`, in the layout of Python's `optparse`.

use super::option::{Flag, Preset};
use super::programs::Program;

/// The column of the explanations, `max_help_position` of `optparse`.
const HELP_COLUMN: usize = 24;

/// Returns the usage line, which is also printed above errors.
pub fn usage(program: Program) -> String {
    format!("Usage: {} {}\n", program.name(), program.usage())
}

/// Returns the whole help in lines of at most `columns` columns.
pub fn help(program: Program, columns: usize) -> String {
    // `optparse` leaves two columns free as well. Below 40 there is no room for explanations.
    let width = columns.saturating_sub(2).max(40);
    let mut out = usage(program);
    out.push('\n');
    push_wrapped(&mut out, program.about(), 0, width);
    out.push_str("\nOptions:\n");
    for group in program.groups() {
        let indent = if group.title.is_empty() { 2 } else { 4 };
        if !group.title.is_empty() {
            out.push_str(&format!("\n  {}:\n", group.title));
        }
        if !group.about.is_empty() {
            push_wrapped(&mut out, group.about, 4, width);
            out.push('\n');
        }
        for flag in &group.flags {
            push_flag(&mut out, program, flag, indent, width);
        }
    }
    out
}

fn push_flag(out: &mut String, program: Program, flag: &Flag, indent: usize, width: usize) {
    let head = format!("{:indent$}{}", "", spellings(flag));
    let text = help_text(program, flag);
    let mut lines = wrap(&text, width.saturating_sub(HELP_COLUMN)).into_iter();
    out.push_str(&head);
    // At least two blanks separate the columns; a longer head gets a separate line.
    if head.len() + 2 > HELP_COLUMN {
        out.push('\n');
    } else {
        let gap = HELP_COLUMN - head.len();
        out.push_str(&format!("{:gap$}{}\n", "", lines.next().unwrap_or_default()));
    }
    for line in lines {
        out.push_str(&format!("{:HELP_COLUMN$}{line}\n", ""));
    }
}

fn spellings(flag: &Flag) -> String {
    let value = value_name(flag);
    let spelled = flag.names.iter().map(|name| match (flag.takes_value(), name.starts_with("--")) {
        (false, _) => (*name).to_owned(),
        (true, true) => format!("{name}={value}"),
        (true, false) => format!("{name} {value}"),
    });
    spelled.collect::<Vec<_>>().join(", ")
}

/// Returns the name of a flag's value in the help.
pub fn value_name(flag: &Flag) -> String {
    if flag.value_name.is_empty() { flag.setting.to_uppercase() } else { flag.value_name.to_owned() }
}

fn help_text(program: Program, flag: &Flag) -> String {
    let default = match flag.preset {
        Preset::Text(text) => text.to_owned(),
        Preset::Int(number) => number.to_string(),
        Preset::Float(number) => number.to_string(),
        Preset::Flag(true) => "True".to_owned(),
        Preset::Flag(false) => "False".to_owned(),
        Preset::Unset | Preset::EmptyList | Preset::EmptyMap => "none".to_owned(),
    };
    flag.help.replace("{default}", &default).replace("{prog}", program.name())
}

fn push_wrapped(out: &mut String, text: &str, indent: usize, width: usize) {
    for line in wrap(text, width - indent) {
        out.push_str(&format!("{:indent$}{line}\n", ""));
    }
}

/// Breaks a text at blanks.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a last line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_push_their_text_to_the_next_line() {
        let text = help(Program::Salt, 80);
        assert!(text.starts_with("Usage: salt [options] '<target>' <function> [arguments]\n\n"));
        assert!(
            text.contains("\n  -s, --static          Print all returns together when the last one is there.\n"),
            "{text}"
        );
        assert!(
            text.contains("\n  -t TIMEOUT, --timeout=TIMEOUT\n                        Seconds to wait. Default: 5.\n")
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80 || line.contains("--external-auth")));
    }
}
