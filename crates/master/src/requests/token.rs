//! `get_token` and `mk_token`: tokens of users.

use tracing::{error, warn};
use wire::loads::{GetToken, MakeToken};

use super::{Answer, MasterRequest, nothing, read};

/// Answers with the content of a token.
pub fn get(ask: MasterRequest) -> Answer {
    let Some(request) = read(ask.load, GetToken::from_map) else { return false.into() };
    let Some(token) = request.token.as_str() else { return nothing() };
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
pub fn make(ask: MasterRequest) -> Answer {
    let eauth = read(ask.load, MakeToken::from_map).and_then(|request| request.eauth);
    let provider: String = eauth.iter().flat_map(|eauth| eauth.as_str().chars()).take(60).collect();
    warn!("Authentication failure of type \"eauth\" occurred: external authentication ({provider}) is not supported");
    "".into()
}
