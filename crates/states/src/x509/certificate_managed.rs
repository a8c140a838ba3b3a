//! `x509.certificate_managed`.

use exec::{Call, Context, KwArgs, Result, function};
use modules::x509::changes::{self, OutputOptions};
use modules::x509::encode::{self, Encoding};
use modules::x509::issue::CertificateToSign;
use modules::x509::load::{self, Bundle, Unloaded};
use modules::x509::{create, issue, listed, policy};
use value::{Map, Value, map};

use super::file::{Before, Managed, Plan, Ready, reported, sorted};
use crate::Ret;
use crate::support::over;

/// The default of `days_remaining`.
const DAYS_REMAINING: f64 = 90.0;
/// Changes that do not cause a new certificate.
// These concern only how the certificate is stored, so it keeps its serial number.
const OF_THE_FILE: [&str; 3] = ["additional_certs", "encoding", "pkcs12_friendlyname"];

/// Makes sure that there is a certificate.
#[function]
fn certificate_managed(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] days_remaining: Value,
    #[default(Value::Null)] ca_server: Value,
    #[default(Value::Null)] signing_policy: Value,
    #[default("pem")] encoding: String,
    #[default(Value::Null)] append_certs: Value,
    #[default("sha256")] digest: Value,
    #[default(Value::Null)] signing_private_key: Value,
    #[default(Value::Null)] signing_private_key_passphrase: Value,
    #[default(Value::Null)] signing_cert: Value,
    #[default(Value::Null)] public_key: Value,
    #[default(Value::Null)] private_key: Value,
    #[default(Value::Null)] private_key_passphrase: Value,
    #[default(Value::Null)] csr: Value,
    #[default(Value::Null)] subject: Value,
    #[default(Value::Null)] serial_number: Value,
    #[default(Value::Null)] not_before: Value,
    #[default(Value::Null)] not_after: Value,
    #[default(Value::Null)] days_valid: Value,
    pkcs12_passphrase: Option<String>,
    #[default(false)] pkcs12_encryption_compat: bool,
    pkcs12_friendlyname: Option<String>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let (of_file, mut others) = sorted(&kwargs);
    let digest = others.remove("algorithm").unwrap_or(digest);
    issue::renamed(&mut others);
    // A default next to an explicit end would contradict it.
    let days_valid = if days_valid.is_null() && not_after.is_null() { create::DAYS.into() } else { days_valid };
    let args = over(
        others,
        &map! {
            "digest" => digest, "signing_private_key" => signing_private_key,
            "signing_private_key_passphrase" => signing_private_key_passphrase, "signing_cert" => signing_cert,
            "public_key" => public_key, "private_key" => private_key,
            "private_key_passphrase" => private_key_passphrase, "csr" => csr, "subject" => subject,
            "serial_number" => serial_number, "not_before" => not_before, "not_after" => not_after,
            "days_valid" => days_valid,
        },
    );
    let encoding = Encoding {
        name: encoding,
        append: listed(&append_certs),
        passphrase: pkcs12_passphrase,
        old: pkcs12_encryption_compat,
        friendly_name: pkcs12_friendlyname,
    };
    let days_remaining = issue::number(&days_remaining).unwrap_or(DAYS_REMAINING);
    let state = State { ctx, args, encoding, days_remaining, ca_server, signing_policy };
    let file = Managed::new(ctx, &name, "certificate", of_file);
    reported(&name, state.apply(&file))
}

/// The arguments about the certificate.
struct State<'a> {
    ctx: &'a Context,
    args: Map,
    encoding: Encoding,
    days_remaining: f64,
    ca_server: Value,
    signing_policy: Value,
}

impl State<'_> {
    fn apply(self, file: &Managed<'_>) -> Result<Ret> {
        let ready = match file.look()? {
            Before::Done(ret) => return Ok(ret),
            Before::Ready(ready) => ready,
        };
        let (current, changes) = self.compare(&ready, &file.name)?;
        let plan = Plan { again: current.is_some(), is_text: encode::is_text(&self.encoding.name), changes };
        let same = current.filter(|_| plan.changes.text_keys().all(|key| OF_THE_FILE.contains(&key)));
        file.apply(ready, plan, || self.made(same))
    }

    /// The existing certificate, if it can be read, with the object of the comparison, and the changes.
    fn compare(&self, ready: &Ready, name: &str) -> Result<(Option<(Bundle, CertificateToSign)>, Map)> {
        if !ready.exists() {
            let mut changes = map! { "created" => name };
            if ready.replaces_link {
                changes.insert("replaced", name);
            }
            return Ok((None, changes));
        }
        // The policy decides many fields, so the comparison must know it. With a CA server it is
        // fetched from there.
        let policy = policy::get_signing_policy(self.ctx, self.signing_policy.clone(), self.ca_server.clone())?;
        let current = match load::cert(&ready.reference(), self.encoding.passphrase.as_deref()) {
            Ok(current) => current,
            // The passphrase in the state wins, and the container is written again with it.
            Err(Unloaded::InvalidPassword) => return Ok((None, map! { "pkcs12_passphrase" => true })),
            Err(Unloaded::Unreadable(_)) => return Ok((None, map! { "replaced" => name })),
            Err(why) => return Err(why.into()),
        };
        let wanted = OutputOptions {
            encoding: &self.encoding,
            days_remaining: self.days_remaining,
            digest: self.args.get("digest").cloned().unwrap_or_default(),
            remote: !self.ca_server.is_null(),
        };
        let mut args = self.args.clone();
        // The policy wins over the state, as it does when the certificate is issued.
        policy::lay_over(&policy, &mut args);
        let (changes, order) = changes::of_certificate(&current, &wanted, &args)?;
        Ok((Some((current, order)), changes))
    }

    /// The existing certificate in its new form, or a new one.
    fn made(self, same: Option<(Bundle, CertificateToSign)>) -> Result<Vec<u8>> {
        if let Some((current, order)) = same {
            self.encoding.check()?;
            return self.encoding.write(&current.cert, order.private_key.as_ref());
        }
        let Encoding { name, append, passphrase, old, friendly_name } = self.encoding;
        let kwargs = over(
            self.args,
            &map! {
                "ca_server" => self.ca_server, "signing_policy" => self.signing_policy, "encoding" => name,
                "append_certs" => Value::List(append), "pkcs12_passphrase" => passphrase,
                "pkcs12_encryption_compat" => old, "pkcs12_friendlyname" => friendly_name, "raw" => true,
            },
        );
        let made = self.ctx.call_with("x509.create_certificate", Call { args: Vec::new(), kwargs })?;
        Ok(made.as_bytes().unwrap_or_default().to_vec())
    }
}
