//! `get_token` and `mk_token`: tokens of users.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auth::Checked;
use tracing::{error, warn};
use value::{Map, Value, map};
use wire::loads::{GetToken, MakeToken};

use super::{Answer, MasterRequest, nothing, read};
use crate::Shared;
use crate::logins::Login;

/// How many random bytes a token is the digest of.
const RANDOM: usize = 512;

/// The longest lifetime that a user may ask for, in seconds: ten years.
const LONGEST: i64 = 10 * 365 * 24 * 3600;

/// Answers with the content of a token.
pub fn get(ask: MasterRequest) -> Answer {
    let Some(request) = read(ask.load, GetToken::from_map) else { return false.into() };
    let Some(token) = request.token.as_str() else { return nothing() };
    let stores = &ask.shared.stores;
    match stores.tokens.get(token, stores.rt.now()) {
        Ok(found) => found.filter(|token| counts(&ask.shared, token)).unwrap_or_default().into(),
        Err(failure) => {
            error!("failed to read a token: {}", crate::chain(&failure));
            nothing()
        }
    }
}

fn counts(shared: &Shared, token: &Map) -> bool {
    let [backend, user] = ["eauth", "name"].map(|name| token.get_str(name).unwrap_or_default());
    shared.logins.account_may_be_used(backend, user)
}

/// Makes a token for a user who has logged in. As in Salt, a refusal is an empty text.
pub fn make(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, login, load, .. } = ask;
    let Some(Login::Proven { user, backend, checked }) = login else { return "".into() };
    let Some(request) = read(load, MakeToken::from_map) else { return "".into() };
    let wanted = request.extra.get("token_expire");
    let config = &shared.stores.config.access;
    let life = match wanted.filter(|_| may_choose(&config.token_expire_user_override, &user, &backend)) {
        None => config.token_expire,
        Some(wanted) => match lifetime(wanted) {
            Some(life) => life,
            None => {
                warn!("user {user} gets no token: token_expire must be a number of seconds from 1 to {LONGEST}");
                return "".into();
            }
        },
    };
    match store(&shared, &user, &backend, checked, life) {
        Ok(token) => token.into(),
        Err(failure) => {
            error!("failed to store a token: {}", crate::chain(&failure));
            "".into()
        }
    }
}

fn store(shared: &Shared, user: &str, backend: &str, checked: Checked, life: Duration) -> store::Result<Map> {
    let stores = &shared.stores;
    let now = stores.rt.now();
    // The start has checked the option.
    let hash = stores.config.keys.hash_type.parse().unwrap_or(crypto::HashType::Sha256);
    let mut token =
        map! { "start" => seconds(now), "expire" => seconds(now + life), "name" => user, "eauth" => backend };
    if stores.config.access.keep_acl_in_token {
        // Without a list of the backend's own, the configuration counts whenever the token is used.
        token.insert("auth_list", checked.entries);
    }
    if !checked.groups.is_empty() {
        token.insert("groups", checked.groups);
    }
    loop {
        token.insert("token", hash.hex(&stores.rt.bytes::<RANDOM>()));
        if stores.tokens.store(&token)? {
            let removed = shared.logins.owners.add(&stores.tokens, &token, now)?;
            if let Some(outgoing) = &shared.outgoing {
                let made = token.get_str("token").into_iter();
                made.chain(removed.iter().map(String::as_str)).for_each(|text| outgoing.token(text));
            }
            return Ok(token);
        }
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Returns whether a user may choose the lifetime of the token (`token_expire_user_override`).
fn may_choose(option: &Value, user: &str, backend: &str) -> bool {
    match option {
        Value::Bool(everybody) => *everybody,
        // Only a list: in Salt a text lets everybody in whose name is a part of it.
        Value::Map(backends) => backends
            .get(backend)
            .and_then(Value::as_list)
            .is_some_and(|users| users.iter().any(|name| name.as_str() == Some(user))),
        _ => false,
    }
}

fn lifetime(wanted: &Value) -> Option<Duration> {
    let seconds = match wanted {
        Value::Int(_) => wanted.as_i64()?,
        _ => return None,
    };
    (1..=LONGEST).contains(&seconds).then(|| Duration::from_secs(seconds.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn only_listed_users_choose_the_lifetime() {
        let fred = |option: Value| may_choose(&option, "fred", "file");
        assert!(fred(true.into()));
        assert!(fred(map! { "file" => list!["ann", "fred"] }.into()));
        for option in [
            false.into(),
            Value::Null,
            map! { "auto" => list!["fred"] }.into(),
            map! { "file" => "freddy" }.into(),
            map! { "file" => list!["freddy"] }.into(),
        ] {
            assert!(!fred(option.clone()), "{option}");
        }
    }

    #[test]
    fn a_lifetime_is_a_number_of_seconds() {
        assert_eq!(lifetime(&60.into()), Some(Duration::from_secs(60)));
        for wrong in [0.into(), (-5).into(), (LONGEST + 1).into(), "60".into(), Value::Null, true.into()] {
            assert_eq!(lifetime(&wrong), None, "{wrong}");
        }
    }
}
