//! The execution functions about the content of managed files; [`super::managed`] does the work.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value, list};

use super::diff::Ignore;
use super::extract::Sum;
use super::managed::{Fetched, changes, check, fetch};
use super::selinux::Selinux;
use super::signature::Signature;
use super::sources;
use super::spec::{FileSpec, Origin, TemplateSpec, text};
use crate::fileclient::Web;

/// Fetches and renders the source of a file. Returns the path of the result, its checksum and an error message.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_managed /etc/httpd/conf.d/httpd.conf jinja salt://http/httpd.conf '{hash_type: 'md5', 'hsum': <md5sum>}' None root root '755' base None None
#[function]
pub fn get_managed(
    ctx: &Context,
    name: String,
    template: Value,
    source: Value,
    source_hash: Value,
    source_hash_name: Value,
    user: Value,
    group: Value,
    mode: Value,
    attrs: Value,
    saltenv: Value,
    context: Value,
    defaults: Value,
    #[default(false)] skip_verify: bool,
    #[default(true)] verify_ssl: bool,
    #[default(false)] use_etag: bool,
    #[default(Value::Null)] source_hash_sig: Value,
    #[default(Value::Null)] signed_by_any: Value,
    #[default(Value::Null)] signed_by_all: Value,
    #[default(Value::Null)] keyring: Value,
    #[default(Value::Null)] gnupghome: Value,
    #[default(false)] ignore_ordering: bool,
    #[default(false)] ignore_whitespace: bool,
    #[default(Value::Null)] ignore_comment_characters: Value,
    #[default("gpg")] sig_backend: String,
    kwargs: KwArgs,
) -> Result<Value> {
    let _ = (ignore_ordering, ignore_whitespace, ignore_comment_characters);
    let signature = Signature {
        source_hash_sig,
        signed_by_any,
        signed_by_all,
        keyring,
        gnupghome,
        sig_backend,
        ..Signature::default()
    };
    let origin = Origin {
        skip_verify,
        web: Web { verify_ssl, use_etag },
        signature,
        ..Origin::read(&source, source_hash, &source_hash_name, sources::environment(&saltenv))
    };
    let template = TemplateSpec::read(&template, &context, &defaults, kwargs.given());
    let spec = FileSpec { name, origin, template, user, group, mode, attrs, ..FileSpec::default() };
    let fetched = fetch(ctx, &spec)?;
    let sum = fetched.sum.map_or_else(|| Map::new().into(), Value::from);
    Ok(list![fetched.place, sum, fetched.trouble])
}

/// Reads the arguments that `check_managed` and `check_managed_changes` share.
fn checked(
    ctx: &Context,
    [name, source, source_hash, source_hash_name, user, group, mode, attrs, template, context]: [Value; 10],
    [defaults, saltenv, contents]: [Value; 3],
    more: Map,
) -> Result<FileSpec> {
    let saltenv = sources::environment(&saltenv);
    // States pass the whole list of sources; the first that exists decides.
    let (source, source_hash) = sources::choose(ctx, &source, &source_hash, &saltenv)?;
    let origin = Origin::read(&source, source_hash, &source_hash_name, saltenv);
    let template = TemplateSpec::read(&template, &context, &defaults, more);
    let name = name.to_string();
    Ok(FileSpec { name, origin, template, contents, user, group, mode, attrs, ..FileSpec::default() })
}

/// Returns whether a file is in the wanted state: True, or None and the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.check_managed /etc/httpd/conf.d/httpd.conf salt://http/httpd.conf '{hash_type: 'md5', 'hsum': <md5sum>}' root, root, '755' jinja True None None base
#[function]
pub fn check_managed(
    ctx: &Context,
    name: Value,
    source: Value,
    source_hash: Value,
    source_hash_name: Value,
    user: Value,
    group: Value,
    mode: Value,
    attrs: Value,
    template: Value,
    context: Value,
    defaults: Value,
    saltenv: Value,
    #[default(Value::Null)] contents: Value,
    #[default(false)] skip_verify: bool,
    seuser: Option<String>,
    serole: Option<String>,
    setype: Option<String>,
    serange: Option<String>,
    #[default(false)] follow_symlinks: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    let first = [name, source, source_hash, source_hash_name, user, group, mode, attrs, template, context];
    let mut spec = checked(ctx, first, [defaults, saltenv, contents], kwargs.given())?;
    spec.origin.skip_verify = skip_verify;
    spec.selinux = Selinux { user: seuser, role: serole, kind: setype, range: serange };
    spec.follow_symlinks = follow_symlinks;
    let mut changes = match check(ctx, &spec)? {
        Ok((changes, _)) => changes,
        Err(trouble) => return Ok(list![false, trouble]),
    };
    // Salt does not check owner and mode of files in temporary directories.
    if spec.name.starts_with(&*std::env::temp_dir().to_string_lossy()) {
        ["user", "group", "mode"].iter().for_each(|key| drop(changes.remove(key)));
    }
    if changes.is_empty() {
        return Ok(list![true, format!("The file {} is in the correct state", spec.name)]);
    }
    let lines: String = changes.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    // None means "would change", as a state's result does in test mode.
    Ok(list![Value::Null, format!("The following values are set to be changed:\n{lines}")])
}

/// Returns the pending changes of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.check_managed_changes /etc/httpd/conf.d/httpd.conf salt://http/httpd.conf '{hash_type: 'md5', 'hsum': <md5sum>}' root, root, '755' jinja True None None base
#[function]
pub fn check_managed_changes(
    ctx: &Context,
    name: Value,
    source: Value,
    source_hash: Value,
    source_hash_name: Value,
    user: Value,
    group: Value,
    mode: Value,
    attrs: Value,
    template: Value,
    context: Value,
    defaults: Value,
    saltenv: Value,
    #[default(Value::Null)] contents: Value,
    #[default(false)] skip_verify: bool,
    #[default(false)] keep_mode: bool,
    seuser: Option<String>,
    serole: Option<String>,
    setype: Option<String>,
    serange: Option<String>,
    #[default(true)] verify_ssl: bool,
    #[default(false)] follow_symlinks: bool,
    #[default(false)] ignore_ordering: bool,
    #[default(false)] ignore_whitespace: bool,
    #[default(Value::Null)] ignore_comment_characters: Value,
    #[default(false)] new_file_diff: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    let first = [name, source, source_hash, source_hash_name, user, group, mode, attrs, template, context];
    let mut spec = checked(ctx, first, [defaults, saltenv, contents], kwargs.given())?;
    spec.origin.skip_verify = skip_verify;
    spec.origin.web.verify_ssl = verify_ssl;
    let selinux = Selinux { user: seuser, role: serole, kind: setype, range: serange };
    let ignore = Ignore::of(ignore_ordering, ignore_whitespace, &ignore_comment_characters);
    let spec = FileSpec { keep_mode, selinux, follow_symlinks, ignore, new_file_diff, ..spec };
    Ok(match check(ctx, &spec)? {
        // The shape of the answer depends on the arguments, as in Salt.
        Ok((changes, counts)) if spec.ignore.any() => list![counts, changes],
        Ok((changes, _)) => changes.into(),
        Err(trouble) => list![false, trouble],
    })
}

/// Returns the differences between a file and its wanted state.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.check_file_meta /etc/httpd/conf.d/httpd.conf None salt://http/httpd.conf '{hash_type: 'md5', 'hsum': <md5sum>}' root root '755' None base
#[function]
pub fn check_file_meta(
    ctx: &Context,
    name: String,
    sfn: Value,
    source: Value,
    source_sum: Value,
    user: Value,
    group: Value,
    mode: Value,
    attrs: Value,
    saltenv: Value,
    #[default(Value::Null)] contents: Value,
    seuser: Option<String>,
    serole: Option<String>,
    setype: Option<String>,
    serange: Option<String>,
    #[default(true)] verify_ssl: bool,
    #[default(false)] follow_symlinks: bool,
    #[default(false)] ignore_ordering: bool,
    #[default(false)] ignore_whitespace: bool,
    #[default(Value::Null)] ignore_comment_characters: Value,
    #[default(false)] new_file_diff: bool,
) -> Result<Value> {
    let mut origin = Origin::read(&source, Value::Null, &Value::Null, sources::environment(&saltenv));
    origin.web.verify_ssl = verify_ssl;
    let spec = FileSpec {
        name,
        origin,
        contents,
        user,
        group,
        mode,
        attrs: text(&attrs).into(),
        selinux: Selinux { user: seuser, role: serole, kind: setype, range: serange },
        follow_symlinks,
        ignore: Ignore::of(ignore_ordering, ignore_whitespace, &ignore_comment_characters),
        new_file_diff,
        ..FileSpec::default()
    };
    let fetched =
        Fetched { place: text(&sfn).unwrap_or_default(), sum: Sum::from_value(&source_sum), trouble: String::new() };
    let (changes, counts) = changes(ctx, &spec, &fetched)?;
    Ok(if spec.ignore.any() { list![counts, changes] } else { changes.into() })
}
