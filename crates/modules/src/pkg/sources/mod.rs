//! Reads and writes apt's sources: `sources.list` and the files in `sources.list.d`, in both formats.

mod line;
mod list;
mod stanza;

pub use line::{Line, combined_comments, strip_uri};
pub use list::SourcesList;
pub use stanza::Stanza;

use value::{Map, Value, map};

/// The file sources go to when no other is named.
pub const MAIN_FILE: &str = "/etc/apt/sources.list";

/// One entry, in the older form or the newer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line.
    Line(Line),
    /// A paragraph.
    Stanza(Stanza),
}

/// Reads words such as `yes` and `off`.
///
/// # Errors
/// For any other word.
// apt's own words for booleans.
pub fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "no" | "false" | "without" | "off" | "disable" | "0" => Ok(false),
        "yes" | "true" | "with" | "on" | "enable" | "1" => Ok(true),
        other => Err(format!("Unable to convert to boolean: {other}")),
    }
}

impl Source {
    /// The file that contains it.
    pub fn file(&self) -> &str {
        match self {
            Source::Line(line) => &line.file,
            Source::Stanza(stanza) => &stanza.file,
        }
    }

    /// Moves it to another file.
    pub fn set_file(&mut self, file: &str) {
        match self {
            Source::Line(line) => line.file = file.to_owned(),
            Source::Stanza(stanza) => stanza.file = file.to_owned(),
        }
    }

    /// Returns whether it describes no source: a comment or an empty line.
    pub fn invalid(&self) -> bool {
        match self {
            Source::Line(line) => line.invalid,
            Source::Stanza(stanza) => stanza.tags.is_empty(),
        }
    }

    /// Returns whether it is disabled.
    pub fn disabled(&self) -> bool {
        match self {
            Source::Line(line) => line.disabled,
            Source::Stanza(stanza) => stanza.disabled(),
        }
    }

    /// `deb`, `deb-src`; of a paragraph all in one text.
    pub fn kind(&self) -> String {
        match self {
            Source::Line(line) => line.kind.clone(),
            Source::Stanza(stanza) => stanza.get("Types").to_owned(),
        }
    }

    /// `deb`, `deb-src`.
    pub fn types(&self) -> Vec<String> {
        match self {
            Source::Line(line) => vec![line.kind.clone()],
            Source::Stanza(stanza) => stanza.words("Types"),
        }
    }

    /// The addresses.
    pub fn uris(&self) -> Vec<String> {
        match self {
            Source::Line(line) => vec![line.uri.clone()],
            Source::Stanza(stanza) => stanza.words("URIs"),
        }
    }

    /// The releases.
    pub fn suites(&self) -> Vec<String> {
        match self {
            Source::Line(line) if line.dist.is_empty() => Vec::new(),
            Source::Line(line) => vec![line.dist.clone()],
            Source::Stanza(stanza) => stanza.words("Suites"),
        }
    }

    /// Sets the releases; a line has one at most.
    pub fn set_suites(&mut self, suites: &[String]) {
        match self {
            Source::Line(line) => line.dist = suites.first().cloned().unwrap_or_default(),
            Source::Stanza(stanza) => stanza.set("Suites", suites.join(" ")),
        }
    }

    /// The parts of a release.
    pub fn comps(&self) -> Vec<String> {
        match self {
            Source::Line(line) => line.comps.clone(),
            Source::Stanza(stanza) => stanza.words("Components"),
        }
    }

    /// Sets the parts of a release.
    pub fn set_comps(&mut self, comps: Vec<String>) {
        match self {
            Source::Line(line) => line.comps = comps,
            Source::Stanza(stanza) => stanza.set("Components", comps.join(" ")),
        }
    }

    /// The architectures, if not all.
    pub fn architectures(&self) -> Vec<String> {
        match self {
            Source::Line(line) => line.architectures.clone(),
            Source::Stanza(stanza) => stanza.words("Architectures"),
        }
    }

    /// The keyring.
    pub fn signedby(&self) -> Value {
        match self {
            Source::Line(line) => line.signedby.as_str().into(),
            Source::Stanza(stanza) => stanza.find("Signed-By").map_or(Value::Null, Value::from),
        }
    }

    /// Returns whether kind, address and release are these.
    pub fn is(&self, kind: &str, uri: &str, dist: &str) -> bool {
        // To apt a slash at the end makes no difference.
        let bare = |uri: &str| uri.trim_end_matches('/').to_owned();
        self.kind().split_whitespace().any(|own| own == kind)
            && self.uris().iter().any(|own| bare(own) == bare(uri))
            && self.suites().iter().any(|own| own == dist)
    }

    /// Returns each combination of kind, address and suite, as `pkg.list_repos` shows it, with the address.
    pub fn repo_entries(&self) -> Vec<(String, Map)> {
        let mut shown = Vec::new();
        for uri in self.uris() {
            for suite in self.suites() {
                for kind in self.types() {
                    shown.push((uri.clone(), self.one(&uri, &suite, &kind)));
                }
            }
        }
        shown
    }

    fn one(&self, uri: &str, suite: &str, kind: &str) -> Map {
        let text = match self {
            Source::Line(line) => line.line.trim().to_owned(),
            Source::Stanza(stanza) => stanza.as_line(uri, suite, kind).to_string(),
        };
        map! {
            "file" => self.file(),
            "comps" => self.comps(),
            "disabled" => self.disabled(),
            "enabled" => !self.disabled(),
            "dist" => suite,
            "suites" => self.suites(),
            "type" => kind,
            "types" => self.types(),
            "uri" => uri,
            "uris" => self.uris(),
            "line" => text,
            "architectures" => self.architectures(),
            "signedby" => self.signedby(),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Line(line) => line.fmt(f),
            Source::Stanza(stanza) => stanza.fmt(f),
        }
    }
}
