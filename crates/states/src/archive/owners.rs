//! Handing the unpacked files over to their user and group.

use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use exec::{Call, Result};
use value::{Value, map};

use super::plan::Plan;
use crate::Ret;

/// The paths that did not get the right owner.
#[derive(Default)]
pub(super) struct Owned {
    missing: Vec<String>,
    failed: Vec<String>,
}

impl Owned {
    /// Adds it to the result of the state.
    pub fn tell(&self, ret: &mut Ret, has_if_missing: bool) {
        let mut text = ret.comment.to_string();
        if !self.missing.is_empty() {
            // With `if_missing` an archive may lack the paths it lists, so missing ones are only
            // reported.
            if !has_if_missing {
                ret.result = Some(false);
            }
            text.push_str("\n\nWhile trying to enforce user/group ownership, the following paths were missing:\n");
            text.extend(self.missing.iter().map(|path| format!("\n- {path}")));
        }
        if !self.failed.is_empty() {
            ret.result = Some(false);
            text.push_str(
                "\n\nWhile trying to enforce user/group ownership, Salt was unable to change ownership on the following \
                 paths:\n",
            );
            text.extend(self.failed.iter().map(|path| format!("\n- {path}")));
        }
        ret.comment = text.into();
    }
}

impl Plan<'_> {
    /// Changes the owner of the top-level entries of the archive, or of one path, to the wanted user and group.
    pub(super) fn hand_over(&mut self) -> Result<Owned> {
        let mut owned = Owned::default();
        if self.uid.is_none() && self.gid.is_none() {
            return Ok(owned);
        }
        let (dirs, files) = match &self.given.enforce_ownership_on {
            Some(path) if Path::new(&path.to_string()).is_dir() => (vec![path.to_string()], Vec::new()),
            Some(path) => (Vec::new(), vec![path.to_string()]),
            // Only the top-level entries change; `file.directory` handles their contents.
            None => {
                let files = [self.paths("top_level_files"), self.paths("top_level_links")].concat();
                (self.paths("top_level_dirs"), files)
            }
        };
        for name in dirs {
            self.hand_over_directory(&name, &mut owned)?;
        }
        for name in files {
            self.hand_over_file(&name, &mut owned);
        }
        Ok(owned)
    }

    fn full(&self, name: &str) -> String {
        Path::new(&self.dir).join(name).to_string_lossy().into_owned()
    }

    fn hand_over_directory(&mut self, name: &str, owned: &mut Owned) -> Result<()> {
        let full = self.full(name);
        if !Path::new(&full).is_dir() {
            // In test mode nothing was unpacked, so missing paths mean nothing.
            if !self.ctx.is_test() {
                owned.missing.push(full);
            }
            return Ok(());
        }
        let (user, group) = (self.given.user.clone(), self.given.group.clone());
        let recurse: Vec<&str> =
            [("user", &user), ("group", &group)].iter().filter(|(_, id)| id.truthy()).map(|(name, _)| *name).collect();
        let kwargs = map! { "user" => user.clone(), "group" => group.clone(), "recurse" => recurse };
        let call = Call { args: vec![full.as_str().into()], kwargs };
        let done = self.ctx.call_state("file.directory", call)?;
        if done.get("changes").is_some_and(Value::truthy) {
            self.ret.changes.insert("updated ownership", true);
        }
        // Python's `not` takes None for a failure as well.
        if done.get("result") == Some(&Value::Bool(false)) || (done.get("result").is_none_or(Value::is_null)) {
            owned.failed.push(full);
        }
        Ok(())
    }

    fn hand_over_file(&mut self, name: &str, owned: &mut Owned) {
        let full = self.full(name);
        let meta = match std::fs::symlink_metadata(&full) {
            Ok(meta) => meta,
            Err(error) => {
                if !self.ctx.is_test() {
                    if error.kind() == std::io::ErrorKind::NotFound {
                        owned.missing.push(full.clone());
                    }
                    owned.failed.push(full);
                }
                return;
            }
        };
        let differs = self.uid.is_some_and(|uid| uid != meta.uid()) || self.gid.is_some_and(|gid| gid != meta.gid());
        if !differs {
            return;
        }
        // `lchown` changes links themselves. Following one would hand over a file outside the
        // directory.
        if self.ctx.is_test() || lchown(&full, self.uid, self.gid).is_ok() {
            self.ret.changes.insert("updated ownership", true);
        } else {
            owned.failed.push(name.to_owned());
        }
    }
}
