//! The first time: there is no repository yet.

use std::path::Path;

use exec::{Error, Result};
use value::{list, map};

use super::super::repo::{empty, is_filled, sentences, without_command};
use super::remote::RevType;
use super::{Latest, revs_equal};
use crate::Ret;

impl Latest<'_> {
    /// Clones the remote to where nothing is, or nothing that counts.
    pub(super) fn clone(&mut self) -> Result<Ret> {
        let arrow = format!("{} => {}", self.name, self.target);
        if Path::new(&self.target).is_dir()
            && let Some(ret) = self.make_room(&arrow)
        {
            return Ok(ret);
        }
        if self.ctx.is_test() {
            self.ret.changes.insert("new", arrow);
            let text = format!("Repository {} would be cloned to {}", self.name, self.target);
            return Ok(self.neutral(text));
        }
        if let Some(ret) = self.run_clone()? {
            return Ok(ret);
        }
        self.ret.changes.insert("new", arrow);
        let form = match (self.mirror, self.bare) {
            (true, _) => " as mirror",
            (_, true) => " as bare repository",
            _ => "",
        };
        self.comments.push(format!("{} cloned to {}{form}", self.name, self.target));
        // A bare repository has no files to check out.
        if !self.bare
            && let Some(ret) = self.check_out_clone()?
        {
            return Ok(ret);
        }
        if self.submodules
            && self.found.rev.is_some()
            && let Some(ret) = self.update_submodules(false)?
        {
            return Ok(ret);
        }
        // Cloning an empty remote leaves a repository without any commit.
        let new = self.look("revision", map! {})?;
        if new.is_some() {
            self.note_revision(None, new.as_deref());
        }
        let text = sentences(&self.comments);
        Ok(Ret { comment: text.into(), ..self.ret.clone() })
    }

    /// Empties the directory if requested. Returns a result if it stays full.
    fn make_room(&mut self, arrow: &str) -> Option<Ret> {
        let target = self.target.clone();
        if self.force_clone {
            if self.ctx.is_test() {
                self.ret.changes.update(map! { "forced clone" => true, "new" => arrow });
                return Some(self.neutral(format!(
                    "Target directory {target} exists. Since force_clone=True, the contents of {target} would be \
                     deleted, and {} would be cloned into this directory.",
                    self.name
                )));
            }
            if let Err(text) = empty(&target) {
                return Some(self.fail(text));
            }
            self.ret.changes.insert("forced clone", true);
        } else if is_filled(&target) {
            let text = format!(
                "Target '{target}' exists, is non-empty and is not a git repository. Set the 'force_clone' option to True \
                 to remove this directory's contents and proceed with cloning the remote repository"
            );
            return Some(self.ret.clone().fail(text));
        }
        None
    }

    fn run_clone(&mut self) -> Result<Option<Ret>> {
        let mut opts: Vec<String> = Vec::new();
        // A mirror is bare as well; git refuses both options together.
        if self.mirror {
            opts.push("--mirror".into());
        } else if self.bare {
            opts.push("--bare".into());
        }
        if self.remote != "origin" {
            opts.extend(["--origin".to_owned(), self.remote.clone()]);
        }
        // A shallow clone contains a single branch, so it has to be the wanted one.
        if let Some(depth) = &self.depth {
            opts.extend(["--depth".to_owned(), depth.to_string(), "--branch".to_owned(), self.rev.clone()]);
        }
        let arguments = map! {
            "url" => self.name.clone(), "opts" => opts, "identity" => self.repo.identity.clone(),
            "https_user" => self.repo.https_user.clone(), "https_pass" => self.repo.https_pass.clone(),
            "saltenv" => self.saltenv(),
        };
        match self.here("clone", arguments) {
            Ok(_) => Ok(None),
            Err(error @ Error::Execution(_)) => {
                Ok(Some(self.fail(format!("Clone failed: {}", without_command(&error)))))
            }
            Err(error) => Err(error),
        }
    }

    /// Brings the new clone to the wanted revision and branch.
    fn check_out_clone(&mut self) -> Result<Option<Ret>> {
        let Some(remote_rev) = self.found.rev.clone() else {
            // An empty remote has no HEAD either, and there is nothing to complain about.
            if self.rev == "HEAD" {
                return Ok(None);
            }
            let text =
                format!("Repository was cloned but is empty, so {}/{} cannot be checked out", self.remote, self.rev);
            return Ok(Some(self.fail(text)));
        };
        // The tag has just been on the remote, so a clone without it must have been limited by its options.
        if self.found.kind == Some(RevType::Tag) && !self.names("list_tags")?.contains(&self.rev) {
            return Ok(Some(self.fail(format!("Revision '{}' does not exist in clone", self.rev))));
        }
        if let Some(branch) = self.branch.clone()
            // A fresh clone has only the default branch.
            && !self.names("list_branches")?.contains(&branch)
        {
            let start = self.starting_point(&remote_rev);
            self.here("checkout", map! { "rev" => start, "opts" => list!["-b", branch.clone()] })?;
            let place = &self.found.place;
            self.comments.push(format!("Branch '{branch}' checked out, with {place} as a starting point"));
        }
        let (local_rev, local_branch) = self.repo.head(self.ctx, &self.target)?;
        // git warns in this case but exits with 0, leaving no branch checked out.
        if local_branch.is_none() && !self.found.has_head {
            let text = "Remote HEAD refers to a ref that does not exist. This can happen when the default branch on the \
                        remote repository is renamed or deleted. If you are unable to fix the remote repository, you can \
                        work around this by setting the 'branch' argument (which will ensure that the named branch is \
                        created if it does not already exist).";
            return Ok(Some(self.fail(text)));
        }
        if !revs_equal(local_rev.as_deref(), Some(&remote_rev), self.found.kind) {
            // Safe in a fresh clone, which has no local changes to lose.
            self.hard_reset(&remote_rev, false)?;
            self.comments.push(format!("Repository was reset to {}", self.found.place));
        }
        let upstream = self.tracked(local_branch.as_deref())?;
        let branches = self.names("list_branches")?;
        if let Some(tracking) = self.tracking(upstream.as_deref(), &branches) {
            self.here("branch", map! { "opts" => tracking.opts })?;
            self.comments.push(tracking.comment);
        }
        Ok(None)
    }

    /// Returns the commit that a new branch begins at.
    pub(super) fn starting_point(&self, remote_rev: &str) -> String {
        match self.found.upstream.name() {
            // A branch name would be ambiguous as long as HEAD is what is followed.
            _ if self.rev == "HEAD" => remote_rev.to_owned(),
            Some(upstream) => upstream.to_owned(),
            None => self.rev.clone(),
        }
    }
}
