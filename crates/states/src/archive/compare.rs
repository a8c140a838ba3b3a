//! Compares the archive with the files that exist already.

use std::path::Path;

use exec::Result;
use value::Value;

use super::plan::Plan;
use super::{Step, sums};
use crate::support::call_for_bool;

/// The outcome of comparing an archive with the disk.
#[derive(Default)]
pub(super) struct Difference {
    /// True if the archive is to be unpacked.
    pub needed: bool,
    /// Since something is missing.
    pub missing: bool,
    /// Since its hash has changed.
    pub by_hash: bool,
    /// Paths that are something else than in the archive.
    wrong: Vec<String>,
}

impl Difference {
    /// Returns the reason, behind a comment.
    pub fn reason(&self) -> &'static str {
        match (self.by_hash, self.missing) {
            (true, _) => ", due to source_hash update",
            (_, true) => ", due to absence of one or more files/dirs",
            _ => "",
        }
    }
}

impl Plan<'_> {
    /// Compares the archive with the directory.
    pub(super) fn compare(&mut self) -> Step<Difference> {
        let mut found = Difference { needed: self.given.overwrite, ..Difference::default() };
        for (kind, is_kind) in [
            ("dirs", (|meta| meta.is_dir()) as fn(&std::fs::Metadata) -> bool),
            ("files", |meta| !meta.is_symlink() && !meta.is_dir()),
            ("links", |meta| meta.is_symlink()),
        ] {
            for path in self.paths(kind) {
                // A leading slash would make `join` throw the target directory away.
                let full = Path::new(&self.dir).join(path.trim_end_matches('/').trim_start_matches('/'));
                match full.symlink_metadata() {
                    // Only existence and kind are compared. A changed file counts as present, as in
                    // Salt.
                    Ok(meta) if is_kind(&meta) => {}
                    Ok(_) => found.wrong.push(path),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        found.needed = true;
                        found.missing = true;
                    }
                    // A parent is a file. That one is reported itself as being of the wrong kind.
                    Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {}
                    Err(error) => {
                        let text = modules::subprocess::os_text(&error, &full.to_string_lossy());
                        return Ok(Err(self.fail(text)));
                    }
                }
            }
        }
        if !found.wrong.is_empty()
            && let Some(ret) = self.handle_wrong(&mut found)
        {
            return Ok(Err(ret));
        }
        // The hash is compared last, and only if nothing else requires unpacking.
        if !found.needed
            && self.given.source_hash_update
            && let Some(old) = &self.old_sum
        {
            let kind = old.get_str("hash_type");
            found.by_hash = sums::read(self.ctx, &self.cached, kind).as_ref() != Some(old);
            found.needed = found.by_hash;
        }
        Ok(Ok(found))
    }

    /// Deals with paths that are of another kind. May end the state.
    fn handle_wrong(&mut self, found: &mut Difference) -> Option<crate::Ret> {
        let paths = found.wrong.iter().map(|path| format!("- {path}")).collect::<Vec<_>>().join("\n");
        let begin = format!(
            "The below paths (relative to {}) exist, but are the incorrect type (file instead of directory, symlink instead \
             of file, etc.).",
            self.dir
        );
        if self.ctx.is_test() && self.given.clean {
            return Some(self.ret.clone().would(format!(
                "{begin} Since the 'clean' option is enabled, the destination paths would be cleared and the archive would \
                 be extracted.\n\n{paths}"
            )));
        }
        if self.ctx.is_test() && self.given.clean_parent {
            return Some(self.ret.clone().would(format!(
                "{begin} Since the 'clean_parent' option is enabled, the destination parent directory would be removed first \
                 and then re-created and the archive would be extracted"
            )));
        }
        // `clean` removes everything at the top of the archive anyway.
        if self.given.clean {
            return None;
        }
        if !self.given.force {
            return Some(self.fail(format!(
                "{begin} To proceed with extraction, set 'force' to True. Note that this will remove these paths before \
                 extracting.\n\n{paths}"
            )));
        }
        let full: Vec<String> = found.wrong.iter().map(|path| format!("{}{path}", self.dir)).collect();
        let (removed, errors) = remove_all(&full);
        if !removed.is_empty() {
            found.needed = true;
            self.ret.changes.insert("removed", removed);
        }
        let begin = "One or more paths existed by were the incorrect type (i.e. file instead of directory or vice-versa), but \
                     could not be removed. The following errors were observed:\n";
        (!errors.is_empty()).then(|| self.fail(listed(begin, &errors)))
    }

    /// Removes files for `clean` and `clean_parent`, checks the hash, and reports in a test what would be done.
    pub(super) fn prepare(&mut self, found: &Difference) -> Result<Option<crate::Ret>> {
        // A downloaded archive was checked while it was fetched.
        if self.local && self.given.source_hash.truthy() && !self.given.skip_verify {
            let wanted = self.sum.get("hsum").cloned().unwrap_or_default();
            let arguments = value::map! { "path" => self.source.clone(), "file_hash" => wanted.clone() };
            if !call_for_bool(self.ctx, "file.check_hash", arguments)? {
                let text = format!("{} does not match the desired source_hash {wanted}", self.redacted_source());
                return Ok(Some(self.fail(text)));
            }
            self.ret.result = Some(true);
        }
        if self.ctx.is_test() {
            let after = if self.given.clean { ", after cleaning destination path(s)" } else { "" };
            let text = format!(
                "Archive {} would be extracted to {}{after}{}",
                self.redacted_source(),
                self.dir,
                found.reason()
            );
            return Ok(Some(self.ret.clone().would(text)));
        }
        // Before `clean`, which would have nothing left to do. Both together are refused earlier.
        if self.given.clean_parent {
            let (removed, errors) = remove_all(std::slice::from_ref(&self.dir));
            if !removed.is_empty() && !self.ret.changes.contains_key("removed") {
                let text = format!("Directory {} was removed prior to the extraction", self.dir);
                self.ret.changes.insert("removed", text);
            }
            if !errors.is_empty() {
                let begin =
                    format!("Unable to remove the directory {}. The following errors were observed:\n", self.dir);
                return Ok(Some(self.fail(listed(&begin, &errors))));
            }
        }
        if self.given.clean {
            // Only files of the archive itself are removed. Other files in the directory stay.
            let top = [self.paths("top_level_dirs"), self.paths("top_level_files")].concat();
            let full: Vec<String> = top.iter().map(|path| format!("{}{path}", self.dir)).collect();
            let (removed, errors) = remove_all(&full);
            if !removed.is_empty() {
                let all = self.ret.changes.entry_or_insert_with("removed", || Value::List(Vec::new()));
                if let Value::List(all) = all {
                    all.extend(removed.into_iter().map(Value::from));
                }
            }
            if !errors.is_empty() {
                let begin = "One or more paths could not be cleaned. The following errors were observed:\n";
                return Ok(Some(self.fail(listed(begin, &errors))));
            }
        }
        Ok(None)
    }
}

/// Errors below a text.
fn listed(begin: &str, errors: &[String]) -> String {
    errors.iter().fold(begin.to_owned(), |text, error| format!("{text}\n- {error}"))
}

/// Removes files and directories. Returns those that existed, and why others stay.
fn remove_all(paths: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut removed, mut errors) = (Vec::new(), Vec::new());
    for full in paths {
        let path = Path::new(full.trim_end_matches('/'));
        let gone = match path.symlink_metadata() {
            // The data of the link itself: a link to a directory must not lead to deleting the content of that
            // directory.
            Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
            Ok(_) => std::fs::remove_file(path),
            Err(error) => Err(error),
        };
        match gone {
            Ok(()) => removed.push(full.clone()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => errors.push(modules::subprocess::os_text(&error, &path.to_string_lossy())),
        }
    }
    (removed, errors)
}
