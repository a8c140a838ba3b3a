//! The functions that the code calls by a literal name, such as `"cmd.run"`, exist.
//!
//! The code is read as tokens, without comments, documentation and tests. A name is checked if it is an argument of a call that
//! takes the name of a function, or if it begins with the name of a module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Calls of which an argument is the name of an execution or state function.
const CALLS: &[&str] = &["call", "call_with", "call_permitted", "call_state", "find", "find_permitted", "has"];

/// Functions that only some of Salt's modules have, none of them here: states ask first whether they exist. The last one
/// exists in orchestrations only.
const NOT_HERE: &[&str] = &[
    "pkg.check_db",
    "pkg.check_extra_requirements",
    "pkg.ex_mod_init",
    "pkg.version_clean",
    "service.full_restart",
    "saltutil.wait_for_event",
];

/// Texts that begin with the name of a module and are something else: files, options and names in logs.
const OTHER_TEXTS: &[&str] = &[
    "aliases.file",
    "beacons.conf",
    "data.subdict_match",
    "hosts.file",
    "iptables.save_filters",
    "minion.out",
    "minion.pem",
    "minion.pub",
    "pillar.json",
    "postgres.bins_dir",
    "postgres.host",
    "postgres.maintenance_db",
    "postgres.pass",
    "postgres.port",
    "salt.crypt",
    "postgres.timeout",
    "postgres.user",
    "salt.config",
    "salt.master",
    "salt.template",
    "saltern.bash",
    "saltern.fish",
    "saltern.zsh",
    "schedule.conf",
    "test.foo",
];

/// The names of all functions, and of all modules.
struct Names {
    functions: BTreeSet<String>,
    modules: BTreeSet<&'static str>,
}

impl Names {
    fn all() -> Self {
        let mut names = Names { functions: BTreeSet::new(), modules: BTreeSet::new() };
        for module in modules::ALL.iter().chain(states::ALL) {
            names.add(module.name, module.functions.iter().map(|function| function.name));
        }
        for module in runners::RUNNERS.iter().chain(runners::WHEEL) {
            names.add(module.name, module.functions.iter().map(|function| function.name));
        }
        names
    }

    fn add(&mut self, module: &'static str, functions: impl Iterator<Item = &'static str>) {
        self.modules.insert(module);
        self.functions.extend(functions.map(|function| format!("{module}.{function}")));
    }

    /// Returns whether a text is the name of a function that does not exist.
    fn is_wrong(&self, text: &str, called: bool) -> bool {
        let Some((module, function)) = text.split_once('.') else { return false };
        let is_word = |word: &str| {
            let mut letters = word.bytes();
            letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
                && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_')
        };
        is_word(module)
            && is_word(function)
            && (called || self.modules.contains(module) && !OTHER_TEXTS.contains(&text))
            && !self.functions.contains(text)
            && !NOT_HERE.contains(&text)
    }
}

/// Reads code and collects the wrong names.
struct Reader {
    names: Names,
    /// The file that is read.
    file: PathBuf,
    wrong: BTreeMap<String, PathBuf>,
    called: usize,
}

impl Reader {
    fn stream(&mut self, stream: TokenStream, called: bool) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut place = 0;
        while let Some(token) = tokens.get(place) {
            place += 1;
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    let Some(TokenTree::Group(attribute)) = tokens.get(place) else { continue };
                    place += 1;
                    if attribute.stream().to_string().replace(' ', "").contains("cfg(test)") {
                        place = end_of_item(&tokens, place);
                    }
                }
                TokenTree::Literal(literal) => self.literal(&literal.to_string(), called),
                TokenTree::Group(group) => {
                    let name = place.checked_sub(2).and_then(|before| tokens.get(before));
                    let is_call = group.delimiter() == Delimiter::Parenthesis
                        && matches!(name, Some(TokenTree::Ident(name)) if CALLS.contains(&name.to_string().as_str()));
                    self.stream(group.stream(), is_call);
                }
                _ => {}
            }
        }
    }

    fn literal(&mut self, literal: &str, called: bool) {
        let Some(text) = literal.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else { return };
        self.called += usize::from(called && self.names.functions.contains(text));
        if self.names.is_wrong(text, called) {
            self.wrong.insert(text.to_owned(), self.file.clone());
        }
    }

    fn folder(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let is_test = stem.ends_with("tests")
                || ["testing", "replay"].iter().any(|start| stem.starts_with(start))
                || ["recorded", "bed"].contains(&stem);
            if is_test {
                continue;
            } else if path.is_dir() {
                self.folder(&path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let tokens = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                self.file = path;
                self.stream(tokens, false);
            }
        }
    }
}

/// Returns the place after the item that an attribute stands before.
fn end_of_item(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        _ => false,
    };
    tokens[from..].iter().position(ends).map_or(tokens.len(), |length| from + length + 1)
}

#[test]
fn functions_that_are_called_by_name_exist() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut reader = Reader { names: Names::all(), file: PathBuf::new(), wrong: BTreeMap::new(), called: 0 };
    for name in ["modules", "states", "state", "render", "runners", "minion", "master", "cli"] {
        reader.folder(&crates.join(name).join("src"));
    }
    assert!(reader.called > 200, "the calls are not found: only {}", reader.called);
    assert!(reader.wrong.is_empty(), "no such functions: {:#?}", reader.wrong);
}

#[test]
fn a_misspelt_name_is_noticed() {
    let mut reader = Reader { names: Names::all(), file: "x.rs".into(), wrong: BTreeMap::new(), called: 0 };
    let code = r#"ctx.call("cdm.run", a).await; ctx.call("cmd.run", a); let x = ["cmd.rnu", "notes.txt"];"#;
    reader.stream(code.parse().unwrap(), false);
    assert_eq!(reader.wrong.keys().collect::<Vec<_>>(), ["cdm.run", "cmd.rnu"]);
    assert_eq!(reader.called, 1);
}
