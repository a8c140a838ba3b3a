//! `auth` — tokens of users who log in with `external_auth`.

use client::{LocalClient, settings};
use exec::{Error, KwArgs, Result, function};
use store::Layout;
use store::tokens::TokenStore;
use value::{Value, map};

use crate::context::failed;
use crate::{Module, RunnerContext, other_masters};

/// The functions of the runner `auth`.
pub static MODULE: Module =
    Module::new("auth", "Tokens of users who log in with external_auth.", &[&DEL_TOKEN, &MK_TOKEN]);

/// Makes a token for a user, whose password is needed. Users that ``token_expire_user_override`` names may choose its
/// lifetime in seconds (``token_expire``).
///
/// All users of this host can read the command line, and with it the password. ``salt -T`` asks for it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run auth.mk_token username=fred password=secret eauth=file
///     salt-run auth.mk_token username=fred password=secret eauth=file token_expire=3600
#[function]
async fn mk_token(ctx: &RunnerContext, load: KwArgs) -> Result<Value> {
    if ctx.connected.is_some() {
        // The result would be an event, which all users of an API can read.
        return Err(Error::execution("the master makes no tokens by a runner; log in, or send mk_token"));
    }
    let given = load.given();
    check_lifetime(given.get("token_expire"))?;
    let client = LocalClient::new(ctx.rt.clone(), settings::from_config(&ctx.config));
    match client.ask_for_token(given).await {
        Err(client::Error::NotRunning) => Err(Error::Other("Salt Master must be running.".to_owned())),
        answer => answer.map_err(failed),
    }
}

/// Checks a lifetime. The master would answer only that it makes no token.
fn check_lifetime(lifetime: Option<&Value>) -> Result<()> {
    match lifetime {
        None | Some(Value::Null | Value::Int(_) | Value::Float(_)) => Ok(()),
        Some(other) => Err(Error::execution(format!("token_expire must be a number of seconds, not {other}"))),
    }
}

/// Deletes a token, and returns whether there was one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run auth.del_token 6556760736e4077daa601baec2b67c24
#[function]
async fn del_token(ctx: &RunnerContext, token: String) -> Result<bool> {
    let remove = move |ctx: &RunnerContext| {
        // It removes the files of both layouts.
        let tokens = TokenStore::new(&ctx.config.paths.token_dir, Layout::Since3008);
        match tokens.remove(&token) {
            Err(store::Error::BadName { .. }) => Ok(false),
            removed => removed.map_err(failed),
        }
    };
    let removed = ctx.blocking(remove).await?;
    if removed {
        // Otherwise the master sees within a minute that the file is gone.
        if let Err(reason) = other_masters::tell(ctx, map! { "what" => "tokens_changed" }).await {
            tracing::warn!("other masters are not told yet of a deleted token: {reason}");
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_a_number_of_seconds() {
        assert!([None, Some(&Value::Null), Some(&60.into())].into_iter().all(|life| check_lifetime(life).is_ok()));
        let refused = check_lifetime(Some(&"abc".into())).unwrap_err().to_string();
        assert!(refused.contains("token_expire must be a number of seconds, not abc"), "{refused}");
    }
}
