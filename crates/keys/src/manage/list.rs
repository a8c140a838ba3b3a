//! Lists keys, and finds those that match a pattern or a list.

use std::fs;

use targeting::Glob;
use value::{Map, Value, map};
use wire::MinionId;

use super::selection::{append, matching, names, patterns, sorted, texts};
use super::{KeyManager, Selection};
use crate::{Bank, KeyError};

impl KeyManager {
    /// `{"minions_pre": […], "minions_rejected": […], "minions": […], "minions_denied": […]}`.
    pub fn list_keys(&self) -> Result<Map, KeyError> {
        let listing = self.store.list()?;
        Ok(Bank::LISTED.into_iter().map(|bank| (bank.directory(), names(listing.ids(bank)))).collect())
    }

    /// `key.list_all`: the same, and the files of the master's own keys under `local`.
    pub fn list_all(&self) -> Result<Map, KeyError> {
        let mut all = self.list_keys()?;
        all.insert("local", self.local_names()?);
        Ok(all)
    }

    /// `key.list`: one class of keys by the beginning of its name: `acc`, `pre` or `un`, `rej`, `den`, `all`.
    pub fn list(&self, class: &str) -> Result<Map, KeyError> {
        let classes = [
            ("acc", Bank::Accepted),
            ("pre", Bank::Pending),
            // Two prefixes for the same keys: `pre` and `un`, for "unaccepted".
            ("un", Bank::Pending),
            ("rej", Bank::Rejected),
            ("den", Bank::Denied),
        ];
        if class.starts_with("all") {
            return self.list_all();
        }
        let Some((_, bank)) = classes.into_iter().find(|(prefix, _)| class.starts_with(prefix)) else {
            return Ok(Map::new());
        };
        Ok(map! { bank.directory() => names(&self.store.ids(bank)?) })
    }

    /// `key.name_match`, `key.glob_match`: the ids that match, by directory. Directories without a match are left out.
    pub fn glob_match(&self, pattern: &Value) -> Result<Map, KeyError> {
        Ok(matching(pattern, self.list_keys()?))
    }

    /// `key.list_match`: ids by their exact names, by directory.
    pub fn list_match(&self, ids: &Value) -> Result<Map, KeyError> {
        let mut found = Map::new();
        for id in patterns(ids).iter().filter_map(|id| MinionId::new(id.as_str()).ok()) {
            let state = self.store.find(&id)?.map(|key| key.state.bank());
            let denied = self.store.read(Bank::Denied, &id)?.map(|_| Bank::Denied);
            state.into_iter().chain(denied).for_each(|bank| append(&mut found, bank, id.as_str()));
        }
        Ok(found)
    }

    /// Returns the current directories of the ids in a selection, whichever directories it names.
    fn dict_match(&self, selection: &Map) -> Result<Map, KeyError> {
        let current = self.store.list()?;
        let mut found = Map::new();
        for (_, ids) in selection {
            // Salt matches the names of a dictionary as globs as well.
            for id in sorted(texts(ids)) {
                let glob = Glob::new(&id);
                let banks = [Bank::Accepted, Bank::Pending, Bank::Rejected, Bank::Denied];
                let there = banks.into_iter().filter(|bank| {
                    current.ids(*bank).iter().any(|known| known.as_str() == id || glob.matches(known.as_str()))
                });
                there.for_each(|bank| append(&mut found, bank, &id));
            }
        }
        Ok(found)
    }

    pub(super) fn selected(&self, selection: &Selection<'_>) -> Result<Map, KeyError> {
        match selection {
            Selection::Match(pattern) => self.glob_match(pattern),
            Selection::Dict(dict) => Ok((*dict).clone()),
        }
    }

    pub(super) fn now(&self, selection: &Selection<'_>) -> Result<Map, KeyError> {
        match selection {
            Selection::Match(pattern) => self.glob_match(pattern),
            Selection::Dict(dict) => self.dict_match(dict),
        }
    }

    /// The names of the master's own key files. Links to files in the same directory are left out, because they are the
    /// same keys.
    pub(super) fn local_names(&self) -> Result<Value, KeyError> {
        let directory = &self.options.master.pki_dir;
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            // A master that never ran has no keys, which is no error.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Value::List(Vec::new())),
            Err(error) => return Err(KeyError::io("list keys in", directory)(error)),
        };
        let named = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let keys = named.filter(|name| {
            let link = fs::read_link(directory.join(name));
            let beside =
                link.is_ok_and(|to| to.parent().is_some_and(|at| at.as_os_str().is_empty() || at == directory));
            (name.ends_with(".pem") || name.ends_with(".pub")) && !beside && !name.starts_with('.')
        });
        Ok(sorted(keys.collect()).into_iter().collect())
    }
}
