//! Signing policies, and certificates that another minion signs.

use std::collections::HashMap;
use std::sync::Mutex;

use exec::{Call, Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::{encode, issue, keys, load, oids};

/// The policies fetched during this run, by minion and name.
type Remembered = Mutex<HashMap<(String, String), Map>>;

/// The longest wait for a signature of another minion, in seconds.
const PATIENCE: i64 = 60;

/// The keys of a policy that are never sent: the signing key and the places of copies.
const NOT_FOR_OTHERS: &[&str] =
    &["ca_server", "signing_private_key", "signing_private_key_passphrase", "copypath", "prepend_cn"];

/// Finds a policy of this minion, in its pillar or its options.
///
/// # Errors
/// The pillar cannot be asked.
pub fn local(ctx: &Context, name: &Value) -> Result<Map> {
    if name.is_null() {
        return Ok(Map::new());
    }
    let named = |policies: Value| policies.as_map().and_then(|map| map.get_value(name).cloned()).unwrap_or_default();
    let lookup = |args: Vec<Value>, kwargs: Map| Call { args, kwargs };
    let args = vec!["x509_signing_policies".into(), Map::new().into()];
    let pillar = ctx.call_with("pillar.get", lookup(args.clone(), map! { "unmask" => true }))?;
    let mut policy = named(pillar);
    if !policy.truthy() {
        policy = named(ctx.call_with("config.get", lookup(args, Map::new()))?);
    }
    Ok(match policy {
        Value::List(parts) => parts.into_iter().filter_map(Value::into_map).flatten().collect(),
        Value::Map(map) => map,
        _ => Map::new(),
    })
}

/// Lays a policy over arguments. What names the subject in the policy wins, in whatever form.
pub fn lay_over(policy: &Map, args: &mut Map) {
    if policy.is_empty() {
        return;
    }
    let mut policy = policy.clone();
    issue::renamed(args);
    if args.contains_key("subject") {
        if oids::ATTRIBUTES.iter().any(|(name, _)| policy.contains_key(name)) {
            args.remove("subject");
        } else {
            match (args.get_mut("subject"), policy.get("subject").cloned()) {
                (Some(Value::Map(ours)), Some(Value::Map(theirs))) => {
                    ours.update(theirs);
                    policy.remove("subject");
                }
                (Some(Value::List(ours)), Some(Value::List(mut theirs))) => {
                    theirs.append(ours);
                    *ours = theirs;
                    policy.remove("subject");
                }
                _ => {}
            }
        }
    }
    args.update(policy);
}

/// Calls another minion.
fn ask(ctx: &Context, ca_server: &str, policy: &Value, args: Map, policy_only: bool) -> Result<Value> {
    let arg = Value::List(vec![policy.clone(), args.into(), policy_only.into()]);
    let call = Call {
        args: vec![ca_server.into(), "x509.sign_remote_certificate".into()],
        kwargs: map! { "arg" => arg, "timeout" => PATIENCE },
    };
    let returns = ctx.call_with("publish.publish", call)?;
    let silent = || {
        Error::invocation(
            "ca_server did not respond. Salt master must permit peers to call the sign_remote_certificate function.",
        )
    };
    let answer = returns.as_map().and_then(|returns| returns.values().next()).ok_or_else(silent)?;
    let Some(data) = answer.as_map().and_then(|answer| answer.get("data")) else {
        tracing::error!("Received invalid return value from ca_server: {answer}");
        return Err(Error::execution("Received invalid return value from ca_server. See minion log for details"));
    };
    let errors: Vec<String> =
        answer.get("errors").and_then(Value::as_list).unwrap_or_default().iter().map(Value::to_string).collect();
    if errors.is_empty() {
        return Ok(data.clone());
    }
    Err(Error::execution(format!("ca_server reported errors:\n{}", errors.join("\n"))))
}

/// Has another minion sign a certificate, which is returned as DER.
///
/// # Errors
/// The arguments are wrong, or the other minion refuses.
pub fn signed_elsewhere(
    ctx: &Context,
    ca_server: &str,
    policy: &Value,
    mut args: Map,
) -> Result<(load::Bundle, Option<openssl::pkey::PKey<openssl::pkey::Private>>)> {
    let private = args.remove("private_key").filter(Value::truthy);
    let passphrase =
        args.remove("private_key_passphrase").filter(|value| !value.is_null()).map(|pass| pass.to_string());
    let private = private.map(|key| keys::private(&key, passphrase.as_deref())).transpose()?.map(|(key, _)| key);
    let bytes = |bytes: Vec<u8>| Value::bytes(bytes);
    if let Some(key) = &private {
        args.insert("public_key", bytes(keys::public_der(key)?));
    } else if let Some(key) = issue::argument(&args, "public_key") {
        let key = keys::public(key)?;
        let der = key.public_key_to_der().map_err(|error| Error::execution(error.to_string()))?;
        args.insert("public_key", bytes(der));
    }
    if let Some(csr) = issue::argument(&args, "csr") {
        let (csr, _) = load::csr(csr)?;
        args.insert("csr", bytes(csr.der));
    }
    let answer = ask(ctx, ca_server, policy, args, false)?;
    let bundle = load::cert(&answer, None)
        .map_err(|_| Error::execution(format!("ca_server did not return a certificate: {answer}")))?;
    Ok((bundle, private))
}

/// Returns a signing policy by its name, of this minion or of another one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.get_signing_policy www
#[function]
pub fn get_signing_policy(
    ctx: &Context,
    signing_policy: Value,
    #[default(Value::Null)] ca_server: Value,
) -> Result<Map> {
    let mut policy = if ca_server.is_null() {
        local(ctx, &signing_policy)?
    } else {
        remembered(ctx, &ca_server.to_string(), &signing_policy)?
    };
    issue::renamed(&mut policy);
    Ok(policy)
}

/// The policy of another minion, which is asked once in a run.
fn remembered(ctx: &Context, ca_server: &str, name: &Value) -> Result<Map> {
    let memo = ctx.memo.get::<Remembered>();
    let key = (ca_server.to_owned(), name.to_string());
    let known = memo.lock().expect("no one panics holding this").get(&key).cloned();
    if let Some(policy) = known {
        return Ok(policy);
    }
    let mut policy = ask(ctx, ca_server, name, Map::new(), true)?.into_map().unwrap_or_default();
    if let Some(cert) = policy.get("signing_cert").cloned() {
        let cert = load::cert(&cert, None)?.cert;
        policy.insert("signing_cert", encode::pem("CERTIFICATE", &cert.der));
    }
    memo.lock().expect("no one panics holding this").insert(key, policy.clone());
    Ok(policy)
}

/// Signs a certificate for another minion, as far as a policy allows it. Called by that minion, not by users.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' x509.sign_remote_certificate www kwargs="{'public_key': '/etc/pki/www.key'}"
#[function]
fn sign_remote_certificate(
    ctx: &Context,
    signing_policy: Value,
    kwargs: Value,
    #[default(false)] get_signing_policy_only: bool,
    more_kwargs: KwArgs,
) -> Result<Map> {
    let asker = more_kwargs.0.get_str("__pub_id").map(str::to_owned);
    let answer = |data: Value, error: Option<String>| {
        map! { "data" => data, "errors" => error.into_iter().collect::<Vec<_>>() }
    };
    let policy = match permitted(ctx, &signing_policy, asker.as_deref()) {
        Ok(Ok(policy)) => policy,
        Ok(Err(refusal)) => return Ok(answer(Value::Null, Some(refusal.into()))),
        Err(error) => {
            tracing::error!("{error}");
            let text = "Failed building the signing policy. See CA server log for details.";
            return Ok(answer(Value::Null, Some(text.into())));
        }
    };
    let done = if get_signing_policy_only {
        without_secrets(policy).map(Value::from)
    } else {
        let mut args = kwargs.into_map().unwrap_or_default();
        NOT_FOR_OTHERS.iter().for_each(|name| drop(args.remove(name)));
        lay_over(&policy, &mut args);
        super::create::signed_here(&args).map(|(cert, _)| Value::bytes(cert.der))
    };
    Ok(match done {
        Ok(data) => answer(data, None),
        Err(error) => answer(Value::Null, Some(error.to_string())),
    })
}

/// The policy, or why the minion that asks gets none.
fn permitted(ctx: &Context, name: &Value, asker: Option<&str>) -> Result<std::result::Result<Map, &'static str>> {
    let mut policy = local(ctx, name)?;
    if policy.is_empty() {
        return Ok(Err("signing_policy must be specified and defined on signing minion"));
    }
    if let Some(minions) = policy.remove("minions") {
        let Some(asker) = asker else { return Ok(Err("minion sending this request could not be identified")) };
        if !is_meant(ctx, &minions.to_string(), asker)? {
            return Ok(Err("minion not permitted to use specified signing policy"));
        }
    }
    Ok(Ok(policy))
}

/// Removes from a policy what another minion must not know.
fn without_secrets(mut policy: Map) -> Result<Map> {
    policy.remove("signing_private_key");
    policy.remove("signing_private_key_passphrase");
    if let Some(cert) = policy.get("signing_cert").cloned() {
        let cert = load::cert(&cert, None)?.cert;
        policy.insert("signing_cert", Value::bytes(cert.der));
    }
    Ok(policy)
}

/// Returns whether a policy is for a minion. The master is asked about expressions that are more than a glob.
fn is_meant(ctx: &Context, test: &str, minion: &str) -> Result<bool> {
    if !test.contains('@') {
        return Ok(ctx.call("match.glob", vec![test.into(), minion.into()])?.truthy());
    }
    let arg: Value = [test, minion].into_iter().collect();
    let call = Call { args: vec!["match.compound_matches".into()], kwargs: map! { "arg" => arg } };
    match ctx.call_with("publish.runner", call)? {
        Value::Null => Err(Error::execution(
            "Could not check minion match for compound expression. Is this minion allowed to run \
             `match.compound_matches` on the master?",
        )),
        Value::Map(answer) => Ok(answer.get_str("res") == Some(minion)),
        _ => Err(Error::execution("Invalid return value of match.compound_matches.")),
    }
}

#[cfg(test)]
mod tests {
    use exec::{Module, testing};
    use openssl::x509::X509;

    use super::*;

    /// Asks the one machine there is.
    #[function]
    fn publish(ctx: &Context, tgt: String, fun: String, arg: Value, timeout: i64) -> Result<Map> {
        assert_eq!((fun.as_str(), timeout), ("x509.sign_remote_certificate", PATIENCE));
        let call = Call { args: arg.into_list().unwrap_or_default(), kwargs: Map::new() };
        Ok(map! { tgt => ctx.call_with(&fun, call)? })
    }

    static PUBLISHING: Module = Module::new("publish", "Asks the one machine there is.", &[&PUBLISH]);

    #[test]
    fn another_minion_signs_as_its_policy_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for name in ["ca.key", "other.key", "own.key"] {
            let key = keys::generate("ec", None).unwrap();
            std::fs::write(path(name), keys::encode(&key, "pem", None, false).unwrap()).unwrap();
        }
        let policy =
            map! { "signing_private_key" => path("ca.key"), "signing_cert" => path("ca.crt"), "O" => "policy" };
        let opts = map! { "x509_signing_policies" => map! { "www" => policy } };
        let modules = [&super::super::MODULE, &PUBLISHING, &crate::pillar::MODULE, &crate::config::MODULE];
        let (ctx, _agent) = testing::context(&modules, opts, Map::new(), Map::new());
        let made = |kwargs: Map| {
            let call = Call { args: Vec::new(), kwargs };
            let text = ctx.call_with("x509.create_certificate", call).unwrap().to_string();
            (X509::from_pem(text.as_bytes()).unwrap(), text)
        };
        let (ca, text) = made(map! { "signing_private_key" => path("ca.key"), "CN" => "ca" });
        std::fs::write(path("ca.crt"), text).unwrap();
        let (cert, _) = made(map! {
            "ca_server" => "ca", "signing_policy" => "www", "private_key" => path("own.key"), "CN" => "x", "O" => "mine",
            "signing_private_key" => path("other.key"), "copypath" => path(""),
        });
        assert!(cert.verify(&ca.public_key().unwrap()).unwrap());
        let own = keys::private(&path("own.key").into(), None).unwrap().0;
        assert!(cert.public_key().unwrap().public_eq(&own));
        let entries = cert.subject_name().entries();
        let subject: Vec<String> =
            entries.map(|entry| String::from_utf8_lossy(entry.data().as_slice()).into_owned()).collect();
        assert_eq!(subject, ["policy", "x"]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "a copy was kept");
    }
}
