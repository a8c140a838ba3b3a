//! Reads a command line by the rules of Python's `optparse`, which Salt's programs use.
//!
//! Scripts and habits depend on these rules, so they are kept in full: flags stand anywhere among the
//! arguments, a long flag may be cut to any prefix that fits one flag only, `-vE` are two flags, a flag with a
//! value takes whatever follows (even `-x`), the last of several wins, and everything after `--` is an
//! argument. The texts of the errors are `optparse`'s too.

use std::collections::HashMap;
use std::collections::VecDeque;

use value::{Map, Value};

use super::option::{Flag, Kind, Preset};
use super::programs::Program;

/// The result of reading a command line.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// A value for each setting: the given one, or the preset if there is one.
    pub settings: Map,
    /// The settings that were given.
    pub given: Vec<&'static str>,
    /// The arguments that are not flags.
    pub arguments: Vec<String>,
}

impl Parsed {
    /// Sets a value as if a flag had been given for it.
    pub fn set(&mut self, setting: &'static str, value: Value) {
        self.settings.insert(setting, value);
        if !self.given.contains(&setting) {
            self.given.push(setting);
        }
    }
}

/// The reasons why parsing a command line ended early.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Stop {
    /// `--help`.
    #[error("help was asked for")]
    Help,
    /// `--version`.
    #[error("the version was asked for")]
    Version,
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
}

/// Reads a command line (without the program's name).
pub fn parse(program: Program, arguments: Vec<String>) -> Result<Parsed, Stop> {
    let flags: Vec<Flag> = program.groups().into_iter().flat_map(|group| group.flags).collect();
    let mut parser = Parser { names: index(&flags), flags: &flags, rest: arguments.into(), parsed: presets(&flags) };
    parser.run()?;
    Ok(parser.parsed)
}

struct Parser<'a> {
    flags: &'a [Flag],
    names: HashMap<&'static str, usize>,
    rest: VecDeque<String>,
    parsed: Parsed,
}

fn index(flags: &[Flag]) -> HashMap<&'static str, usize> {
    let mut names = HashMap::new();
    for (place, flag) in flags.iter().enumerate() {
        names.extend(flag.names.iter().map(|name| (*name, place)));
    }
    names
}

fn presets(flags: &[Flag]) -> Parsed {
    let mut settings = Map::new();
    for flag in flags.iter().filter(|flag| !matches!(flag.kind, Kind::Help | Kind::Version)) {
        if let Some(value) = preset_value(flag.preset) {
            settings.insert(flag.setting, value);
        }
    }
    // `optparse` fills in its defaults before it reads anything, too.
    Parsed { settings, ..Parsed::default() }
}

/// Returns a preset as a value; `None` if the configuration decides.
pub fn preset_value(preset: Preset) -> Option<Value> {
    Some(match preset {
        Preset::Unset => return None,
        Preset::Flag(flag) => flag.into(),
        Preset::Int(number) => number.into(),
        Preset::Float(number) => number.into(),
        Preset::Text(text) => text.into(),
        Preset::EmptyList => Value::List(Vec::new()),
        Preset::EmptyMap => Map::new().into(),
    })
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        while let Some(argument) = self.rest.pop_front() {
            if argument == "--" {
                self.parsed.arguments.extend(self.rest.drain(..));
            } else if argument.starts_with("--") {
                self.long(&argument)?;
            } else if argument.len() > 1 && argument.starts_with('-') {
                self.cluster(&argument)?;
            } else {
                // A single dash is an argument, too: many programs read standard input for it.
                self.parsed.arguments.push(argument);
            }
        }
        Ok(())
    }

    fn long(&mut self, argument: &str) -> Result<(), Stop> {
        // Only the first `=`: the value may contain others.
        let (typed, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument, None),
        };
        let name = self.complete(typed)?;
        let flag = self.flags[self.names[name]];
        if !flag.takes_value() {
            if value.is_some() {
                return Err(Stop::Usage(format!("{name} option does not take a value")));
            }
            return self.set(&flag, name, String::new());
        }
        let value = match value {
            Some(value) => value,
            None => self.next_value(name)?,
        };
        self.set(&flag, name, value)
    }

    /// Finds the long flag for a name, or for a prefix that fits one flag only.
    fn complete(&self, typed: &str) -> Result<&'static str, Stop> {
        // First, so that `--list` works beside `--list-all`.
        if let Some((name, _)) = self.names.get_key_value(typed) {
            return Ok(name);
        }
        let mut fitting: Vec<&'static str> =
            self.names.keys().copied().filter(|name| name.starts_with(typed)).collect();
        // The names are in a hash map, and `optparse` sorts them for its error.
        fitting.sort_unstable();
        match fitting[..] {
            [] => {
                let near =
                    crate::hint::nearest(typed, self.names.keys().copied().filter(|name| name.starts_with("--")));
                let hint = near.map(|name| format!("\nDid you mean {name}?")).unwrap_or_default();
                Err(Stop::Usage(format!("no such option: {typed}{hint}")))
            }
            [name] => Ok(name),
            _ => Err(Stop::Usage(format!("ambiguous option: {typed} ({}?)", fitting.join(", ")))),
        }
    }

    /// Reads short flags that are written together; the first one with a value takes the rest.
    fn cluster(&mut self, argument: &str) -> Result<(), Stop> {
        for (place, letter) in argument.char_indices().skip(1) {
            let typed = format!("-{letter}");
            let Some((name, place_of_flag)) = self.names.get_key_value(typed.as_str()) else {
                return Err(Stop::Usage(format!("no such option: {typed}")));
            };
            let (name, flag) = (*name, self.flags[*place_of_flag]);
            if flag.takes_value() {
                let rest = &argument[place + letter.len_utf8()..];
                let value = if rest.is_empty() { self.next_value(name)? } else { rest.to_owned() };
                return self.set(&flag, name, value);
            }
            self.set(&flag, name, String::new())?;
        }
        Ok(())
    }

    fn next_value(&mut self, name: &str) -> Result<String, Stop> {
        // Even a word that begins with a dash is a value, as in `optparse`.
        self.rest.pop_front().ok_or_else(|| Stop::Usage(format!("{name} option requires 1 argument")))
    }

    fn set(&mut self, flag: &Flag, name: &str, text: String) -> Result<(), Stop> {
        let value = match flag.kind {
            Kind::Help => return Err(Stop::Help),
            Kind::Version => return Err(Stop::Version),
            Kind::On => true.into(),
            Kind::Off => false.into(),
            Kind::Text => text.into(),
            Kind::Int => integer(name, &text)?,
            Kind::Float => float(name, &text)?,
            Kind::Choice(words) => choice(name, text, words)?,
            Kind::Append => {
                let mut items =
                    self.parsed.settings.remove(flag.setting).and_then(Value::into_list).unwrap_or_default();
                items.push(text.into());
                Value::List(items)
            }
        };
        self.parsed.set(flag.setting, value);
        Ok(())
    }
}

fn integer(name: &str, text: &str) -> Result<Value, Stop> {
    python_integer(text)
        .map(Value::Int)
        .ok_or_else(|| Stop::Usage(format!("option {name}: invalid integer value: {}", value::python::repr_str(text))))
}

/// Reads an integer like `optparse`: decimal, `0x`, `0b`, or octal after a plain `0`.
fn python_integer(text: &str) -> Option<i64> {
    let lower = text.trim().to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        return i64::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = lower.strip_prefix("0b") {
        return i64::from_str_radix(digits, 2).ok();
    }
    if lower.len() > 1 && lower.starts_with('0') {
        return i64::from_str_radix(lower.trim_start_matches("0o"), 8).ok();
    }
    // Python's `int` accepts underscores between digits.
    lower.replace('_', "").parse().ok()
}

fn float(name: &str, text: &str) -> Result<Value, Stop> {
    text.trim().parse::<f64>().map(Value::Float).map_err(|_| {
        Stop::Usage(format!("option {name}: invalid floating-point value: {}", value::python::repr_str(text)))
    })
}

fn choice(name: &str, text: String, words: &[&str]) -> Result<Value, Stop> {
    // Case matters, as in `optparse`.
    if words.contains(&text.as_str()) {
        return Ok(text.into());
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let text = value::python::repr_str(&text);
    Err(Stop::Usage(format!("option {name}: invalid choice: {text} (choose from {})", quoted.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(program: Program, line: &[&str]) -> Result<Parsed, Stop> {
        parse(program, line.iter().map(|word| (*word).to_owned()).collect())
    }

    fn refusal(line: &[&str]) -> String {
        match read(Program::Salt, line) {
            Err(Stop::Usage(text)) => text,
            other => panic!("expected a usage error, got {other:?}"),
        }
    }

    #[test]
    fn flags_stand_anywhere_and_values_follow_in_any_form() {
        let parsed = read(Program::Salt, &["*", "-t5", "test.ping", "--time=7", "-vE", "--out", "json", "x"]).unwrap();
        assert_eq!(parsed.arguments, ["*", "test.ping", "x"]);
        assert_eq!(parsed.settings.get("timeout"), Some(&Value::Int(7)));
        assert_eq!(parsed.settings.get("verbose"), Some(&Value::Bool(true)));
        assert_eq!(parsed.settings.get("pcre"), Some(&Value::Bool(true)));
        assert_eq!(parsed.settings.get_str("output"), Some("json"));
        assert_eq!(parsed.given, ["timeout", "verbose", "pcre", "output"]);
    }

    #[test]
    fn a_value_may_begin_with_a_dash() {
        let parsed = read(Program::Salt, &["-b", "-1", "--out-indent", "-1", "a", "b"]).unwrap();
        assert_eq!(parsed.settings.get_str("batch"), Some("-1"));
        assert_eq!(parsed.settings.get("output_indent"), Some(&Value::Int(-1)));
    }

    #[test]
    fn two_dashes_end_the_flags() {
        let parsed = read(Program::Salt, &["*", "cmd.run", "--", "-x", "--out=json"]).unwrap();
        assert_eq!(parsed.arguments, ["*", "cmd.run", "-x", "--out=json"]);
        assert_eq!(read(Program::Salt, &["-", "a"]).unwrap().arguments, ["-", "a"]);
    }

    // The texts were taken from the real program.
    #[test]
    fn mistakes_are_told_in_the_known_words() {
        assert_eq!(refusal(&["-x"]), "no such option: -x");
        assert_eq!(refusal(&["a", "cmd.run", "-1"]), "no such option: -1");
        assert_eq!(refusal(&["--ver"]), "ambiguous option: --ver (--verbose, --version, --versions-report?)");
        assert_eq!(refusal(&["--timeout=abc"]), "option --timeout: invalid integer value: 'abc'");
        assert_eq!(refusal(&["--timout=3"]), "no such option: --timout\nDid you mean --timeout?");
        assert_eq!(refusal(&["--nonsense"]), "no such option: --nonsense");
        assert_eq!(refusal(&["-t"]), "-t option requires 1 argument");
        assert_eq!(refusal(&["--static=1"]), "--static option does not take a value");
        assert_eq!(
            refusal(&["--log-level=foo"]),
            "option --log-level: invalid choice: 'foo' (choose from 'all', 'debug', 'error', 'critical', 'garbage', \
             'info', 'profile', 'quiet', 'trace', 'warning')"
        );
    }

    #[test]
    fn help_and_version_end_the_reading() {
        assert_eq!(read(Program::SaltKey, &["-h", "-x"]).unwrap_err(), Stop::Help);
        assert_eq!(read(Program::SaltMaster, &["--version"]).unwrap_err(), Stop::Version);
    }

    #[test]
    fn every_flag_has_one_meaning_per_program() {
        for program in Program::ALL {
            let flags: Vec<Flag> = program.groups().into_iter().flat_map(|group| group.flags).collect();
            let spelled: usize = flags.iter().map(|flag| flag.names.len()).sum();
            assert_eq!(index(&flags).len(), spelled, "{} has a flag twice", program.name());
        }
    }

    #[test]
    fn salt_key_uses_a_for_accept() {
        let parsed = read(Program::SaltKey, &["-a", "web1", "--auth", "pam"]).unwrap();
        assert_eq!(parsed.settings.get_str("accept"), Some("web1"));
        assert_eq!(parsed.settings.get_str("eauth"), Some("pam"));
    }
}
