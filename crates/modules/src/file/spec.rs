//! What `file.managed` and its relatives are told about a file.
//!
//! Each of these functions has a signature of Salt's, and makes a [`FileSpec`] of it. All that follows reads the spec:
//! [`super::managed`] fetches the content, [`super::manage`] writes the file.

use exec::{Context, Result};
use value::{Map, Value};

use super::diff::Ignore;
use super::perms::{DesiredPerms, normalize_mode};
use super::selinux::Selinux;
use super::signature::Signature;
use super::sources;
use crate::fileclient::Web;

/// The wanted state of a file.
#[derive(Clone, Debug, Default)]
pub struct FileSpec {
    /// The path.
    pub name: String,
    /// Where the content comes from, unless `contents` is given.
    pub origin: Origin,
    /// How the content is rendered.
    pub template: TemplateSpec,
    /// The content itself, instead of a source: text or bytes; null if there is none.
    pub contents: Value,
    /// The encoding of text in `contents`.
    pub encoding: Option<String>,
    /// The treatment of characters that the encoding lacks.
    pub encoding_errors: String,
    /// Owner.
    pub user: Value,
    /// Group.
    pub group: Value,
    /// Permissions, in any of the forms that [`normalize_mode`] reads.
    pub mode: Value,
    /// Takes over the permissions of the source.
    pub keep_mode: bool,
    /// Attributes. Templates see them as they were given.
    pub attrs: Value,
    /// SELinux context.
    pub selinux: Selinux,
    /// Follows links.
    pub follow_symlinks: bool,
    /// The backup mode: where the old file is kept.
    pub backup: Value,
    /// Creates missing directories.
    pub makedirs: bool,
    /// Permissions of directories that are created.
    pub dir_mode: Value,
    /// Shows the difference.
    pub show_changes: bool,
    /// Differences that do not count.
    pub ignore: Ignore,
    /// Shows the whole content of a new file.
    pub new_file_diff: bool,
}

impl FileSpec {
    /// Returns the letters of the attributes; `None` keeps the present ones.
    pub fn attrs(&self) -> Option<String> {
        // States pass other empty values than "" for "not given".
        Some(&self.attrs).filter(|attrs| attrs.truthy() || attrs.as_str().is_some()).map(Value::to_string)
    }

    /// Returns the wanted owner, permissions, attributes and SELinux context.
    pub fn perms(&self) -> DesiredPerms {
        DesiredPerms {
            user: self.user.clone(),
            group: self.group.clone(),
            mode: normalize_mode(&self.mode),
            attrs: self.attrs(),
            follow_symlinks: self.follow_symlinks,
            selinux: self.selinux.clone(),
        }
    }

    /// Returns the given content as bytes, regardless of the encoding.
    pub fn given_contents(&self) -> Option<Vec<u8>> {
        match &self.contents {
            Value::Null => None,
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            other => Some(other.to_string().into_bytes()),
        }
    }
}

/// Where the content of a file comes from, and how it is verified.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The address, or before [`Origin::choose`] a list of addresses.
    pub source: Value,
    /// A checksum, `kind=checksum`, or the address of a list of checksums.
    pub source_hash: Value,
    /// The name that the file has in a list of checksums.
    pub source_hash_name: Option<String>,
    /// The environment of the source.
    pub saltenv: String,
    /// Skips the check of the checksum.
    pub skip_verify: bool,
    /// The settings for a download from the web.
    pub web: Web,
    /// Signatures.
    pub signature: Signature,
}

impl Origin {
    /// Reads what execution functions are given: empty values count as not given.
    pub fn read(source: &Value, source_hash: Value, source_hash_name: &Value, saltenv: String) -> Self {
        let (source, source_hash_name) = (text(source).into(), text(source_hash_name));
        Origin { source, source_hash, source_hash_name, saltenv, ..Origin::default() }
    }

    /// Chooses the first address that exists, if there are several.
    ///
    /// # Errors
    /// When none exists.
    pub fn choose(&mut self, ctx: &Context) -> Result<()> {
        (self.source, self.source_hash) = sources::choose(ctx, &self.source, &self.source_hash, &self.saltenv)?;
        Ok(())
    }

    /// Returns the address, once it is chosen.
    pub fn address(&self) -> Option<&str> {
        self.source.as_str().filter(|source| !source.is_empty())
    }
}

/// How the content of a file is rendered.
#[derive(Clone, Debug, Default)]
pub struct TemplateSpec {
    /// The engine; `None` takes the content as it is.
    pub engine: Option<String>,
    /// The variables of the template.
    pub context: Map,
    /// The variables that the context does not define.
    pub defaults: Map,
    /// Additional arguments, which the template sees.
    pub more: Map,
}

impl TemplateSpec {
    /// Reads what execution functions are given.
    pub fn read(engine: &Value, context: &Value, defaults: &Value, more: Map) -> Self {
        let (context, defaults) = (sources::given_map(context), sources::given_map(defaults));
        TemplateSpec { engine: text(engine), context, defaults, more }
    }
}

/// Reads a text; an empty value counts as not given.
pub fn text(value: &Value) -> Option<String> {
    Some(value).filter(|value| value.truthy()).map(Value::to_string)
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn only_an_empty_text_takes_attributes_away() {
        let attrs = |attrs: Value| FileSpec { attrs, ..FileSpec::default() }.attrs();
        assert_eq!(attrs("ai".into()), Some("ai".to_owned()));
        assert_eq!(attrs("".into()), Some(String::new()));
        assert_eq!(attrs(Value::Null), None);
        // `cron.file` passes an empty list.
        assert_eq!(attrs(list![]), None);
    }
}
