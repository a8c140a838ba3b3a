//! The state of the remote.

use exec::{Error, Result};
use modules::git::{redacted, with_credentials};
use value::{Map, Value, map};

use super::super::repo::{is_hash, without_command};
use super::{Latest, short};

/// The kind of the wanted revision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RevType {
    Branch,
    Tag,
    Sha1,
}

/// The branch of the remote for the local one to track.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Upstream {
    /// None; a tracked one is forgotten.
    #[default]
    Unset,
    /// Whatever it is.
    Any,
    /// This one.
    To(String),
}

impl Upstream {
    pub fn name(&self) -> Option<&str> {
        match self {
            Upstream::To(name) => Some(name),
            _ => None,
        }
    }
}

/// The facts about the remote.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The address with credentials.
    pub url: String,
    /// The same without.
    pub redacted_url: String,
    /// True if the remote has a HEAD.
    pub has_head: bool,
    /// The branch its HEAD is.
    pub default_branch: Option<String>,
    /// The wanted commit.
    pub rev: Option<String>,
    /// The kind of the revision in the remote, if it is there.
    pub kind: Option<RevType>,
    /// The branch for the local one to track.
    pub upstream: Upstream,
    /// The wanted commit in words.
    pub place: String,
}

impl Latest<'_> {
    /// Asks the remote for its refs and looks up the wanted revision. Returns the comment of a failure.
    pub(super) fn look_at_remote(&mut self) -> Result<Option<String>> {
        let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
        let (user, password) = (text(&self.repo.https_user), text(&self.repo.https_pass));
        self.found.url = match with_credentials(&self.name, user.as_deref(), password.as_deref()) {
            Ok(url) => url,
            Err(error) => return Ok(Some(error.to_string())),
        };
        // Comments and changes show this one; the other goes to git only.
        self.found.redacted_url = redacted(&self.found.url);
        // Nothing is checked out in a bare repository, so a revision would have no effect.
        if self.rev != "HEAD" && self.bare {
            return Ok(Some("'rev' is not compatible with the 'mirror' and 'bare' arguments".into()));
        }
        let refs = match self.remote_refs() {
            Ok(refs) => refs,
            Err(error @ Error::Execution(_)) => {
                return Ok(Some(format!("Failed to check remote refs: {}", without_command(&error))));
            }
            Err(error) => return Err(error),
        };
        let head = refs.get_str("HEAD").map(str::to_owned);
        self.found.has_head = head.is_some();
        // The refs do not say which branch HEAD points to. The first one with the same commit is
        // taken, as in Salt.
        self.found.default_branch = refs.iter().find_map(|(name, hash)| {
            let name = name.as_str()?.strip_prefix("refs/heads/")?;
            (hash.as_str() == head.as_deref()).then(|| name.to_owned())
        });
        if !self.bare {
            self.find_revision(&refs, head);
        }
        // git can only limit the depth of a branch or a tag, not of a hash.
        if self.depth.is_some() && !matches!(self.found.kind, Some(RevType::Branch | RevType::Tag)) {
            let text =
                "When 'depth' is used, 'rev' must be set to the name of a branch or tag on the remote repository";
            return Ok(Some(text.into()));
        }
        if self.found.rev.is_none() && !self.bare && self.rev != "HEAD" {
            return Ok(Some(format!("No revision matching '{}' exists in the remote repository", self.rev)));
        }
        Ok(None)
    }

    fn remote_refs(&self) -> Result<Map> {
        let arguments = map! {
            "url" => self.name.clone(), "identity" => self.repo.identity.clone(),
            "https_user" => self.repo.https_user.clone(), "https_pass" => self.repo.https_pass.clone(),
            "saltenv" => self.saltenv(),
        };
        Ok(self.repo.git(self.ctx, "remote_refs", arguments)?.into_map().unwrap_or_default())
    }

    fn find_revision(&mut self, refs: &Map, head: Option<String>) {
        let found = &mut self.found;
        let get = |name: String| refs.get_str(&name).map(str::to_owned);
        let rev = self.rev.clone();
        if rev == "HEAD" {
            // HEAD is treated like a hash: whichever branch it is now may be another one tomorrow.
            found.kind = head.is_some().then_some(RevType::Sha1);
            if head.is_some() {
                found.upstream = Upstream::Any;
            }
            found.rev = head;
        } else if let Some(hash) = get(format!("refs/heads/{rev}")) {
            found.rev = Some(hash);
            found.kind = Some(RevType::Branch);
            found.upstream = Upstream::To(format!("{}/{rev}", self.remote));
        } else if let Some(hash) = get(format!("refs/tags/{rev}^{{}}")).or_else(|| get(format!("refs/tags/{rev}"))) {
            // For an annotated tag the entry with `^{}` names the commit, and the plain one the tag
            // object.
            found.rev = Some(hash);
            found.kind = Some(RevType::Tag);
        } else if is_hash(&rev) {
            // The remote lists only the tips, so a hash cannot be looked up. It is taken on trust and
            // fails after the fetch if it does not exist.
            self.rev = rev.to_lowercase();
            found.rev = Some(self.rev.clone());
            found.kind = Some(RevType::Sha1);
        }
        let hash = short(found.rev.as_deref());
        found.place = match (found.kind, found.upstream.name()) {
            (Some(RevType::Sha1), _) if rev == "HEAD" => format!("remote HEAD ({hash})"),
            (Some(RevType::Sha1), _) => hash,
            (Some(RevType::Branch), Some(upstream)) => format!("{upstream} ({hash})"),
            (Some(_), _) => format!("{rev} ({hash})"),
            (None, _) => "None".into(),
        };
    }
}
