//! The contents of an environment.

use std::collections::{BTreeMap, BTreeSet};

use value::{Map, Value, map};

/// The contents of an environment, by relative path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Everything that is not a directory.
    pub files: BTreeSet<String>,
    /// Directories.
    pub dirs: BTreeSet<String>,
    /// Empty directories.
    pub empty_dirs: BTreeSet<String>,
    /// Links and their targets.
    pub links: BTreeMap<String, String>,
}

impl Lists {
    /// Returns the lists in their form on disk.
    pub(super) fn to_map(&self) -> Map {
        let list = |names: &BTreeSet<String>| names.iter().collect::<Value>();
        map! {
            "files" => list(&self.files),
            "dirs" => list(&self.dirs),
            "empty_dirs" => list(&self.empty_dirs),
            "links" => self.links.iter().collect::<Map>(),
        }
    }

    pub(super) fn from_map(map: &Map) -> Self {
        let names = |key: &str| -> BTreeSet<String> {
            let list = map.get(key).and_then(Value::as_list).unwrap_or_default();
            list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let links = map.get("links").and_then(Value::as_map).cloned().unwrap_or_default();
        let link = |(from, to): (Value, Value)| Some((from.into_string()?, to.into_string()?));
        Lists {
            files: names("files"),
            dirs: names("dirs"),
            empty_dirs: names("empty_dirs"),
            links: links.into_iter().filter_map(link).collect(),
        }
    }

    /// Adds the lists of another backend. For links of the same name, the first one stays.
    pub(super) fn add(&mut self, other: Lists) {
        self.files.extend(other.files);
        self.dirs.extend(other.dirs);
        self.empty_dirs.extend(other.empty_dirs);
        for (link, target) in other.links {
            // The first backend wins, as for the file itself.
            self.links.entry(link).or_insert(target);
        }
    }
}
