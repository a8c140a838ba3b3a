//! Updates an existing repository: fetches, and brings branch and files to the wanted commit.

use exec::{Error, Result};
use value::{Map, Value, list, map};

use super::super::repo::without_command;
use super::update::{Tracking, commit_of};
use super::{ForceReset, Latest, revs_equal, short};
use crate::Ret;

/// The way to the wanted commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Merge {
    Unknown,
    FastForward,
    NoFastForward,
}

impl Merge {
    pub fn word(self) -> &'static str {
        match self {
            Merge::Unknown => "updated",
            Merge::FastForward => "fast-forwarded",
            Merge::NoFastForward => "hard-reset",
        }
    }
}

/// The facts about the local repository.
pub(super) struct Local {
    pub branches: Vec<String>,
    /// In alphabetical order.
    pub tags: Vec<String>,
    /// The commit that is checked out.
    pub rev: Option<String>,
    pub branch: Option<String>,
    /// The commit to update: that of the checkout, or of the other branch.
    pub base_rev: Option<String>,
    pub base_branch: Option<String>,
    /// The address of the remote.
    pub fetch_url: Option<String>,
    pub has_remote: bool,
    /// True if the wanted commit is checked out.
    pub matches: bool,
    /// True if there are uncommitted changes.
    pub changed: bool,
    /// True if the wanted commit exists locally and the remote's branches are up to date.
    pub has_rev: bool,
    pub merge: Merge,
    /// The branch that the local one tracks.
    pub upstream: Option<String>,
}

impl Latest<'_> {
    /// Returns whether the wanted commit is ahead.
    pub(super) fn ancestry(&self, local: &Local, quietly: bool) -> Result<Merge> {
        // Without a local commit there is nothing that could be lost.
        let Some(base) = local.base_rev.clone() else { return Ok(Merge::FastForward) };
        let refs = list![base, self.found.rev.clone()];
        let arguments = map! { "refs" => refs, "is_ancestor" => true, "ignore_retcode" => quietly };
        let ahead = self.here("merge_base", arguments)?.truthy();
        Ok(if ahead { Merge::FastForward } else { Merge::NoFastForward })
    }

    pub(super) fn not_fast_forward(&mut self, local: &Local) -> Ret {
        let hint = self.branch_hint(local.branch.as_deref().unwrap_or("None"));
        let (pre, post) = (short(local.base_rev.as_deref()), short(self.found.rev.as_deref()));
        let way = match local.changed && local.base_rev != self.found.rev {
            true => format!("from {pre} to {post}"),
            false => format!("to {post}"),
        };
        let after = match &self.branch {
            Some(branch) if self.changes_branch(local.branch.as_deref()) => {
                format!(" (after checking out local branch '{branch}')")
            }
            _ => String::new(),
        };
        let (why, or, discard) = match local.changed {
            true => ("there are uncommitted changes", " (or 'remote-changes')", " and discard these changes"),
            false => ("this is not a fast-forward merge", "", ""),
        };
        self.fail(format!(
            "Repository would be updated {way}{after}, but {why}. Set 'force_reset' to True{or} to force this \
             update{discard}.{hint}"
        ))
    }

    /// A hint for the most common cause of a failed fast-forward: another branch is checked out.
    fn branch_hint(&self, local: &str) -> String {
        if self.branch.is_some() {
            return String::new();
        }
        match &self.found.default_branch {
            _ if self.rev != "HEAD" && self.rev != local => format!(
                " The desired rev ({rev}) differs from the name of the local branch ({local}), if the desired rev is a \
                 branch name then a forced update could possibly be avoided by setting the 'branch' argument to '{rev}' \
                 instead.",
                rev = self.rev
            ),
            Some(default) if self.rev == "HEAD" && default != local => format!(
                " The default remote branch ({default}) differs from the local branch ({local}). This could be caused by \
                 changing the default remote branch, or if the local branch was manually changed. Rather than forcing an \
                 update, it may be advisable to set the 'branch' argument to '{default}' instead. To ensure that this \
                 state follows the '{default}' branch instead of the remote HEAD, set the 'rev' argument to '{default}'."
            ),
            _ => String::new(),
        }
    }

    /// Brings the repository to the wanted commit. Returns a result if that fails.
    pub(super) fn reconcile(&mut self, local: &mut Local) -> Result<Option<Ret>> {
        let remote_rev = self.found.rev.clone().unwrap_or_default();
        let tracking = self.tracking(local.upstream.as_deref(), &local.branches);
        // git cannot configure an upstream for a branch without commits.
        if tracking.is_some() && local.branch.is_none() {
            let text = "Cannot set/unset upstream tracking branch, local HEAD refers to nonexistent branch. This may have \
                        been caused by cloning a remote repository for which the default branch was renamed or deleted. \
                        If you are unable to fix the remote repository, you can work around this by setting the 'branch' \
                        argument (which will ensure that the named branch is created if it does not already exist).";
            return Ok(Some(self.fail(text)));
        }
        self.compare_tags(local)?;
        if !local.has_rev
            && let Some(ret) = self.fetch(local, &remote_rev)?
        {
            return Ok(Some(ret));
        }
        if self.changes_branch(local.branch.as_deref())
            && let Some(ret) = self.check_out(local, &remote_rev)?
        {
            return Ok(Some(ret));
        }
        if let Some(ret) = self.merge(local, &remote_rev, tracking)? {
            return Ok(Some(ret));
        }
        if self.submodules { self.update_submodules(true) } else { Ok(None) }
    }

    /// Compares the tags. New ones force a fetch; with `sync_tags` those gone from the remote are
    /// deleted.
    fn compare_tags(&mut self, local: &mut Local) -> Result<()> {
        let arguments = map! {
            "remote" => self.remote.clone(), "opts" => "--tags", "identity" => self.repo.identity.clone(),
            "saltenv" => self.saltenv(), "ignore_retcode" => true,
        };
        let refs = self.here("ls_remote", arguments)?.into_map().unwrap_or_default();
        // `^{}` marks the commit behind an annotated tag, which is listed a second time.
        let names = refs.text_keys().filter(|name| !name.contains("^{}"));
        let mut there: Vec<String> = names.map(|name| name.replace("refs/tags/", "")).collect();
        there.sort();
        if there == local.tags {
            return Ok(());
        }
        // Different tags force a fetch, even if the wanted commit is here.
        local.has_rev = false;
        let new: Vec<String> = there.iter().filter(|tag| !local.tags.contains(tag)).cloned().collect();
        if !new.is_empty() {
            self.ret.changes.insert("new_tags", new);
        }
        let mut gone: Vec<String> = Vec::new();
        for tag in local.tags.iter().filter(|tag| self.sync_tags && !there.contains(tag)) {
            match self.here("tag", map! { "name" => tag.clone(), "opts" => "-d" }) {
                Ok(_) => gone.push(tag.clone()),
                Err(error @ Error::Execution(_)) => {
                    // A stale tag does no harm to the checkout, so it is only a warning.
                    let text = format!("Failed to remove local tag '{tag}':\n\n{error}\n\n");
                    let warnings = self.ret.more.entry_or_insert_with("warnings", || Value::List(Vec::new()));
                    if let Value::List(warnings) = warnings {
                        warnings.push(text.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        if !gone.is_empty() {
            let text = format!("The following tags were removed from the local checkout: {}", gone.join(", "));
            self.comments.push(text);
            self.ret.changes.insert("deleted_tags", gone);
        }
        Ok(())
    }

    fn run_fetch(&mut self) -> Result<std::result::Result<Map, Ret>> {
        let arguments = map! {
            "remote" => self.remote.clone(), "force" => self.force_fetch, "refspecs" => self.refspecs.clone(),
            "identity" => self.repo.identity.clone(), "saltenv" => self.saltenv(),
        };
        match self.here("fetch", arguments) {
            Ok(changes) => Ok(Ok(changes.into_map().unwrap_or_default())),
            Err(error @ Error::Execution(_)) => Ok(Err(self.fail(format!(
                "Fetch failed. Set 'force_fetch' to True to force the fetch if the failure was due to not being able to \
                 fast-forward. Output of the fetch command follows:\n\n{}",
                without_command(&error)
            )))),
            Err(error) => Err(error),
        }
    }

    fn fetch(&mut self, local: &mut Local, remote_rev: &str) -> Result<Option<Ret>> {
        match self.run_fetch()? {
            Err(ret) => return Ok(Some(ret)),
            Ok(changes) if !changes.is_empty() => {
                self.comments.push(format!("{} was fetched, resulting in updated refs", self.name));
            }
            Ok(_) => {}
        }
        // The fetch may not cover the commit: `refspec_branch` can exclude it.
        match self.here("rev_parse", commit_of(remote_rev)) {
            Ok(_) => {}
            Err(error @ Error::Execution(_)) => {
                let text =
                    format!("Fetch did not successfully retrieve rev '{}' from {}: {error}", self.rev, self.name);
                return Ok(Some(self.ret.clone().fail(text)));
            }
            Err(error) => return Err(error),
        }
        if !local.matches && !self.update_head && !self.changes_branch(local.branch.as_deref()) {
            return Ok(Some(self.left_alone(local)));
        }
        // Only now can it be decided: before the fetch the wanted commit was unknown here.
        local.merge = self.ancestry(local, false)?;
        let blocked = local.merge == Merge::NoFastForward || local.changed;
        if blocked && self.force_reset == ForceReset::No {
            return Ok(Some(self.not_fast_forward(local)));
        }
        Ok(None)
    }

    fn check_out(&mut self, local: &Local, remote_rev: &str) -> Result<Option<Ret>> {
        let Some(branch) = self.branch.clone() else { return Ok(None) };
        if local.changed && !self.force_checkout {
            let text = format!(
                "Local branch '{}' has uncommitted changes. Set 'force_checkout' to True to discard them and proceed.",
                local.branch.as_deref().unwrap_or("None")
            );
            return Ok(Some(self.ret.clone().fail(text)));
        }
        let (rev, opts, comment) = match local.branches.contains(&branch) {
            true => (branch.clone(), list![], format!("'{branch}' was checked out")),
            false => {
                let text =
                    format!("New branch '{branch}' was checked out, with {} as a starting point", self.found.place);
                (self.starting_point(remote_rev), list!["-b", branch], text)
            }
        };
        self.here("checkout", map! { "rev" => rev, "force" => self.force_checkout, "opts" => opts })?;
        self.comments.push(comment);
        Ok(None)
    }

    fn merge(&mut self, local: &Local, remote_rev: &str, tracking: Option<Tracking>) -> Result<Option<Ret>> {
        // Only reached with `force_reset`; everything else was refused before.
        if local.merge == Merge::NoFastForward {
            self.hard_reset(remote_rev, true)?;
            self.ret.changes.insert("forced update", true);
            if local.changed {
                self.comments.push("Uncommitted changes were discarded".into());
            }
            self.comments.push(format!("Repository was hard-reset to {}", self.found.place));
        } else if local.merge == Merge::FastForward && local.changed && self.force_reset != ForceReset::No {
            self.here("discard_local_changes", Map::new())?;
            self.comments.push("Uncommitted changes were discarded".into());
        }
        // Before the merge, which goes by the tracked branch.
        if let Some(tracking) = tracking {
            self.here("branch", map! { "opts" => tracking.opts })?;
            self.comments.push(tracking.comment);
        }
        let there = revs_equal(local.base_rev.as_deref(), Some(remote_rev), self.found.kind);
        if local.merge != Merge::FastForward || there {
            return Ok(None);
        }
        // A tag or a hash has no upstream to merge with, so the branch is moved there.
        if self.found.upstream.name().is_none() && self.rev != "HEAD" {
            let rev = self.rev.clone();
            self.hard_reset(&rev, true)?;
            self.comments.push(format!("Repository was reset to {rev} (fast-forward)"));
            return Ok(None);
        }
        let head = map! { "ref" => "HEAD", "opts" => list!["--quiet"], "ignore_retcode" => true };
        // A merge on a detached HEAD would leave the commit on no branch.
        if !self.here("symbolic_ref", head)?.truthy() {
            return Ok(Some(self.fail("Unable to fast-forward, HEAD is detached")));
        }
        let mut arguments = self.lfs_options();
        arguments.update(map! { "rev" => remote_rev, "opts" => list!["--ff-only"] });
        self.here("merge", arguments)?;
        self.comments.push(format!("Repository was fast-forwarded to {}", self.found.place));
        Ok(None)
    }

    pub(super) fn fetch_bare(&mut self) -> Result<Option<Ret>> {
        if self.ctx.is_test() {
            let text = format!("Bare repository at {} would be fetched", self.target);
            return Ok(Some(match self.ret.changes.is_empty() {
                false => self.neutral(text),
                // A bare fetch has no visible effect in advance, so test mode cannot know whether something would
                // change.
                true => self.up_to_date(&[text], false),
            }));
        }
        let changes = match self.run_fetch()? {
            Ok(changes) => changes,
            Err(ret) => return Ok(Some(ret)),
        };
        let more = if changes.is_empty() { "" } else { ", resulting in updated refs" };
        self.comments.push(format!("Bare repository at {} was fetched{more}", self.target));
        Ok(None)
    }
}
