//! `/keys`: the keys of minions, and new key pairs as an archive.

use std::sync::Arc;

use axum::http::header;
use value::{Map, Value, map};
use wire::MinionId;

use crate::api::Api;
use crate::exchange::{ReceivedRequest, Reply};
use crate::failure::Failure;
use crate::low;

/// Returns all keys, or the fingerprints of those that match the rest of the path.
///
/// # Errors
/// When the user may not see them.
pub async fn show(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let caller = request.caller.as_ref().ok_or_else(Failure::no_credentials)?;
    let (fun, named) = match request.rest.as_str() {
        "" => ("key.list_all", Map::new()),
        id => ("key.finger", map! { "match" => id }),
    };
    let event = api.call(&caller.session.token, "wheel", fun, named).await?;
    let returned = event.get("data").and_then(|data| data.get("return")).cloned().unwrap_or_default();
    Ok(map! { "return" => returned }.into())
}

/// Makes a key pair for a minion, accepts it, and returns both halves as an archive.
///
/// # Errors
/// When the user may not do it, the id is wrong, or the minion has a key.
pub async fn make(api: &Arc<Api>, request: &ReceivedRequest) -> Result<Reply, Failure> {
    let command = request.commands()?.into_iter().next().ok_or_else(Failure::no_credentials)?;
    let named = ["token", "eauth"].iter().any(|name| command.contains_key(name));
    let proof = match request.caller.as_ref().filter(|_| !named) {
        Some(caller) => map! { "token" => caller.session.token.as_str() },
        None => low::credentials(&command)?,
    };
    let id = command.get_str("mid").ok_or_else(|| Failure::bad_request("'mid' is missing"))?;
    // Salt's function would use a part of the path.
    let id = MinionId::new(id).map_err(|_| Failure::bad_request("'mid' is not the id of a minion"))?;
    let mut options = map! { "id_" => id.as_str() };
    for name in ["keysize", "force"] {
        // Fields of forms are texts.
        match command.get(name) {
            Some(Value::Str(text)) => options.insert(name, yaml::args::parse_cli_arg(text)),
            Some(value) => options.insert(name, value.clone()),
            None => None,
        };
    }
    low::check_enabled("wheel", &api.options.clients)?;
    let event = api.link.wheel(low::Call::named("key.gen_accept", options), proof).await?;
    let data = event.get("data").and_then(Value::as_map).cloned().unwrap_or_default();
    match data.get("return") {
        Some(Value::Map(pair)) if pair.is_empty() => {
            Err(Failure::new(409, format!("The minion '{id}' has a key; 'force' replaces it")))
        }
        Some(Value::Map(pair)) => archive(&id, pair),
        // The reason, such as a size that is too large.
        Some(Value::Str(reason)) => Err(Failure::bad_request(reason.as_str())),
        _ => Err(Failure::unexpected()),
    }
}

fn archive(id: &MinionId, pair: &Map) -> Result<Reply, Failure> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, half) in [("minion.pub", "pub"), ("minion.pem", "priv")] {
        let key = pair.get_str(half).unwrap_or_default();
        let mut head = tar::Header::new_ustar();
        head.set_mode(0o644);
        head.set_size(key.len() as u64);
        builder.append_data(&mut head, name, key.as_bytes()).map_err(|error| failed(&error))?;
    }
    let packed = builder.into_inner().map_err(|error| failed(&error))?;
    let more = vec![
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"saltkeys-{id}.tar\"")),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    Ok(Reply::Bytes("application/x-tar", packed.into(), more))
}

fn failed(error: &std::io::Error) -> Failure {
    tracing::error!("failed to pack a key pair: {error}");
    Failure::unexpected()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn both_halves_are_in_the_archive() {
        let pair = map! { "pub" => "the public half", "priv" => "the private half" };
        let Reply::Bytes(kind, packed, more) = archive(&MinionId::new("web1").unwrap(), &pair).unwrap() else {
            panic!("no bytes")
        };
        assert_eq!(kind, "application/x-tar");
        assert_eq!(more[0].1, "attachment; filename=\"saltkeys-web1.tar\"");
        let mut found = Vec::new();
        for entry in tar::Archive::new(packed.as_ref()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            found.push((entry.path().unwrap().display().to_string(), entry.header().mode().unwrap(), text));
        }
        let expected = [("minion.pub", "the public half"), ("minion.pem", "the private half")];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), 0o644, text.to_owned())));
    }
}
