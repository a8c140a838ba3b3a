//! The content of a file: options, sections and lines that are neither, in their order.

use exec::{Error, Result};
use indexmap::IndexMap;
use regex::Regex;
use value::{Map, Value, map};

/// An option's text, or a section.
#[derive(Clone, Debug)]
pub enum Entry {
    /// The text behind the separator, or the line of a comment.
    Text(String),
    /// Options outside of sections.
    Section(Section),
}

impl Entry {
    /// Returns the section, if it is one.
    pub fn section(&self) -> Option<&Section> {
        match self {
            Entry::Section(section) => Some(section),
            Entry::Text(_) => None,
        }
    }

    /// Returns it as data, comments among it.
    pub fn to_value(&self) -> Value {
        match self {
            Entry::Text(text) => text.into(),
            Entry::Section(section) => section.to_map().into(),
        }
    }
}

/// A section, or the whole file. Comments have the keys `#comment1` and so on, lines that are no options `#unknown1`.
#[derive(Clone, Debug)]
pub struct Section {
    /// The separator between an option and its value, as it was last seen.
    pub separator: String,
    /// Puts no spaces around the separator.
    pub no_spaces: bool,
    entries: IndexMap<String, Entry>,
}

/// Builds the pattern of an option: indent, name, separator, value.
pub fn option_pattern(separator: &str) -> Result<Regex> {
    // The name is matched as shortly as possible: a value may hold the separator too.
    let pattern = format!(r"^(\s*)(.+?)\s*({})\s*(.*)\s*", regex::escape(separator));
    Regex::new(&pattern)
        .map_err(|error| Error::invocation(format!("the separator '{separator}' cannot be used: {error}")))
}

impl Section {
    /// Creates an empty section.
    pub fn new(separator: &str, no_spaces: bool) -> Self {
        Section { separator: separator.to_owned(), no_spaces, entries: IndexMap::new() }
    }

    /// Returns the entry of a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Returns the section under a key.
    pub fn section_mut(&mut self, key: &str) -> Option<&mut Section> {
        match self.entries.get_mut(key) {
            Some(Entry::Section(section)) => Some(section),
            _ => None,
        }
    }

    /// Removes and returns the entry of a key.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        self.entries.shift_remove(key)
    }

    /// Iterates over keys and entries.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.entries.iter()
    }

    /// Appends a line to the last entry; false when that is not text.
    pub fn continue_last(&mut self, line: &str) -> bool {
        match self.entries.last_mut() {
            Some((_, Entry::Text(text))) => {
                text.push('\n');
                text.push_str(line);
                true
            }
            _ => false,
        }
    }

    /// Sets the options of the map and returns the changes.
    ///
    /// # Errors
    /// When a section is to become a plain value.
    pub fn update(&mut self, wanted: &Map) -> Result<Map> {
        let mut changes = Map::new();
        for (key, value) in wanted.iter() {
            let key = key.to_string();
            let entry = match value {
                Value::Map(inner) => {
                    let mut section = Section::new(&self.separator, self.no_spaces);
                    section.update(inner)?;
                    Entry::Section(section)
                }
                other => Entry::Text(other.to_string()),
            };
            self.put(key, entry, &mut changes)?;
        }
        Ok(changes)
    }

    /// Sets one entry and notes what changed.
    pub fn put(&mut self, key: String, entry: Entry, changes: &mut Map) -> Result<()> {
        let after = entry.to_value();
        let Some(current) = self.entries.get_mut(&key) else {
            changes.insert(key.clone(), map! { "before" => (), "after" => after });
            if matches!(entry, Entry::Text(_)) {
                // Files often ship with all options commented out; Salt puts the value where the administrator looks
                // for it.
                self.take_place_of_comment(&key)?;
            }
            self.entries.insert(key, entry);
            return Ok(());
        };
        match (current, entry) {
            (Entry::Section(current), Entry::Section(new)) => {
                // A section is merged: options that are not named stay.
                let inner = current.update(&new.to_map())?;
                if !inner.is_empty() {
                    changes.insert(key, inner);
                }
            }
            // Salt fails here as well, with a message of Python about an attribute.
            (Entry::Section(_), Entry::Text(_)) => {
                return Err(Error::Other(format!("the section '{key}' cannot become an option")));
            }
            (Entry::Text(current), Entry::Text(new)) if *current == new => {}
            (current, entry) => {
                changes.insert(key, map! { "before" => current.to_value(), "after" => after });
                *current = entry;
            }
        }
        Ok(())
    }

    /// Puts a new option where a comment shows it switched off, and removes the comment.
    fn take_place_of_comment(&mut self, key: &str) -> Result<()> {
        let pattern = option_pattern(&self.separator)?;
        let shows = |name: &str, entry: &Entry| match entry {
            Entry::Text(text) if name.contains("#comment") => {
                pattern.captures(text.trim_start_matches('#')).is_some_and(|found| &found[2] == key)
            }
            _ => false,
        };
        if let Some(place) = self.entries.iter().position(|(name, entry)| shows(name, entry)) {
            // `shift` keeps the order of all others; a swap would move the last option up.
            self.entries.shift_remove_index(place);
            self.entries.shift_insert(place, key.to_owned(), Entry::Text(String::new()));
        }
        Ok(())
    }

    /// Returns everything as data.
    pub fn to_map(&self) -> Map {
        self.iter().map(|(key, entry)| (key.as_str(), entry.to_value())).collect()
    }

    /// Returns the options as data, without comments and unknown lines; those of inner sections too when `deep`.
    pub fn without_comments(&self, deep: bool) -> Map {
        let plain = self.iter().filter(|(key, _)| !key.starts_with('#'));
        let value = |entry: &Entry| match entry {
            Entry::Section(section) if deep => section.without_comments(true).into(),
            other => other.to_value(),
        };
        plain.map(|(key, entry)| (key.as_str(), value(entry))).collect()
    }
}
