//! `file.decode`.

use std::path::Path;

use exec::{Call, Context, Error, Result, function};
use modules::util::traverse;
use value::{Value, map};

use crate::Ret;

/// Decodes base64 text and writes it into a file.
#[function]
pub fn decode(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] encoded_data: Value,
    contents_pillar: Option<String>,
    #[default("base64")] encoding_type: String,
    #[default("md5")] checksum: String,
) -> Result<Ret> {
    let _ = encoding_type;
    let pillar = contents_pillar.filter(|name| !name.is_empty());
    let content = match (encoded_data.truthy(), pillar) {
        (false, None) => {
            return Err(Error::execution("Specify either the 'encoded_data' or 'contents_pillar' argument."));
        }
        (true, Some(_)) => {
            return Err(Error::execution("Specify only one 'encoded_data' or 'contents_pillar' argument."));
        }
        (true, None) => encoded_data,
        (false, Some(name)) => {
            // `False` is Salt's default for a missing key, so a pillar value of `False` counts as
            // missing, too.
            let found = traverse(&ctx.pillar, &name, ":").filter(|found| **found != Value::Bool(false));
            found.cloned().ok_or_else(|| Error::execution("Pillar data not found."))?
        }
    };
    let ask = |fun: &str, args: Vec<Value>| ctx.call_with(&format!("hashutil.{fun}"), Call { args, kwargs: map! {} });
    let mut ret = Ret::new(name.as_str());
    if Path::new(&name).is_file() {
        let plain = ask("base64_decodestring", vec![content.clone()])?;
        let new = ask("digest", vec![plain, checksum.as_str().into()])?;
        let old = ask("digest_file", vec![name.as_str().into(), checksum.as_str().into()])?;
        // Only checksums are compared and reported, so that a decoded secret does not appear in the
        // changes.
        if new == old {
            return Ok(ret.ok("File is in the correct state."));
        }
        ret.changes = map! { "old" => old, "new" => new };
    }
    if ctx.is_test() {
        return Ok(ret.would("File is set to be updated."));
    }
    let done = ask("base64_decodefile", vec![content, name.as_str().into()])?;
    ret.result = Some(done.truthy());
    ret.comment = "File was updated.".into();
    // There was no file before. Its checksum is known only after writing.
    if ret.changes.is_empty() {
        let new = ask("digest_file", vec![name.as_str().into(), checksum.as_str().into()])?;
        ret.changes = map! { "old" => Value::Null, "new" => new };
    }
    Ok(ret)
}
