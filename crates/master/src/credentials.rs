//! Who asks for a publication, a runner or a wheel function: a token, external authentication, or a local user's key.

use value::{Map, Value, map};

use crate::Shared;
use crate::users::Grant;

/// How somebody proved who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With a token.
    Token,
    /// With name and password.
    Eauth,
    /// With the key of a local user.
    User,
}

impl Kind {
    /// The word for it in messages.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Token => "token",
            Kind::Eauth => "eauth",
            Kind::User => "user",
        }
    }

    /// Salt's name of the error when it fails.
    pub fn error_name(self) -> &'static str {
        match self {
            Kind::Token => "TokenAuthenticationError",
            Kind::Eauth => "EauthAuthenticationError",
            Kind::User => "UserAuthenticationError",
        }
    }
}

/// Somebody who proved who they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// How.
    pub kind: Kind,
    /// Their name, if they have one.
    pub user: Option<String>,
    /// What they may do.
    pub grant: Grant,
}

impl Caller {
    /// Their name for the log.
    pub fn name(&self) -> &str {
        self.user.as_deref().unwrap_or("a user without a name")
    }

    /// The span in which their request is handled: a user with a list has a share of the log, like a minion, and an operator who
    /// may do everything is not limited.
    pub fn span(&self) -> tracing::Span {
        let peer = match &self.grant {
            Grant::All => String::new(),
            Grant::Listed(_) => format!("user {}", self.name()),
        };
        tracing::info_span!("log.peer", peer, known = true)
    }
}

/// Nobody that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// How it was tried.
    pub kind: Kind,
    /// The name that was given.
    pub user: Option<String>,
}

impl Unknown {
    /// What `runner` and `wheel` answer.
    pub fn answer(&self) -> Map {
        let whom = self.user.as_deref().map(|user| format!(" for user {user}")).unwrap_or_default();
        let message = format!("Authentication failure of type \"{}\" occurred{whom}.", self.kind.word());
        map! { "error" => map! { "name" => self.kind.error_name(), "message" => message } }
    }
}

/// Finds out who asks. `fields` may hold `token` or `eauth`; `key` and `user` are read from `load`, and the key is
/// taken out of it: it must not reach events or the job cache.
pub fn check(shared: &Shared, fields: &Map, load: &mut Map) -> Result<Caller, Unknown> {
    let key = load.remove("key");
    let user = load.get_str("user").map(str::to_owned);
    if let Some(token) = fields.get("token") {
        return by_token(shared, token).ok_or(Unknown { kind: Kind::Token, user: None });
    }
    if fields.contains_key("eauth") {
        let name = fields.get_str("username").map(str::to_owned);
        tracing::warn!("external authentication is not supported; a request with eauth was refused");
        return Err(Unknown { kind: Kind::Eauth, user: name });
    }
    let grant = shared.users.check(user.as_deref(), key.as_ref().and_then(Value::as_str).unwrap_or_default());
    match grant {
        Some(grant) => Ok(Caller { kind: Kind::User, user, grant }),
        None => Err(Unknown { kind: Kind::User, user }),
    }
}

/// Tokens made by a master that has external authentication go on being valid here.
fn by_token(shared: &Shared, token: &Value) -> Option<Caller> {
    let stores = &shared.stores;
    let found = stores.tokens.get(token.as_str()?, stores.rt.now());
    let found = found.map_err(|error| tracing::warn!("failed to read a token: {error}")).ok().flatten()?;
    let access = &stores.config.access;
    let name = found.get_str("name")?.to_owned();
    let kept = found.get("auth_list").and_then(Value::as_list).filter(|_| access.keep_acl_in_token);
    let grant = match kept {
        Some(list) => list.to_vec(),
        None => {
            let groups = found.get("groups").and_then(Value::as_list).unwrap_or_default();
            let groups: Vec<String> = groups.iter().map(Value::to_string).collect();
            let provider = access.external_auth.get(found.get_str("eauth")?)?.as_map()?;
            targeting::acl::entries_for(provider, &name, &groups, access.permissive_acl)
        }
    };
    Some(Caller { kind: Kind::Token, user: Some(name), grant: Grant::Listed(grant) })
}
