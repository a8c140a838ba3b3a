//! Files of sources as dnf, yum and zypper keep them: sections with settings, read as Python's `configparser` reads them.

use exec::{Error, Result};
use value::{Map, Value};

use crate::util;

/// The content of a file of repos.
#[derive(Debug, Default, PartialEq)]
pub struct RepoFile {
    /// The remarks before the first section.
    pub header: String,
    /// The settings of each section; its remarks under `comments`.
    pub sections: Map,
}

impl RepoFile {
    /// Reads a file. With `strict` a section or a setting must not come twice.
    ///
    /// # Errors
    /// When it cannot be read or understood; the line is named.
    pub fn read(path: &str, strict: bool) -> Result<RepoFile> {
        let bytes = std::fs::read(path).map_err(|error| Error::io("read", path, &error))?;
        RepoFile::parse(&String::from_utf8_lossy(&bytes), path, strict)
    }

    fn parse(text: &str, path: &str, strict: bool) -> Result<RepoFile> {
        let mut reader = Reader { path, strict, found: RepoFile::default(), section: None, option: None };
        for (place, line) in text.lines().enumerate() {
            // Salt leaves out the whole file then.
            if !reader.take(line, place + 1)? {
                tracing::error!("{path} has a setting before the first section and is left out");
                return Ok(RepoFile::default());
            }
        }
        Ok(reader.found)
    }
}

struct Reader<'a> {
    path: &'a str,
    strict: bool,
    found: RepoFile,
    section: Option<String>,
    /// The setting that an indented line continues.
    option: Option<String>,
}

impl Reader<'_> {
    fn wrong(&self, line: usize, what: &str) -> Error {
        Error::execution(format!("{}, line {line}: {what}", self.path))
    }

    fn settings(&mut self) -> Option<&mut Map> {
        match self.found.sections.get_mut(self.section.as_deref()?) {
            Some(Value::Map(settings)) => Some(settings),
            _ => None,
        }
    }

    /// Adds a line; returns false when it is a setting outside of a section.
    fn take(&mut self, line: &str, place: usize) -> Result<bool> {
        let bare = line.trim();
        if let Some(remark) = bare.strip_prefix('#') {
            self.remark(bare, remark.trim_start());
            return Ok(true);
        }
        if bare.is_empty() || bare.starts_with(';') {
            return Ok(true);
        }
        // As in Python's `configparser`: an indented line belongs to the value above it.
        let goes_on = line.starts_with(char::is_whitespace);
        if let Some(option) = self.option.clone().filter(|_| goes_on) {
            if let Some(settings) = self.settings() {
                let before = settings.get(&option).map(Value::to_string).unwrap_or_default();
                settings.insert(option, format!("{before}\n{bare}"));
            }
            return Ok(true);
        }
        if let Some(name) = bare.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(name, _)| name) {
            let new = self.found.sections.get(name).is_none();
            if !new && self.strict {
                return Err(self.wrong(place, &format!("section '{name}' already exists")));
            }
            self.found.sections.entry_or_insert_with(name, || Value::Map(Map::new()));
            (self.section, self.option) = (Some(name.to_owned()), None);
            return Ok(true);
        }
        if self.section.is_none() {
            return Ok(false);
        }
        let Some((key, value)) = bare.split_once(['=', ':']) else {
            return Err(self.wrong(place, &format!("'{bare}' is not a setting")));
        };
        let key = key.trim().to_lowercase();
        let strict = self.strict;
        let twice = self.settings().is_some_and(|settings| settings.insert(key.as_str(), value.trim()).is_some());
        if twice && strict {
            return Err(self.wrong(place, &format!("option '{key}' already exists")));
        }
        self.option = Some(key);
        Ok(true)
    }

    fn remark(&mut self, line: &str, text: &str) {
        match self.settings() {
            None => {
                self.found.header += line;
                self.found.header.push('\n');
            }
            Some(settings) => {
                if let Value::List(remarks) = settings.entry_or_insert_with("comments", || Value::List(Vec::new())) {
                    remarks.push(text.into());
                }
            }
        }
    }
}

/// Returns the files of a directory with this ending, in order; none when there is no such directory.
///
/// # Errors
/// When the directory cannot be read.
pub fn names_in(folder: &str, end: &str) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", folder, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("read", folder, &error))?;
        names.extend(entry.file_name().into_string().ok().filter(|name| name.ends_with(end)));
    }
    names.sort();
    Ok(names)
}

/// Settings as lines, each between two texts. Remarks are left out.
pub fn written(settings: &Map, before: &str, behind: &str) -> String {
    let shown = |value: &Value| match value {
        // Yum's files have 1 and 0 where SLS files have booleans.
        Value::Bool(on) => if *on { "1" } else { "0" }.to_owned(),
        // Without the blank the second address would be read as a separate option.
        other => other.to_string().replace('\n', "\n "),
    };
    let settings = settings.iter().filter(|(key, _)| key.as_str() != Some("comments"));
    settings.map(|(key, value)| format!("{before}{key}={}{behind}", shown(value))).collect()
}

/// Remarks as lines.
pub fn remarks(list: Option<&Value>) -> String {
    let texts = match list {
        None => Vec::new(),
        Some(Value::List(items)) => items.iter().map(Value::to_string).collect(),
        Some(single) => vec![single.to_string()],
    };
    texts.iter().map(|text| format!("# {}\n", text.trim_start_matches('#').trim_start())).collect()
}

/// Writes a file in one step, with the mode it had.
///
/// # Errors
/// When it cannot be written.
pub fn store(path: &str, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // A file with a password in an address may have been closed to others.
    let mode = std::fs::metadata(path).map_or(0o644, |meta| meta.permissions().mode() & 0o7777);
    util::replace_file(std::path::Path::new(path), text.as_bytes(), mode)
        .map_err(|error| Error::io("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn sections_settings_and_remarks_are_read() {
        let text = "# head\n\n[a]\nName = A: b\n# one\nbaseurl=http://x\n  http://y\n; no\n[b]\nkey: v\n";
        let found = RepoFile::parse(text, "f", true).unwrap();
        assert_eq!(found.header, "# head\n");
        let a = map! { "name" => "A: b", "comments" => list!["one"], "baseurl" => "http://x\nhttp://y" };
        assert_eq!(found.sections, map! { "a" => a, "b" => map! { "key" => "v" } });
        assert!(RepoFile::parse("[a]\nx=1\nx=2\n", "f", true).unwrap_err().to_string().contains("f, line 3"));
        assert!(RepoFile::parse("[a]\nx=1\nx=2\n", "f", false).is_ok());
        assert_eq!(RepoFile::parse("x=1\n", "f", true).unwrap(), RepoFile::default());
        assert!(RepoFile::parse("[a]\nnonsense\n", "f", true).is_err());
    }

    #[test]
    fn settings_are_written() {
        let settings = map! { "a" => true, "b" => "x\ny", "comments" => list!["z"] };
        assert_eq!(written(&settings, "", "\n"), "a=1\nb=x\n y\n");
        assert_eq!(remarks(settings.get("comments")), "# z\n");
    }
}
