//! The older form: `deb [arch=amd64 signed-by=/k.gpg] http://… bookworm main # remark`.

use std::sync::LazyLock;

use regex::Regex;

use super::{MAIN_FILE, yes_or_no};

// Brackets without `=` may be part of a URI, as in the names of CDs.
static OPTIONS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[(.*?=.*?)\]").expect("the pattern is fixed"));
// The name of a disc has blanks, so it cannot be split at them.
static DISC: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(.*)(cdrom:.*/)(.*)").expect("the pattern is fixed"));

/// A line of a file of sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The line as it was written.
    pub line: String,
    /// The file that contains it.
    pub file: String,
    /// True if the line describes no source.
    pub invalid: bool,
    /// True if the line begins with `#`.
    pub disabled: bool,
    /// `deb`, `deb-src`.
    pub kind: String,
    /// The architectures, if not all.
    pub architectures: Vec<String>,
    /// The keyring.
    pub signedby: String,
    /// True if the source is accepted without a signature.
    pub trusted: Option<bool>,
    /// The address.
    pub uri: String,
    /// The release.
    pub dist: String,
    /// The parts of the release.
    pub comps: Vec<String>,
    /// The remark at its end.
    pub comment: String,
}

/// An option in brackets: its name, its text, its value.
struct Setting {
    name: String,
    full: String,
    value: String,
}

fn settings(line: &str) -> Vec<Setting> {
    let Some(found) = OPTIONS.find(line) else { return Vec::new() };
    let mut all: Vec<Setting> = Vec::new();
    for word in found.as_str().trim_matches(['[', ']']).split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let name = match key {
            // `arch+=` and `arch-=` are treated like `arch=`, as in Salt's copy of aptsources.
            _ if word.starts_with("arch") => "arch",
            _ if word.starts_with("signed-by") => "signedby",
            other => other,
        };
        let setting = Setting { name: name.to_owned(), full: word.to_owned(), value: value.to_owned() };
        match all.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = setting,
            None => all.push(setting),
        }
    }
    all
}

impl Line {
    /// Reads a line of a file; without a file it is the main one.
    ///
    /// # Errors
    /// When too little is left of a source without its options.
    pub fn parse(text: &str, file: Option<&str>) -> Result<Line, String> {
        let mut line = Line { line: text.to_owned(), file: file.unwrap_or(MAIN_FILE).to_owned(), ..Line::default() };
        let mut words = line.frame(text);
        if line.invalid {
            return Ok(line);
        }
        if words[1].starts_with('[') {
            line.read_options(text, &mut words)?;
        }
        if words.len() < 3 {
            return Err(format!("Invalid repository definition: {}", words.join(" ")));
        }
        line.comps = words.split_off(3);
        let mut words = words.into_iter();
        let mut next = || words.next().unwrap_or_default();
        (line.kind, line.uri, line.dist) = (next(), next(), next());
        Ok(line)
    }

    /// Strips marks and comment and splits the rest; sets `invalid` if it cannot be a source.
    fn frame(&mut self, text: &str) -> Vec<String> {
        let mut text = text.trim();
        if text.is_empty() {
            self.invalid = true;
            return Vec::new();
        }
        // A comment that reads like a source is a disabled source. Any other is invalid, and so stays as it is.
        if let Some(rest) = text.strip_prefix('#') {
            self.disabled = true;
            text = rest;
        }
        if let Some(place) = text.find('#').filter(|place| *place > 0) {
            self.comment = text[place + 1..].to_owned();
            text = &text[..place];
        }
        let split = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let words = match DISC.captures(text.trim()) {
            Some(found) => [split(&found[1]), vec![found[2].trim().to_owned()], split(&found[3])].concat(),
            None => split(text),
        };
        let known = words.first().is_some_and(|kind| ["deb", "deb-src", "rpm", "rpm-src"].contains(&kind.as_str()));
        let open = words.get(1).is_some_and(|word| word.starts_with('['))
            && !words.iter().skip(1).any(|word| word.ends_with(']'));
        self.invalid = !known || words.len() < 3 || open;
        words
    }

    fn read_options(&mut self, text: &str, words: &mut Vec<String>) -> Result<(), String> {
        *words = words.iter().map(|word| word.trim_matches(['[', ']']).to_owned()).collect();
        words.retain(|word| !word.is_empty());
        for setting in settings(text) {
            match setting.name.as_str() {
                "arch" => self.architectures = setting.value.split(',').map(str::to_owned).collect(),
                "signedby" => self.signedby = setting.value.clone(),
                "trusted" => self.trusted = Some(yes_or_no(&setting.value)?),
                _ => {}
            }
            if let Some(place) = words.iter().position(|word| *word == setting.full) {
                words.remove(place);
            }
        }
        Ok(())
    }

    /// The options in brackets, as they are now.
    fn options(&self) -> Vec<String> {
        // Options that are not arguments (`by-hash`, `lang` …) come from the old line and keep their order.
        let mut all = settings(&self.line);
        let mut put = |name: &str, key: &str, value: String| {
            let full = format!("{key}={value}");
            match all.iter_mut().find(|setting| setting.name == name) {
                Some(known) => (known.full, known.value) = (full, value),
                None => all.push(Setting { name: name.to_owned(), full, value }),
            }
        };
        if !self.architectures.is_empty() {
            put("arch", "arch", self.architectures.join(","));
        }
        if !self.signedby.is_empty() {
            put("signedby", "signed-by", self.signedby.clone());
        }
        if self.trusted == Some(true) {
            put("trusted", "trusted", "yes".into());
        }
        // `trusted=no` is the default of apt and not worth an option.
        all.retain(|setting| setting.name != "trusted" || setting.value != "no");
        all.into_iter().map(|setting| setting.full).filter(|full| !full.is_empty()).collect()
    }

    /// The line to write, with its end.
    pub fn written(&self) -> String {
        // Comments and whatever else is not a source must survive a rewriting of the file.
        if self.invalid {
            return self.line.clone();
        }
        let mut words: Vec<String> = Vec::new();
        words.extend(self.disabled.then(|| "#".to_owned()));
        words.push(self.kind.clone());
        let options = self.options();
        words.extend((!options.is_empty()).then(|| format!("[{}]", options.join(" "))));
        words.extend([self.uri.clone(), self.dist.clone(), self.comps.join(" ")]);
        words.extend((!self.comment.is_empty()).then(|| format!("#{}", self.comment)));
        words.join(" ") + "\n"
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.written().trim())
    }
}

/// Joins remarks to one.
pub fn combined_comments(comments: &value::Value) -> String {
    let all: Vec<String> = match comments {
        value::Value::List(items) => items.iter().map(ToString::to_string).collect(),
        single => vec![single.to_string()],
    };
    all.join(" ").trim().to_owned()
}

/// Takes the slashes off the end of the address in a line.
pub fn strip_uri(repo: &str) -> String {
    let bare = |word: &str| match ["http://", "https://", "ftp://"].iter().any(|start| word.starts_with(start)) {
        true => word.trim_end_matches('/').to_owned(),
        false => word.to_owned(),
    };
    repo.split_whitespace().map(bare).collect::<Vec<_>>().join(" ")
}
