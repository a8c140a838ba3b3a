//! `git_pillar` — repositories pillar is made from.

use exec::{Error, Result, function};
use git::Fetched;
use pillar::GitExternal;
use value::{Map, Value};

use crate::context::failed;
use crate::{Module, RunnerContext};

/// The functions of the runner `git_pillar`.
pub static MODULE: Module = Module::new("git_pillar", "Repositories pillar is made from.", &[&UPDATE]);

/// Fetches the repositories of pillar, or those of one branch or one address or name. Returns for each whether there
/// are changes: true, or null if there are none, or false if it could not be fetched.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run git_pillar.update
///     salt-run git_pillar.update branch='branch' repo='https://foo.com/bar.git'
///     salt-run git_pillar.update repo=myrepo
#[function]
async fn update(ctx: &RunnerContext, branch: Option<String>, repo: Option<String>) -> Result<Map> {
    let named = branch.is_some() || repo.is_some();
    let fetched = ctx.blocking(move |ctx| fetch(ctx, branch.as_deref(), repo.as_deref())).await?;
    // An empty result with a filter means that the filter is wrong; without one, that nothing is configured.
    match fetched.is_empty() {
        false => Ok(fetched),
        true if named => Err(Error::execution("Specified git branch/repo not found in ext_pillar config")),
        true => Err(Error::execution("No git_pillar remotes are configured")),
    }
}

fn fetch(ctx: &RunnerContext, branch: Option<&str>, repo: Option<&str>) -> Result<Map> {
    let mut fetched = Map::new();
    for source in GitExternal::of_master(&ctx.config).map_err(failed)?.sources() {
        for repository in source.group().repositories() {
            let remote = &repository.remote;
            let other_branch = branch.is_some_and(|branch| branch != remote.branch);
            let other_repo = repo.is_some_and(|repo| repo != repository.url() && Some(repo) != remote.name.as_deref());
            if other_branch || other_repo {
                continue;
            }
            let outcome = match source.fetch(repository) {
                Some(Fetched::Changed) => true.into(),
                Some(Fetched::Same) => Value::Null,
                Some(Fetched::Locked) | None => false.into(),
            };
            fetched.insert(repository.id(), outcome);
        }
    }
    Ok(fetched)
}
