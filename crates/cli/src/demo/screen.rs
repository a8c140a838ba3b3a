//! The output of the demonstration: headings, command lines and their output, in colours on a terminal.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

/// The standard output. Each write fails once its reader is gone.
pub struct Screen {
    color: bool,
}

const HEADING: &str = "\x1b[1;36m";
const PROMPT: &str = "\x1b[1;32m";
const TIME: &str = "\x1b[1;33m";
const END: &str = "\x1b[0m";

impl Screen {
    /// Uses colours on terminals, unless `NO_COLOR` is set.
    pub fn new() -> Self {
        Screen { color: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    /// Returns whether colours are used.
    pub fn color(&self) -> bool {
        self.color
    }

    /// Prints a text as it is.
    pub fn text(&self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Prints a line.
    pub fn line(&self, line: &str) -> Result<()> {
        self.text(&format!("{line}\n"))
    }

    /// Prints a heading.
    pub fn say(&self, text: &str) -> Result<()> {
        self.text(&format!("\n{}\n", self.painted(HEADING, &format!("# {text}"))))
    }

    /// Prints how long something took.
    pub fn took(&self, what: &str, time: Duration) -> Result<()> {
        self.line(&self.painted(TIME, &format!("=> {what}: {} ms", time.as_millis())))
    }

    /// Prints a command line.
    pub fn command(&self, line: &str) -> Result<()> {
        self.text(&format!("{}{line}\n", self.painted(PROMPT, "$ ")))
    }

    /// Prints the command line of one of the programs, with a short directory name.
    pub fn typed(&self, program: &str, config: &Path, args: &[&str]) -> Result<()> {
        let name = config.file_name().unwrap_or_default().to_string_lossy();
        let quoted: Vec<String> = args.iter().map(|arg| quote(arg)).collect();
        self.command(&format!("{program} -c {name} {}", quoted.join(" ")))
    }

    fn painted(&self, color: &str, text: &str) -> String {
        if self.color { format!("{color}{text}{END}") } else { text.to_owned() }
    }
}

fn quote(arg: &str) -> String {
    let plain = arg == "&" || arg.chars().all(|letter| letter.is_alphanumeric() || "-_./:=".contains(letter));
    if plain { arg.to_owned() } else { format!("'{arg}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_change_is_quoted() {
        assert_eq!(quote("*"), "'*'");
        assert_eq!(quote("test.ping"), "test.ping");
        assert_eq!(quote("echo hello"), "'echo hello'");
    }

    #[test]
    fn colours_are_for_terminals() {
        assert_eq!(Screen { color: false }.painted(HEADING, "x"), "x");
        assert_eq!(Screen { color: true }.painted(HEADING, "x"), "\u{1b}[1;36mx\u{1b}[0m");
    }
}
