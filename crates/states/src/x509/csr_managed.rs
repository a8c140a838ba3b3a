//! `x509.csr_managed`.

use exec::{Context, KwArgs, Result, function};
use modules::x509::cert::Csr;
use modules::x509::load::{self, Unloaded};
use modules::x509::{changes, create, encode, issue};
use value::{Map, Value, map};

use super::file::{Before, Managed, Plan, Ready, reported, sorted};
use crate::Ret;
use crate::support::over;

/// Makes sure that there is a certificate request.
#[function]
fn csr_managed(
    ctx: &Context,
    name: String,
    private_key: Value,
    #[default(Value::Null)] private_key_passphrase: Value,
    #[default("sha256")] digest: String,
    #[default("pem")] encoding: String,
    #[default(Value::Null)] subject: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let (of_file, mut others) = sorted(&kwargs);
    let digest = others.remove("algorithm").map_or(digest, |old| old.to_string());
    issue::renamed(&mut others);
    let args = over(
        others,
        &map! {
            "private_key" => private_key, "private_key_passphrase" => private_key_passphrase, "subject" => subject,
        },
    );
    let file = Managed::new(ctx, &name, "certificate signing request", of_file);
    let wanted = CsrArgs { args, digest, encoding };
    reported(&name, wanted.apply(&file))
}

/// The arguments about the request.
struct CsrArgs {
    args: Map,
    digest: String,
    encoding: String,
}

impl CsrArgs {
    fn apply(self, file: &Managed<'_>) -> Result<Ret> {
        let ready = match file.look()? {
            Before::Done(ret) => return Ok(ret),
            Before::Ready(ready) => ready,
        };
        let (current, changes) = self.compare(&ready, &file.name)?;
        let plan = Plan { again: current.is_some(), is_text: self.encoding == "pem", changes };
        let same = current.filter(|_| plan.changes.text_keys().all(|key| key == "encoding"));
        file.apply(ready, plan, || self.made(same))
    }

    /// The existing request, if it can be read, and the changes.
    fn compare(&self, ready: &Ready, name: &str) -> Result<(Option<Csr>, Map)> {
        if !ready.exists() {
            let mut changes = map! { "created" => name };
            if ready.replaces_link {
                changes.insert("replaced", name);
            }
            return Ok((None, changes));
        }
        let (current, encoding) = match load::csr(&ready.reference()) {
            Ok(found) => found,
            Err(Unloaded::Unreadable(_)) => return Ok((None, map! { "replaced" => name })),
            Err(why) => return Err(why.into()),
        };
        // Version 1 is encoded as 0, and there is no other. The former module could write 3.
        if current.version != 0 {
            return Ok((None, map! { "invalid_version" => true, "replaced" => name }));
        }
        let mut found = Map::new();
        if changes::differs(&current.algorithm, &self.digest)? {
            found.insert("digest", self.digest.as_str());
        }
        if encoding != self.encoding {
            found.insert("encoding", self.encoding.as_str());
        }
        let (new, _) = issue::request(&self.args)?;
        found.update(changes::of_request(&current, &new)?);
        Ok((Some(current), found))
    }

    fn made(self, same: Option<Csr>) -> Result<Vec<u8>> {
        encode::check(&self.encoding, encode::OF_OTHERS)?;
        let der = match same {
            Some(current) => current.der,
            None => create::request(&self.args, &self.digest)?,
        };
        Ok(if self.encoding == "pem" { encode::pem("CERTIFICATE REQUEST", &der).into_bytes() } else { der })
    }
}
