//! Determines what belongs in which place of a command line.

use std::path::PathBuf;

use super::Candidate;
use super::sources::Sources;
use crate::args::option::{Flag, Kind};
use crate::args::{OWN_WORDS, Program};

/// The place at the end of a line.
pub struct Place {
    /// The program whose argument it is.
    pub program: Option<Program>,
    /// The text that is typed already.
    pub typed: String,
    /// The matching kind of word.
    pub wants: Wants,
    /// The directory given with `-c`.
    pub config_dir: Option<PathBuf>,
}

/// The kind of word that matches a place.
pub enum Wants {
    /// The name of a program or a word of `saltern`.
    Program,
    /// One of these words.
    Words(Vec<&'static str>),
    /// A flag.
    Flags,
    /// A value of a flag, after this much of the word.
    Value(Flag, String),
    /// Minions or node groups, with the flag for the kind of target.
    Target(&'static str),
    /// A function.
    Function,
    /// An argument of a function, with its number.
    Argument(String, usize),
    /// Files, which the shell knows.
    Files,
}

/// Finds the kind of word that fits; `None` for programs that are not part of Saltern.
pub fn find(words: &[String]) -> Option<Place> {
    let (typed, before) = words.split_last()?;
    let (called, mut before) = before.split_first()?;
    let name = std::path::Path::new(called).file_name()?.to_str()?;
    let mut program = Program::from_name(name);
    if program.is_none() {
        if name != "saltern" {
            return None;
        }
        let place = |wants| Some(Place { program: None, typed: typed.clone(), wants, config_dir: None });
        let Some((first, rest)) = before.split_first() else { return place(Wants::Program) };
        // `saltern salt …` is completed like `salt …`.
        program = Program::from_name(first);
        match first.as_str() {
            _ if program.is_some() => before = rest,
            "completions" if rest.is_empty() => return place(Wants::Words(vec!["bash", "fish", "zsh", "--help"])),
            "demo" => return place(Wants::Words(vec!["--dir", "--help", "--keep"])),
            _ => return place(Wants::Files),
        }
    }
    let program = program?;
    let read = Read::of(program, before);
    Some(Place {
        wants: read.wants(program, typed),
        typed: typed.clone(),
        program: Some(program),
        config_dir: read.config_dir,
    })
}

/// The words before the last one.
#[derive(Default)]
struct Read {
    config_dir: Option<PathBuf>,
    /// The setting of the flag for the kind of target.
    target: &'static str,
    arguments: Vec<String>,
    /// The last flag, if its value follows.
    open: Option<Flag>,
}

const TARGET_FLAGS: [&str; 8] =
    ["list", "nodegroup", "compound", "pcre", "grain", "grain_pcre", "pillar_target", "pillar_pcre"];

impl Read {
    fn of(program: Program, words: &[String]) -> Self {
        let flags: Vec<Flag> = program.groups().into_iter().flat_map(|group| group.flags).collect();
        let named = |name: &str| flags.iter().find(|flag| flag.names.contains(&name)).copied();
        // Not with the parser of the programs: it refuses a line that is incomplete, and this one always is.
        let mut read = Read::default();
        let mut only_arguments = false;
        for word in words {
            if let Some(flag) = read.open.take() {
                read.value(flag, word);
            } else if only_arguments || !word.starts_with('-') || word == "-" {
                read.arguments.push(word.clone());
            } else if word == "--" {
                only_arguments = true;
            } else if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
                if let Some(flag) = named(name) {
                    read.value(flag, value);
                }
            } else if let Some(flag) = named(word).or_else(|| named(word.get(..2)?)) {
                // A value may follow its short flag in the same word.
                match word.starts_with("--") || word.len() == 2 {
                    true if flag.takes_value() => read.open = Some(flag),
                    true => read.switch(flag),
                    false if flag.takes_value() => read.value(flag, &word[2..]),
                    false => read.switch(flag),
                }
            }
        }
        read
    }

    fn value(&mut self, flag: Flag, value: &str) {
        if flag.setting == "config_dir" {
            self.config_dir = Some(value.into());
        }
    }

    fn switch(&mut self, flag: Flag) {
        if TARGET_FLAGS.contains(&flag.setting) {
            self.target = flag.setting;
        }
    }

    fn wants(&self, program: Program, typed: &str) -> Wants {
        if let Some(flag) = self.open {
            return Wants::Value(flag, String::new());
        }
        if let Some((name, _)) = typed.split_once('=').filter(|_| typed.starts_with("--")) {
            let mut flags = program.groups().into_iter().flat_map(|group| group.flags);
            return match flags.find(|flag| flag.names.contains(&name)) {
                Some(flag) => Wants::Value(flag, format!("{name}=")),
                None => Wants::Files,
            };
        }
        if typed.starts_with('-') {
            return Wants::Flags;
        }
        // A target precedes the function.
        let place = match program {
            Program::Salt | Program::SaltCp => self.arguments.len(),
            _ => self.arguments.len() + 1,
        };
        match (program, place) {
            (Program::SaltApi | Program::SaltMaster | Program::SaltMinion, _) => Wants::Files,
            (Program::SaltKey, _) => Wants::Flags,
            (_, 0) => Wants::Target(self.target),
            (Program::SaltCp, _) => Wants::Files,
            (_, 1) => Wants::Function,
            (Program::Salt, _) => Wants::Argument(self.arguments[1].clone(), place - 2),
            _ => Wants::Argument(self.arguments[0].clone(), place - 2),
        }
    }
}

/// Returns candidates, roughly: the caller drops those that do not begin as typed.
pub fn candidates(wants: Wants, program: Option<Program>, typed: &str, sources: &Sources) -> Vec<Candidate> {
    match (wants, program) {
        (Wants::Words(words), _) => words.into_iter().map(Candidate::plain).collect(),
        (Wants::Program, _) => {
            let programs = Program::ALL.map(|program| (program.name(), program.about()));
            let own = OWN_WORDS.map(|name| (name, ""));
            let all = programs.into_iter().chain(own);
            all.map(|(word, about)| Candidate { word: word.into(), about: about.into() }).collect()
        }
        (Wants::Flags, Some(program)) => flags(program, typed),
        (Wants::Value(flag, before), Some(program)) => {
            let words = values(flag, program, sources).into_iter();
            words.map(|word| Candidate::plain(format!("{before}{word}"))).collect()
        }
        (Wants::Target(kind), _) => target(kind, typed, sources),
        (Wants::Function, Some(program)) => functions(typed, &sources.functions(program)),
        (Wants::Argument(function, place), Some(program)) => argument(&function, place, program, typed, sources),
        _ => Vec::new(),
    }
}

fn flags(program: Program, typed: &str) -> Vec<Candidate> {
    let flags = program.groups().into_iter().flat_map(|group| group.flags);
    // After a single dash, the short spellings would double the list.
    let short = !typed.starts_with("--") && typed != "-";
    let spelled = flags.flat_map(|flag| flag.names.iter().map(move |name| (*name, flag)));
    let fitting = spelled.filter(|(name, _)| short || name.starts_with("--"));
    fitting.map(|(name, flag)| Candidate { word: name.into(), about: first_sentence(flag.help) }).collect()
}

/// Returns the first sentence, since lists have one line per flag.
fn first_sentence(help: &str) -> String {
    let help = help.replace("{prog}", "the daemon");
    help.split(". ").next().unwrap_or(&help).trim_end_matches('.').replace('\n', " ")
}

fn values(flag: Flag, program: Program, sources: &Sources) -> Vec<String> {
    if let Kind::Choice(words) = flag.kind {
        return words.iter().map(|word| (*word).to_owned()).collect();
    }
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match (program, flag.setting) {
        (_, "output") => words(&outputters::NAMES),
        (Program::SaltKey, "list") => words(&["acc", "all", "den", "pre", "rej", "un"]),
        (Program::SaltKey, "accept") => sources.keys("minions_pre"),
        (Program::SaltKey, "reject") => sources.keys("minions_pre"),
        (Program::SaltKey, "delete" | "print" | "finger") => {
            let banks = ["minions", "minions_pre", "minions_rejected", "minions_denied"];
            banks.iter().flat_map(|bank| sources.keys(bank)).collect()
        }
        (_, "state_output") => words(&["full", "terse", "mixed", "changes", "full_id", "filter"]),
        (_, "state_verbose") => words(&["True", "False"]),
        _ => Vec::new(),
    }
}

/// Completes the part of a list after the last separator.
fn behind(typed: &str, separator: &[char], words: Vec<String>) -> Vec<Candidate> {
    let done = typed.rfind(separator).map_or(0, |place| place + 1);
    words.into_iter().map(|word| Candidate::plain(format!("{}{word}", &typed[..done]))).collect()
}

fn target(kind: &str, typed: &str, sources: &Sources) -> Vec<Candidate> {
    match kind {
        "" | "pcre" => behind("", &[], sources.keys("minions")),
        "list" => behind(typed, &[','], sources.keys("minions")),
        "nodegroup" => behind("", &[], sources.nodegroups()),
        "compound" => {
            let word = typed.rsplit([' ', '(']).next().unwrap_or_default();
            match word.get(..2) {
                // The letters before `@` choose the matcher, and with it what follows.
                Some("N@") => behind(typed, &['@'], sources.nodegroups()),
                Some("L@") => behind(typed, &['@', ','], sources.keys("minions")),
                _ => behind(typed, &[' ', '('], sources.keys("minions")),
            }
        }
        _ => Vec::new(),
    }
}

/// Completes functions, or the modules that have some. Several functions are separated by commas.
fn functions(typed: &str, known: &[String]) -> Vec<Candidate> {
    let last = typed.rsplit(',').next().unwrap_or_default();
    let fitting: Vec<&String> = known.iter().filter(|name| name.starts_with(last)).collect();
    let mut modules: Vec<String> =
        fitting.iter().filter_map(|name| Some(format!("{}.", name.split_once('.')?.0))).collect();
    modules.sort_unstable();
    modules.dedup();
    // Thousands of functions are too many for a list; the modules come first.
    let words = match last.contains('.') || modules.len() < 2 {
        true => fitting.into_iter().cloned().collect(),
        false => modules,
    };
    behind(typed, &[','], words)
}

/// Functions whose first argument is a list of SLS files.
const SLS: [&str; 10] = [
    "state.apply",
    "state.orch",
    "state.orchestrate",
    "state.orchestrate_show_sls",
    "state.show_low_sls",
    "state.show_sls",
    "state.sls",
    "state.sls_exists",
    "state.sls_id",
    "state.test",
];

/// Functions whose arguments are functions.
const ABOUT_FUNCTIONS: [&str; 4] = ["sys.argspec", "sys.doc", "sys.list_functions", "doc.execution"];

/// Functions whose first argument is a job id.
const ABOUT_JOBS: [&str; 12] = [
    "jobs.exit_success",
    "jobs.list_job",
    "jobs.lookup_jid",
    "jobs.print_job",
    "saltutil.find_job",
    "saltutil.kill_job",
    "saltutil.term_job",
    "state.pause",
    "state.resume",
    "state.rm_pause",
    "state.set_pause",
    "state.soft_kill",
];

fn argument(function: &str, place: usize, program: Program, typed: &str, sources: &Sources) -> Vec<Candidate> {
    let mut found = match function {
        _ if place == 0 && SLS.contains(&function) => behind(typed, &[','], sources.sls()),
        "state.sls_id" if place == 1 => behind(typed, &[','], sources.sls()),
        _ if ABOUT_FUNCTIONS.contains(&function) => functions(typed, &sources.functions(Program::Salt)),
        _ if place == 0 && ABOUT_JOBS.contains(&function) => {
            sources.jobs().into_iter().map(|(word, about)| Candidate { word, about }).collect()
        }
        "state.single" | "sys.state_doc" | "sys.state_argspec" if place == 0 => functions(typed, &sources.states()),
        _ => Vec::new(),
    };
    // The names of all arguments would hide the wanted one.
    if found.is_empty() && !typed.is_empty() && !typed.contains('=') {
        let names = sources.parameters(program, function);
        found.extend(names.into_iter().map(|name| Candidate::plain(format!("{name}="))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_completed_arguments_exist() {
        let sources = Sources::new(None, None);
        let (on_minions, on_master) = (sources.functions(Program::Salt), sources.functions(Program::SaltRun));
        let known = |name: &str| on_minions.iter().chain(&on_master).any(|function| function == name);
        let unknown: Vec<&str> =
            SLS.into_iter().chain(ABOUT_FUNCTIONS).chain(ABOUT_JOBS).filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
