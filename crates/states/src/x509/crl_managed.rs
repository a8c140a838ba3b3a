//! `x509.crl_managed`.

use exec::{Context, KwArgs, Result, function};
use modules::x509::cert::Crl;
use modules::x509::load::{self, Unloaded};
use modules::x509::{changes, create, encode, issue, keys};
use value::{Map, Value, map};

use super::file::{Before, Managed, Plan, Ready, refuse_unknown, reported, sorted};
use crate::Ret;

/// The default of `days_remaining`.
const DAYS_REMAINING: f64 = 30.0;

/// Makes sure that there is a list of revoked certificates.
#[function]
fn crl_managed(
    ctx: &Context,
    name: String,
    signing_private_key: Value,
    revoked: Value,
    #[default(Value::Null)] days_remaining: Value,
    #[default(Value::Null)] signing_cert: Value,
    #[default(Value::Null)] signing_private_key_passphrase: Value,
    #[default(false)] include_expired: bool,
    #[default(Value::Null)] days_valid: Value,
    #[default("sha256")] digest: String,
    #[default("pem")] encoding: String,
    #[default(Value::Null)] extensions: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let (of_file, mut others) = sorted(&kwargs);
    // An argument of the old module, accepted without effect.
    others.remove("text");
    refuse_unknown(&others)?;
    let mut extensions = extensions.into_map().unwrap_or_default();
    // `auto` would make every list differ from the one before, so it is handled apart.
    let counts = extensions.get_str("cRLNumber") == Some("auto");
    if counts {
        extensions.remove("cRLNumber");
    }
    let args = map! {
        "signing_private_key" => signing_private_key, "revoked" => issue::revoked_list(&revoked)?,
        "signing_cert" => signing_cert, "signing_private_key_passphrase" => signing_private_key_passphrase,
        "include_expired" => include_expired, "extensions" => extensions,
        "days_valid" => if days_valid.is_null() { create::DAYS_OF_LIST.into() } else { days_valid },
    };
    let days_remaining = issue::number(&days_remaining).unwrap_or(DAYS_REMAINING);
    let wanted = CrlArgs { args, digest, encoding, counts, days_remaining };
    let file = Managed::new(ctx, &name, "certificate revocation list", of_file);
    reported(&name, wanted.apply(&file))
}

/// The arguments about the list.
struct CrlArgs {
    args: Map,
    digest: String,
    encoding: String,
    /// True if each new list has the next number.
    counts: bool,
    days_remaining: f64,
}

impl CrlArgs {
    fn apply(self, file: &Managed<'_>) -> Result<Ret> {
        let ready = match file.look()? {
            Before::Done(ret) => return Ok(ret),
            Before::Ready(ready) => ready,
        };
        let (current, changes) = self.compare(&ready, &file.name)?;
        let same = changes.text_keys().all(|key| key == "encoding");
        // A list that revokes nothing counts for Salt as none.
        let again = current.as_ref().is_some_and(|list| !list.revoked.is_empty());
        let plan = Plan { changes, again, is_text: self.encoding == "pem" };
        file.apply(ready, plan, || self.made(current, same))
    }

    /// The existing list, if it can be read, and the changes.
    fn compare(&self, ready: &Ready, name: &str) -> Result<(Option<Crl>, Map)> {
        if !ready.exists() {
            let mut changes = map! { "created" => name };
            if ready.replaces_link {
                changes.insert("replaced", name);
            }
            return Ok((None, changes));
        }
        let (current, encoding) = match load::crl(&ready.reference()) {
            Ok(found) => found,
            Err(Unloaded::Unreadable(_)) => return Ok((None, map! { "replaced" => name })),
            Err(why) => return Err(why.into()),
        };
        let mut found = Map::new();
        if changes::differs(&current.algorithm, &self.digest)? {
            found.insert("digest", self.digest.as_str());
        }
        if encoding != self.encoding {
            found.insert("encoding", self.encoding.as_str());
        }
        let near = |time| changes::is_near(time, self.days_remaining);
        // 0 switches the check off.
        if self.days_remaining != 0.0 && current.next_update.map_or(Ok(true), near)? {
            found.insert("expiration", true);
        }
        let (mut new, key) = issue::revocations(&self.args)?;
        if self.counts {
            // The number is that of the existing list until a new one is made.
            new.extensions.extend(current.number_extension().cloned());
        }
        found.update(changes::of_revocations(&current, &new, &keys::public_der(&key)?));
        Ok((Some(current), found))
    }

    fn made(mut self, current: Option<Crl>, same: bool) -> Result<Vec<u8>> {
        encode::check(&self.encoding, encode::OF_OTHERS)?;
        let der = match current {
            Some(current) if same => current.der,
            current => {
                if let Some(Value::Map(extensions)) = self.args.get_mut("extensions").filter(|_| self.counts) {
                    // Numbers have to increase, or clients keep the older list.
                    let last = current.as_ref().and_then(Crl::number);
                    extensions.insert("cRLNumber", last.map_or(1, |last| last + 1));
                }
                create::list(&self.args, &self.digest)?
            }
        };
        Ok(if self.encoding == "pem" { encode::pem("X509 CRL", &der).into_bytes() } else { der })
    }
}
