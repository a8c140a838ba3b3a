//! Authentication for publications, runners and wheel functions: by token, external authentication, or the key of a
//! local user.

use logscope::Peer;
use value::{Map, Value, map};

use crate::Shared;
use crate::logins::Login;
use crate::users::Grant;

/// The kind of authentication.
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
    /// Returns the word for it in messages.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Token => "token",
            Kind::Eauth => "eauth",
            Kind::User => "user",
        }
    }

    /// Returns Salt's name for the error if it fails.
    pub fn error_name(self) -> &'static str {
        match self {
            Kind::Token => "TokenAuthenticationError",
            Kind::Eauth => "EauthAuthenticationError",
            Kind::User => "UserAuthenticationError",
        }
    }
}

/// A caller who is authenticated.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// How.
    pub kind: Kind,
    /// Their name, if they have one.
    pub user: Option<String>,
    /// The permissions.
    pub grant: Grant,
}

impl Caller {
    /// Returns the name for the log.
    pub fn name(&self) -> &str {
        self.user.as_deref().unwrap_or("a user without a name")
    }

    /// Returns whose share of the log the lines about the caller's request count to.
    pub fn peer(&self) -> Peer {
        match &self.grant {
            Grant::All => Peer::Operator,
            Grant::Listed(_) => Peer::User(self.name().to_owned()),
        }
    }
}

/// A caller who is not authenticated.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// The kind of authentication that was tried.
    pub kind: Kind,
    /// The name that was given.
    pub user: Option<String>,
}

impl Unknown {
    /// Returns the answer of `runner` and `wheel`.
    pub fn answer(&self) -> Map {
        let (kind, user) = (self.kind.word(), self.user.as_deref());
        let message = match (self.kind, user) {
            (Kind::User, _) => format!("Authentication failure of type \"{kind}\" occurred"),
            (Kind::Token, None) => format!("Authentication failure of type \"{kind}\" occurred."),
            (_, user) => {
                format!("Authentication failure of type \"{kind}\" occurred for user {}.", user.unwrap_or("UNKNOWN"))
            }
        };
        map! { "error" => map! { "name" => self.kind.error_name(), "message" => message } }
    }

    /// Logs it. A refused login is in the log already, with the reason.
    pub fn log(&self) {
        if self.kind != Kind::Eauth {
            tracing::warn!("Authentication failure of type \"{}\" occurred.", self.kind.word());
        }
    }
}

/// Authenticates the caller. `fields` may contain `token` or `eauth`; `key` and `user` are in `load`. The key is
/// removed from it, because it must not appear in events or the job cache. `login` is the result of the login that the
/// request asked for.
pub fn check(shared: &Shared, login: Option<Login>, fields: &Map, load: &mut Map) -> Result<Caller, Unknown> {
    let key = load.remove("key");
    let user = load.get_str("user").map(str::to_owned);
    match login {
        Some(Login::Proven { user, backend, checked }) => return by_login(shared, user, &backend, checked),
        Some(Login::Refused { user }) => return Err(Unknown { kind: Kind::Eauth, user }),
        None => {}
    }
    // As in Salt: whoever sends a token is not asked for anything else, even if it is invalid.
    if let Some(token) = fields.get("token") {
        return by_token(shared, token).ok_or(Unknown { kind: Kind::Token, user: None });
    }
    if fields.contains_key("eauth") {
        // Only some requests may log in; the others are for users with all permissions.
        let name = fields.get_str("username").map(str::to_owned);
        return Err(Unknown { kind: Kind::Eauth, user: name });
    }
    let grant = shared.users.check(user.as_deref(), key.as_ref().and_then(Value::as_str).unwrap_or_default());
    match grant {
        Some(grant) => Ok(Caller { kind: Kind::User, user, grant }),
        None => Err(Unknown { kind: Kind::User, user }),
    }
}

/// Returns the caller who has logged in.
fn by_login(shared: &Shared, user: String, backend: &str, checked: auth::Checked) -> Result<Caller, Unknown> {
    let permissive = shared.stores.config.access.permissive_acl;
    let configured = || shared.logins.entries(backend, &user, &checked.groups, permissive, &shared.stores.rt);
    match checked.entries.or_else(configured) {
        Some(granted) => Ok(Caller { kind: Kind::Eauth, user: Some(user), grant: Grant::Listed(granted) }),
        None => Err(Unknown { kind: Kind::Eauth, user: Some(user) }),
    }
}

/// Checks a token. Tokens that a Salt master created with external authentication stay valid here.
fn by_token(shared: &Shared, token: &Value) -> Option<Caller> {
    let stores = &shared.stores;
    let found = stores.tokens.get(token.as_str()?, stores.rt.now());
    let found = found.map_err(|error| tracing::warn!("failed to read a token: {error}")).ok().flatten()?;
    let access = &stores.config.access;
    let name = found.get_str("name")?.to_owned();
    let groups = found.get("groups").and_then(Value::as_list).unwrap_or_default();
    let groups: Vec<String> = groups.iter().map(Value::to_string).collect();
    // A token ends with its backend, also one that has its own list.
    let (backend, permissive) = (found.get_str("eauth")?, access.permissive_acl);
    if !shared.logins.account_may_be_used(backend, &name) {
        return None;
    }
    let configured = shared.logins.entries(backend, &name, &groups, permissive, &stores.rt)?;
    // Without `keep_acl_in_token`, the permissions are those of the configuration now, not of the login.
    let kept = found.get("auth_list").and_then(Value::as_list).filter(|_| access.keep_acl_in_token);
    let grant = kept.map_or(configured, <[Value]>::to_vec);
    Some(Caller { kind: Kind::Token, user: Some(name), grant: Grant::Listed(grant) })
}
