//! Where apt takes packages from: `sources.list` in its two forms.

use std::path::Path;

use value::{Map, Value, map};

/// A place packages come from: one kind, one address, one suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file it is written in.
    pub file: String,
    /// The line, or what it would be in the older form.
    pub line: String,
    /// Whether it is written but not used.
    pub disabled: bool,
    /// `deb`, `deb-src`.
    pub types: Vec<String>,
    /// The addresses.
    pub uris: Vec<String>,
    /// The releases.
    pub suites: Vec<String>,
    /// The parts of a release.
    pub comps: Vec<String>,
    /// The architectures, if not all.
    pub architectures: Vec<String>,
    /// The keyring.
    pub signedby: String,
}

/// Reads all sources below `/etc/apt`.
pub fn all(etc_apt: &Path) -> Vec<Source> {
    let mut files = vec![etc_apt.join("sources.list")];
    let mut more: Vec<_> = std::fs::read_dir(etc_apt.join("sources.list.d"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    more.sort();
    files.extend(more);
    let mut sources = Vec::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let name = file.to_string_lossy();
        match file.extension().and_then(|end| end.to_str()) {
            Some("list") => sources.extend(text.lines().filter_map(|line| one_line(line, &name))),
            Some("sources") => sources.extend(stanzas(&text).iter().filter_map(|fields| stanza(fields, &name))),
            _ => {}
        }
    }
    sources
}

/// Reads `deb [signed-by=…] http://… bookworm main # remark`; behind a `#` it is a disabled one.
pub fn one_line(line: &str, file: &str) -> Option<Source> {
    let bare = line.trim().trim_start_matches('#').trim();
    let disabled = line.trim().starts_with('#');
    let (kind, rest) = bare.split_once(char::is_whitespace)?;
    if !["deb", "deb-src"].contains(&kind) {
        return None;
    }
    let rest = rest.split('#').next().unwrap_or_default().trim();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    if !uri.contains(':') {
        return None;
    }
    let option = |name: &str| options.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    Some(Source {
        file: file.to_owned(),
        line: line.trim().to_owned(),
        disabled,
        types: vec![kind.to_owned()],
        uris: vec![uri],
        suites: vec![suite],
        comps: words.collect(),
        architectures: option("arch").map(|text| text.split(',').map(str::to_owned).collect()).unwrap_or_default(),
        signedby: option("signed-by").unwrap_or_default().to_owned(),
    })
}

/// Splits into paragraphs of `Field: value`; lines that begin with a blank go on with the field before.
pub fn stanzas(text: &str) -> Vec<Vec<(String, String)>> {
    let mut found: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let current = found.last_mut().expect("there is always one");
        if line.trim().is_empty() {
            if !current.is_empty() {
                found.push(Vec::new());
            }
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = current.last_mut() {
                value.push('\n');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            current.push((name.trim().to_lowercase(), value.trim().to_owned()));
        }
    }
    found.retain(|fields| !fields.is_empty());
    found
}

fn stanza(fields: &[(String, String)], file: &str) -> Option<Source> {
    let field = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map_or("", |(_, value)| value.as_str());
    let words = |name: &str| field(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let source = Source {
        file: file.to_owned(),
        line: String::new(),
        disabled: ["no", "false", "0"].contains(&field("enabled").to_lowercase().as_str()),
        types: words("types"),
        uris: words("uris"),
        suites: words("suites"),
        comps: words("components"),
        architectures: words("architectures"),
        signedby: field("signed-by").to_owned(),
    };
    let complete = !source.types.is_empty() && !source.uris.is_empty() && !source.suites.is_empty();
    complete.then_some(source)
}

impl Source {
    /// Returns each combination of kind, address and suite, as `pkg.list_repos` shows it, with the address.
    pub fn shown(&self) -> Vec<(String, Map)> {
        let mut shown = Vec::new();
        for uri in &self.uris {
            for suite in &self.suites {
                for kind in &self.types {
                    shown.push((uri.clone(), self.one(uri, suite, kind)));
                }
            }
        }
        shown
    }

    fn one(&self, uri: &str, suite: &str, kind: &str) -> Map {
        map! {
            "file" => self.file.as_str(),
            "comps" => self.comps.clone(),
            "disabled" => self.disabled,
            "enabled" => !self.disabled,
            "dist" => suite,
            "suites" => self.suites.clone(),
            "type" => kind,
            "types" => self.types.clone(),
            "uri" => uri,
            "uris" => self.uris.clone(),
            "line" => if self.line.is_empty() { self.older_form(uri, suite, kind) } else { self.line.clone() },
            "architectures" => self.architectures.clone(),
            "signedby" => if self.signedby.is_empty() { Value::from("") } else { Value::from(self.signedby.as_str()) },
        }
    }

    fn older_form(&self, uri: &str, suite: &str, kind: &str) -> String {
        let mut options = Vec::new();
        if !self.architectures.is_empty() {
            options.push(format!("arch={}", self.architectures.join(",")));
        }
        if !self.signedby.is_empty() {
            options.push(format!("signed-by={}", self.signedby));
        }
        let options = if options.is_empty() { String::new() } else { format!("[{}] ", options.join(" ")) };
        let disabled = if self.disabled { "# " } else { "" };
        format!("{disabled}{kind} {options}{uri} {suite} {}", self.comps.join(" ")).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn lines_of_the_older_form_are_read() {
        let source =
            one_line("# deb [arch=amd64,i386 signed-by=/k.gpg] http://x/debian bookworm main contrib # y", "f")
                .unwrap();
        assert!(source.disabled);
        assert_eq!(source.architectures, ["amd64", "i386"]);
        assert_eq!(source.comps, ["main", "contrib"]);
        assert_eq!(source.signedby, "/k.gpg");
        for wrong in ["# a remark", "deb", "deb http://x", "debx http://x y", "# deb packages come from", ""] {
            assert_eq!(one_line(wrong, "f"), None, "{wrong}");
        }
    }

    #[test]
    fn paragraphs_of_the_newer_form_are_read() {
        let text = "# remark\nTypes: deb deb-src\nURIs: http://x/debian\nSuites: bookworm\n bookworm-updates\n\
                    Components: main\nSigned-By: /k.gpg\n\nEnabled: no\nTypes: deb\nURIs: http://y\nSuites: z\n\nTypes: deb\n";
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sources.list.d")).unwrap();
        std::fs::write(folder.path().join("sources.list.d/a.sources"), text).unwrap();
        let sources = all(folder.path());
        assert_eq!(sources.len(), 2);
        let shown = sources[0].shown();
        assert_eq!(shown.len(), 4);
        assert_eq!(shown[0].1.get_str("line"), Some("deb [signed-by=/k.gpg] http://x/debian bookworm main"));
        assert_eq!(shown[3].1.get("suites"), Some(&list!["bookworm", "bookworm-updates"]));
        assert!(sources[1].disabled);
    }
}
