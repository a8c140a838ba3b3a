//! `get_token` and `mk_token`: tokens of users.

use tracing::{error, warn};
use value::Value;

use super::{Answer, Ask, nothing};

/// Answers with the content of a token.
pub fn get(ask: Ask) -> Answer {
    let Some(token) = ask.load.get("token") else { return false.into() };
    let Some(token) = token.as_str() else { return nothing() };
    let stores = &ask.shared.stores;
    match stores.tokens.get(token, stores.rt.now()) {
        Ok(found) => found.unwrap_or_default().into(),
        Err(failure) => {
            error!("failed to read a token: {}", crate::chain(&failure));
            nothing()
        }
    }
}

/// Refuses to create tokens, because external authentication is not supported.
pub fn make(ask: Ask) -> Answer {
    let provider = ask.load.get("eauth").map(Value::to_string).unwrap_or_default();
    let provider: String = provider.chars().take(60).collect();
    warn!("Authentication failure of type \"eauth\" occurred: external authentication ({provider}) is not supported");
    "".into()
}
