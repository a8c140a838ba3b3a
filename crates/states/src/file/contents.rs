//! Contents of managed files that do not come from a source.

use exec::{Context, Result};
use modules::text;
use modules::util::traverse;
use value::{Map, Value};

use super::common::text_list;

/// Contents from the state, the pillar or the grains.
pub struct ContentsArgs {
    /// The contents themselves.
    pub contents: Value,
    /// The key in the pillar.
    pub pillar: Value,
    /// The key in the grains.
    pub grains: Value,
    /// The separator of keys.
    pub delimiter: String,
    /// True if they end with a line end.
    pub newline: bool,
    /// True if they may be empty.
    pub allow_empty: bool,
    /// The encoding of bytes.
    pub encoding: Option<String>,
}

impl ContentsArgs {
    /// Returns how many of `contents` and its two relatives were given.
    pub fn count(&self) -> usize {
        [&self.contents, &self.pillar, &self.grains].iter().filter(|given| !given.is_null()).count()
    }

    /// Reports which arguments exclude each other.
    pub fn conflict(&self, source: &Value, keep_mode: bool) -> Option<&'static str> {
        match self.count() {
            0 => None,
            _ if source.truthy() => {
                Some("'source' cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'")
            }
            _ if keep_mode => Some(
                "Mode preservation cannot be used in combination with 'contents', 'contents_pillar', or \
                 'contents_grains'",
            ),
            1 => None,
            _ => Some("Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted"),
        }
    }

    /// Finds a value, or several that are joined by lines.
    fn find(&self, data: &Map, keys: &Value, what: &str) -> std::result::Result<Value, String> {
        let one = |key: &Value| {
            let found = traverse(data, &key.to_string(), &self.delimiter).cloned();
            found.ok_or_else(|| format!("{what} {key} does not exist"))
        };
        match keys {
            Value::List(keys) => {
                let parts: Vec<String> = keys
                    .iter()
                    .map(|key| one(key).map(|part| part.to_string()))
                    .collect::<std::result::Result<_, _>>()?;
                Ok(parts.join("\n").into())
            }
            key => one(key),
        }
    }

    /// Returns the contents as text, or as bytes if they are none; `None` if there are none.
    pub fn read(&self, ctx: &Context, is_template: bool) -> Result<std::result::Result<Value, String>> {
        // At most one of the three is set: `conflict` has refused everything else before.
        let found = match (&self.pillar, &self.grains) {
            (Value::Null, Value::Null) => Ok(self.contents.clone()),
            (Value::Null, keys) => self.find(&ctx.grains, keys, "Grain"),
            (keys, _) => self.find(&ctx.pillar, keys, "Pillar"),
        };
        let found = match found {
            Ok(Value::Null) if self.count() == 0 => return Ok(Ok(Value::Null)),
            Ok(Value::Null) => return Ok(Ok(Value::Null)),
            Ok(found) => found,
            Err(wrong) => return Ok(Err(wrong)),
        };
        // Salt tests the value before it becomes text, so the number 0 counts as empty here.
        if !self.allow_empty && !found.truthy() {
            let id = match (&self.pillar, &self.grains) {
                (pillar, _) if pillar.truthy() => format!("contents_pillar {pillar}"),
                (_, grains) if grains.truthy() => format!("contents_grains {grains}"),
                _ => "'contents'".into(),
            };
            return Ok(Err(format!(
                "{id} value would result in empty contents. Set allow_empty to True to allow the managed file to be \
                 empty."
            )));
        }
        let parts = match &found {
            Value::Bytes(bytes) => {
                // Bytes that decode are text after all, and get their line ends and final newline
                // like text.
                let encoding = modules::file::encode::Encoding::named(self.encoding.as_deref().unwrap_or("utf-8"))?;
                match encoding.decode(bytes) {
                    Ok(text) => vec![text],
                    // A template engine works on text and would mangle the bytes.
                    Err(_) if is_template => {
                        return Ok(Err(
                            "Contents specified by contents/contents_pillar/contents_grains appears to be \
                                       binary data, and as will not be able to be treated as a Jinja template."
                                .into(),
                        ));
                    }
                    Err(_) => return Ok(Ok(found)),
                }
            }
            other => text_list(other),
        };
        if parts.is_empty() {
            return Ok(Err(
                "Contents specified by contents/contents_pillar/contents_grains is not a string or list of \
                           strings, and is not binary data. SLS is likely malformed."
                    .into(),
            ));
        }
        // List items become separate lines. Foreign line ends become plain newlines.
        let lines = parts.iter().flat_map(|part| text::lines(part));
        let mut contents: String =
            lines.map(|line| format!("{}\n", line.trim_end_matches('\n').trim_end_matches('\r'))).collect();
        // Salt strips all newlines at the end, not only the one it added.
        if !self.newline {
            contents = contents.trim_end_matches('\n').trim_end_matches('\r').to_owned();
        }
        Ok(Ok(contents.into()))
    }
}
