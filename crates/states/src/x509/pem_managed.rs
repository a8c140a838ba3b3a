//! `x509.pem_managed`.

use exec::{Context, KwArgs, Result, function};
use modules::x509::pem::get_pem_entry;
use value::Value;

use super::file::{Managed, refuse_unknown, reported, sorted};
use crate::Ret;

/// Makes sure that a file holds a normalized PEM.
#[function]
fn pem_managed(ctx: &Context, name: String, text: Value, kwargs: KwArgs) -> Result<Ret> {
    let (of_file, others) = sorted(&kwargs);
    refuse_unknown(&others)?;
    let pem = match get_pem_entry(text, None) {
        Ok(pem) => String::from_utf8_lossy(pem.as_bytes().unwrap_or_default()).into_owned(),
        Err(error) => return reported(&name, Err(error)),
    };
    Managed::new(ctx, &name, "PEM", of_file).written(pem.into())
}
