//! The execution functions about the content of managed files; [`super::managed`] does the work.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value, list};

use super::diff::Ignore;
use super::extract::Sum;
use super::managed::{DesiredFile, SourceRequest, changes, check, fetch, given_contents};
use super::selinux::Selinux;
use super::signature::Signature;
use super::sources;
use crate::fileclient::Web;

fn text(value: &Value) -> Option<String> {
    Some(value).filter(|value| value.truthy()).map(Value::to_string)
}

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
        file: Value::Null,
        list: source_hash_sig,
        signed_by_any,
        signed_by_all,
        keyring,
        gnupghome,
        backend: sig_backend,
    };
    let asked = SourceRequest {
        name,
        template: text(&template),
        source: text(&source),
        source_hash,
        source_hash_name: text(&source_hash_name),
        user,
        group,
        mode,
        attrs,
        saltenv: sources::environment(&saltenv),
        context: sources::map_or_none(&context),
        defaults: sources::map_or_none(&defaults),
        skip_verify,
        web: Web { verify_ssl, use_etag },
        signature,
        more: kwargs.given(),
    };
    let fetched = fetch(ctx, &asked)?;
    let sum = fetched.sum.map_or_else(|| Map::new().into(), Value::from);
    Ok(list![fetched.place, sum, fetched.trouble])
}

/// The arguments shared by `check_managed` and `check_managed_changes`.
struct Checked {
    asked: SourceRequest,
    desired: DesiredFile,
}

impl Checked {
    fn of(
        ctx: &Context,
        [name, source, source_hash, source_hash_name, user, group, mode, attrs, template, context]: [Value; 10],
        [defaults, saltenv, contents]: [Value; 3],
        more: Map,
    ) -> Result<Self> {
        let saltenv = sources::environment(&saltenv);
        // States pass the whole list of sources; the first that exists decides.
        let (source, source_hash) = sources::choose(ctx, &source, &source_hash, &saltenv)?;
        let asked = SourceRequest {
            name: name.to_string(),
            template: text(&template),
            source: text(&source),
            source_hash,
            source_hash_name: text(&source_hash_name),
            user: user.clone(),
            group: group.clone(),
            mode: mode.clone(),
            attrs: attrs.clone(),
            saltenv,
            context: sources::map_or_none(&context),
            defaults: sources::map_or_none(&defaults),
            more,
            ..SourceRequest::default()
        };
        let contents = given_contents(&contents);
        let desired = DesiredFile {
            name: asked.name.clone(),
            user,
            group,
            mode,
            attrs: text(&attrs),
            contents,
            ..DesiredFile::default()
        };
        Ok(Checked { asked, desired })
    }
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
    let Checked { asked, desired } = Checked::of(ctx, first, [defaults, saltenv, contents], kwargs.given())?;
    let asked = SourceRequest { skip_verify, ..asked };
    let selinux = Selinux { user: seuser, role: serole, kind: setype, range: serange };
    let desired = DesiredFile { selinux, follow_symlinks, ..desired };
    let mut changes = match check(ctx, &asked, desired, false)? {
        Ok((changes, _)) => changes,
        Err(trouble) => return Ok(list![false, trouble]),
    };
    // Salt does not check owner and mode of files in temporary directories.
    if asked.name.starts_with(&*std::env::temp_dir().to_string_lossy()) {
        ["user", "group", "mode"].iter().for_each(|key| drop(changes.remove(key)));
    }
    if changes.is_empty() {
        return Ok(list![true, format!("The file {} is in the correct state", asked.name)]);
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
    let Checked { asked, desired } = Checked::of(ctx, first, [defaults, saltenv, contents], kwargs.given())?;
    let web = Web { verify_ssl, ..Web::default() };
    let (asked, desired) = (SourceRequest { skip_verify, web, ..asked }, DesiredFile { web, ..desired });
    let selinux = Selinux { user: seuser, role: serole, kind: setype, range: serange };
    let ignore = Ignore::of(ignore_ordering, ignore_whitespace, &ignore_comment_characters);
    let any = ignore.any();
    let desired = DesiredFile { selinux, follow_symlinks, ignore, new_file_diff, ..desired };
    Ok(match check(ctx, &asked, desired, keep_mode)? {
        // The shape of the answer depends on the arguments, as in Salt.
        Ok((changes, counts)) if any => list![counts, changes],
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
    let ignore = Ignore::of(ignore_ordering, ignore_whitespace, &ignore_comment_characters);
    let any = ignore.any();
    let desired = DesiredFile {
        web: Web { verify_ssl, ..Web::default() },
        name,
        place: text(&sfn).unwrap_or_default(),
        source: text(&source),
        sum: Sum::from_value(&source_sum),
        user,
        group,
        mode,
        attrs: text(&attrs),
        saltenv: sources::environment(&saltenv),
        contents: given_contents(&contents),
        selinux: Selinux { user: seuser, role: serole, kind: setype, range: serange },
        follow_symlinks,
        ignore,
        new_file_diff,
    };
    let (changes, counts) = changes(ctx, &desired)?;
    Ok(if any { list![counts, changes] } else { changes.into() })
}
