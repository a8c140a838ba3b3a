//! Updates an existing repository, or reports in test mode what would be done.

use exec::Result;
use modules::git::redacted;
use value::{Value, map};

use super::super::repo::{sentences, without_command};
use super::reconcile::{Local, Merge};
use super::remote::{RevType, Upstream};
use super::{ForceReset, Latest, revs_equal, short};
use crate::Ret;

/// The call that makes the local branch track another.
pub(super) struct Tracking {
    pub opts: Vec<String>,
    pub comment: String,
}

impl Latest<'_> {
    /// Brings an existing repository up to date.
    pub(super) fn update(&mut self) -> Result<Ret> {
        let mut local = match self.survey()? {
            Ok(local) => local,
            Err(ret) => return Ok(ret),
        };
        if let Some(ret) = self.settle_merge(&mut local)? {
            return Ok(ret);
        }
        if let Some(ret) = self.set_remote(&local)? {
            return Ok(ret);
        }
        if self.found.rev.is_some() {
            if self.ctx.is_test() {
                return Ok(self.announce(&local));
            }
            if let Some(ret) = self.reconcile(&mut local)? {
                return Ok(ret);
            }
        } else if self.bare
            && let Some(ret) = self.fetch_bare()?
        {
            return Ok(ret);
        }
        // The final check: whatever the steps above reported, HEAD has to be where it was meant to
        // be.
        let new = self.look("revision", map! {})?;
        if !self.bare && !revs_equal(new.as_deref(), self.found.rev.as_deref(), self.found.kind) {
            return Ok(self.fail("Failed to update repository"));
        }
        if local.rev == new {
            let comments = self.comments.clone();
            return Ok(self.up_to_date(&comments, false));
        }
        self.note_revision(local.rev.as_deref(), new.as_deref());
        let text = sentences(&self.comments);
        Ok(Ret { comment: text.into(), ..self.ret.clone() })
    }

    /// Gathers the facts about the local repository, or ends the state.
    fn survey(&mut self) -> Result<std::result::Result<Local, Ret>> {
        let branches = self.names("list_branches")?;
        let mut tags = self.names("list_tags")?;
        tags.sort();
        let (rev, branch) = self.repo.head(self.ctx, &self.target)?;
        // An emptied remote is more likely a mistake than an order to delete all commits.
        if !self.bare && self.found.rev.is_none() && rev.is_some() {
            let text = "Remote repository is empty, cannot update from a non-empty to an empty repository";
            return Ok(Err(self.fail(text)));
        }
        // The base is where a merge or a reset starts: the present branch, or the one that will be
        // checked out first.
        let (mut base_rev, mut base_branch) = (rev.clone(), branch.clone());
        if let Some(wanted) = self.branch.clone().filter(|_| self.changes_branch(branch.as_deref())) {
            if branches.contains(&wanted) {
                base_branch = Some(wanted.clone());
                match self.here("rev_parse", commit_of(&wanted)) {
                    Ok(found) => base_rev = Some(found.to_string()),
                    Err(error) => {
                        let why = without_command(&error);
                        return Ok(Err(self.fail(format!("Unable to get position of local branch '{wanted}': {why}"))));
                    }
                }
            } else {
                // A new branch starts at the wanted commit, so there is nothing to merge.
                base_rev = self.found.rev.clone();
            }
        }
        // With credentials, because they are part of the comparison.
        let remotes = self.here("remotes", map! { "redact_auth" => false })?.into_map().unwrap_or_default();
        let fetch_url = remotes.get(&self.remote).and_then(|urls| urls.get("fetch")).map(Value::to_string);
        let matches = revs_equal(rev.as_deref(), self.found.rev.as_deref(), self.found.kind);
        let changed = !self.bare && self.has_changes()?;
        // The commit is right, but files were edited. Only `force_reset: True` throws that away.
        if changed && matches {
            if self.force_reset != ForceReset::Yes {
                let comments = self.comments.clone();
                return Ok(Err(self.up_to_date(&comments, true)));
            }
            if self.ctx.is_test() {
                self.ret.changes.insert("forced update", true);
                let text = format!(
                    "{} is up-to-date, but with uncommitted changes. Since 'force_reset' is set to True, these local \
                     changes would be reset. To only reset when there are changes in the remote repository, set \
                     'force_reset' to 'remote-changes'.",
                    self.target
                );
                return Ok(Err(self.neutral(text)));
            }
        }
        let has_remote = remotes.contains_key(&self.remote);
        let (has_rev, merge, upstream) = (false, Merge::Unknown, None);
        let local = Local {
            branches,
            tags,
            rev,
            branch,
            base_rev,
            base_branch,
            fetch_url,
            has_remote,
            matches,
            changed,
            has_rev,
            merge,
            upstream,
        };
        Ok(Ok(local))
    }

    fn has_changes(&self) -> Result<bool> {
        match self.here("diff", map! { "item1" => "HEAD" }) {
            Ok(text) => Ok(text.truthy()),
            // Without a commit there is no HEAD to compare with.
            Err(exec::Error::Execution(_)) => {
                tracing::warn!("git.latest: Unable to determine if {} has local changes", self.target);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Determines whether the wanted commit exists already, and how it is reached.
    fn settle_merge(&mut self, local: &mut Local) -> Result<Option<Ret>> {
        if let Some(ret) = self.find_here(local)? {
            return Ok(Some(ret));
        }
        // With `remote-changes` local edits alone are no reason to reset.
        local.merge = match local.changed && self.force_reset != ForceReset::RemoteChanges {
            true => Merge::NoFastForward,
            false => Merge::Unknown,
        };
        // Without the commit the kind of merge is decided after the fetch.
        if local.has_rev {
            if !local.matches && !self.update_head && !self.changes_branch(local.branch.as_deref()) {
                return Ok(Some(self.left_alone(local)));
            }
            if local.merge == Merge::Unknown {
                local.merge = self.ancestry(local, true)?;
            }
        }
        if local.merge == Merge::NoFastForward && self.force_reset == ForceReset::No {
            return Ok(Some(self.not_fast_forward(local)));
        }
        if let Some(branch) = &local.base_branch {
            local.upstream = self.tracked(Some(branch))?;
        }
        Ok(None)
    }

    fn find_here(&mut self, local: &mut Local) -> Result<Option<Ret>> {
        let Some(remote_rev) = self.found.rev.clone() else { return Ok(None) };
        let sha = self.found.kind == Some(RevType::Sha1);
        // No need to ask git: the base is the wanted commit.
        if sha && local.base_rev.as_ref().is_some_and(|base| base.starts_with(&remote_rev)) {
            local.has_rev = true;
            return Ok(None);
        }
        if self.look("rev_parse", commit_of(&remote_rev))?.is_none() {
            return Ok(None);
        }
        match (self.found.kind, self.found.upstream.name()) {
            (Some(RevType::Branch), Some(upstream)) if local.has_remote => {
                // The commit may be here while the copy of the remote's branch is behind, after a
                // forced push for instance. Then a fetch is due.
                let copy = self.look("rev_parse", map! { "rev" => upstream })?;
                local.has_rev = copy.as_deref() == Some(remote_rev.as_str());
            }
            (Some(RevType::Tag), _) if local.tags.contains(&self.rev) => {
                let tag = self.look("rev_parse", commit_of(&self.rev))?;
                if tag.as_deref() == Some(remote_rev.as_str()) {
                    local.has_rev = true;
                } else if self.force_reset == ForceReset::No {
                    // The tag was moved on the remote. A fetch would follow it, but the branch could
                    // only get there by a reset.
                    let text = format!(
                        "'{}' is a tag, but the remote SHA1 for this tag ({}) doesn't match the local SHA1 ({}). Set \
                         'force_reset' to True to force this update.",
                        self.rev,
                        short(Some(&remote_rev)),
                        short(tag.as_deref())
                    );
                    return Ok(Some(self.ret.clone().fail(text)));
                }
            }
            (Some(RevType::Sha1), _) => local.has_rev = true,
            _ => {}
        }
        Ok(None)
    }

    /// The wanted commit is here and `update_head` forbids to go there.
    pub(super) fn left_alone(&mut self, local: &Local) -> Ret {
        let place = &self.found.place;
        let place = if self.rev == "HEAD" { capitalized(place) } else { place.clone() };
        let text = format!(
            "{place} is already present and local HEAD ({}) does not match, but update_head=False. HEAD has not been \
             updated locally.",
            short(local.rev.as_deref())
        );
        Ret { comment: text.into(), ..self.ret.clone() }
    }

    /// The branch a local one tracks.
    pub(super) fn tracked(&self, branch: Option<&str>) -> Result<Option<String>> {
        let Some(branch) = branch else { return Ok(None) };
        // Fails for a branch that tracks nothing, which is a valid answer.
        let arguments = map! { "rev" => format!("{branch}@{{upstream}}"), "opts" => value::list!["--abbrev-ref"] };
        Ok(self.look("rev_parse", arguments)?.filter(|name| !name.is_empty()))
    }

    /// Returns the call that is needed for the right tracking, if any.
    pub(super) fn tracking(&self, tracked: Option<&str>, branches: &[String]) -> Option<Tracking> {
        let set = |wanted: &str| {
            // A branch that does not exist yet gets its upstream when it is made.
            let there = self.branch.as_ref().is_none_or(|branch| branches.contains(branch));
            there.then(|| vec!["--set-upstream-to".to_owned(), wanted.to_owned()])
        };
        match (tracked, &self.found.upstream) {
            (None, Upstream::To(wanted)) => {
                set(wanted).map(|opts| Tracking { opts, comment: format!("Tracking branch was set to {wanted}") })
            }
            (Some(_), Upstream::Unset) => {
                let opts = vec!["--unset-upstream".to_owned()];
                Some(Tracking { opts, comment: "Tracking branch was unset".into() })
            }
            (Some(tracked), Upstream::To(wanted)) if tracked != wanted => {
                set(wanted).map(|opts| Tracking { opts, comment: format!("Tracking branch was updated to {wanted}") })
            }
            _ => None,
        }
    }

    /// Sets the address of the remote.
    fn set_remote(&mut self, local: &Local) -> Result<Option<Ret>> {
        let Some(remote_rev) = self.found.rev.clone() else { return Ok(None) };
        // Compared with credentials, so a changed password counts as a new address.
        if local.fetch_url.as_deref() == Some(self.found.url.as_str()) {
            return Ok(None);
        }
        let old = local.fetch_url.as_deref().map_or_else(|| "None".into(), redacted);
        let (remote, new) = (self.remote.clone(), self.found.redacted_url.clone());
        if self.ctx.is_test() {
            let mut actions = vec![format!("Remote '{remote}' would be changed from {old} to {new}")];
            if !local.has_rev {
                actions.push("Remote would be fetched".into());
            }
            if !local.matches && self.update_head {
                self.note_revision(local.rev.as_deref(), Some(&remote_rev));
                if local.merge == Merge::NoFastForward {
                    self.ret.changes.insert("forced update", true);
                }
                actions.push(format!("Repository would be {} to {}", local.merge.word(), short(Some(&remote_rev))));
            }
            return Ok(Some(self.conclude_test(local, &actions)));
        }
        let arguments = map! {
            "url" => self.name.clone(), "remote" => remote.clone(), "https_user" => self.repo.https_user.clone(),
            "https_pass" => self.repo.https_pass.clone(),
        };
        self.here("remote_set", arguments)?;
        if local.fetch_url.is_none() {
            self.comments.push(format!("Remote '{remote}' set to {new}"));
            self.ret.changes.insert("new", format!("{} => {remote}", self.name));
        } else {
            self.comments.push(format!("Remote '{remote}' changed from {old} to {new}"));
        }
        Ok(None)
    }

    fn conclude_test(&mut self, local: &Local, actions: &[String]) -> Ret {
        if !self.ret.changes.is_empty() {
            return self.neutral(sentences(actions));
        }
        // Nothing that counts as a change, but the user should still see what would be done.
        if !local.matches && !self.update_head && !actions.is_empty() {
            return Ret { comment: sentences(actions).into(), ..self.ret.clone() };
        }
        self.up_to_date(actions, false)
    }

    /// Finishes a test run.
    fn announce(&mut self, local: &Local) -> Ret {
        let remote_rev = self.found.rev.clone();
        let new = short(remote_rev.as_deref());
        let mut actions = Vec::new();
        if !local.has_rev {
            actions.push(format!("Remote '{}' would be fetched", self.remote));
        }
        let other_branch = self.changes_branch(local.branch.as_deref());
        if !local.matches && (self.update_head || other_branch) {
            self.note_revision(local.rev.as_deref(), remote_rev.as_deref());
        }
        if let Some(branch) = self.branch.clone().filter(|_| other_branch) {
            if local.branches.contains(&branch) {
                actions.push(format!("Branch '{branch}' would be checked out and {} to {new}", local.merge.word()));
            } else {
                let place = &self.found.place;
                actions.push(format!("New branch '{branch}' would be checked out, with {place} as a starting point"));
                if let Some(upstream) = self.found.upstream.name() {
                    actions.push(format!("Tracking branch would be set to {upstream}"));
                }
            }
        } else if !local.matches {
            actions.push(self.announce_head(local, &new));
        }
        match (local.upstream.as_deref(), &self.found.upstream) {
            (None, Upstream::To(wanted)) => actions.push(format!("Tracking branch would be set to {wanted}")),
            (Some(_), Upstream::Unset) => actions.push("Tracking branch would be unset".into()),
            (Some(tracked), Upstream::To(wanted)) if tracked != wanted => {
                actions.push(format!("Tracking branch would be updated to {wanted}"));
            }
            _ => {}
        }
        self.conclude_test(local, &actions)
    }

    fn announce_head(&self, local: &Local, new: &str) -> String {
        let old = short(local.rev.as_deref());
        if !self.update_head {
            let place = &self.found.place;
            return format!(
                "Local HEAD ({old}) does not match {place} but update_head=False, HEAD would not be updated locally"
            );
        }
        let how = match local.merge {
            Merge::FastForward => "fast-forwarded",
            _ if self.force_reset != ForceReset::No && local.has_rev => "hard-reset",
            _ => "updated",
        };
        format!("Repository would be {how} from {old} to {new}")
    }
}

/// The arguments that make a commit of a revision.
pub(super) fn commit_of(rev: &str) -> value::Map {
    map! { "rev" => format!("{rev}^{{commit}}"), "ignore_retcode" => true }
}

/// Python's `capitalize`: the first letter large, all others small.
fn capitalized(text: &str) -> String {
    // Salt calls `capitalize`, which lower-cases the rest: "Remote head (…)".
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + &letters.as_str().to_lowercase())
        .unwrap_or_default()
}
