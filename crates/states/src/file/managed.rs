//! `file.managed`.

use std::path::Path;

use exec::{Context, KwArgs, Result, function};
use modules::file::address::is_foreign;
use modules::file::diff::Ignore;
use modules::file::paths::expand_user;
use modules::file::perms::normalize_mode;
use modules::file::selinux::Selinux;
use modules::file::signature::Signature;
use modules::file::spec::{FileSpec, Origin, TemplateSpec, text};
use modules::file::template;
use modules::fileclient::Web;
use value::{Map, Value};

use super::common::{check_user, environment, start, user_or_owner};
use super::contents::ContentsArgs;
use crate::Ret;

mod apply;
mod check_cmd;

use apply::File;
use check_cmd::CheckCmd;

pub use check_cmd::{MOD_RUN_CHECK_CMD, run_check};

/// Makes sure that a file has the content of a source or of `contents`, and the given owner and mode.
#[function]
pub fn managed(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] source: Value,
    #[default("")] source_hash: Value,
    source_hash_name: Option<String>,
    #[default(true)] keep_source: bool,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] mode: Value,
    #[default(Value::Null)] attrs: Value,
    #[default(Value::Null)] template: Value,
    #[default(false)] makedirs: bool,
    #[default(Value::Null)] dir_mode: Value,
    #[default(Value::Null)] context: Value,
    #[default(true)] replace: bool,
    #[default(Value::Null)] defaults: Value,
    #[default("")] backup: Value,
    #[default(true)] show_changes: bool,
    #[default(true)] create: bool,
    #[default(Value::Null)] contents: Value,
    tmp_dir: Option<String>,
    #[default("")] tmp_ext: Value,
    #[default(Value::Null)] contents_pillar: Value,
    #[default(Value::Null)] contents_grains: Value,
    #[default(true)] contents_newline: bool,
    #[default(":")] contents_delimiter: String,
    encoding: Option<String>,
    #[default("strict")] encoding_errors: String,
    #[default(true)] allow_empty: bool,
    #[default(true)] follow_symlinks: bool,
    #[default(Value::Null)] check_cmd: Value,
    #[default(false)] skip_verify: bool,
    #[default(Value::Null)] selinux: Value,
    #[default(Value::Null)] win_owner: Value,
    #[default(Value::Null)] win_perms: Value,
    #[default(Value::Null)] win_deny_perms: Value,
    #[default(true)] win_inheritance: bool,
    #[default(false)] win_perms_reset: bool,
    #[default(true)] verify_ssl: bool,
    #[default(false)] use_etag: bool,
    #[default(Value::Null)] signature: Value,
    #[default(Value::Null)] source_hash_sig: Value,
    #[default(Value::Null)] signed_by_any: Value,
    #[default(Value::Null)] signed_by_all: Value,
    #[default(Value::Null)] keyring: Value,
    #[default(Value::Null)] gnupghome: Value,
    #[default(false)] ignore_ordering: bool,
    #[default(false)] ignore_whitespace: bool,
    #[default(Value::Null)] ignore_comment_characters: Value,
    #[default(false)] new_file_diff: bool,
    #[default("gpg")] sig_backend: String,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (win_owner, win_perms, win_deny_perms, win_inheritance, win_perms_reset);
    let keep_mode = mode.as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("keep"));
    let mode = if keep_mode { None } else { normalize_mode(&mode) };
    let attrs = if attrs.is_null() { Value::Null } else { attrs.to_string().into() };
    let (pillar, grains, delimiter, newline) = (contents_pillar, contents_grains, contents_delimiter, contents_newline);
    let given = ContentsArgs { contents, pillar, grains, delimiter, newline, allow_empty, encoding: encoding.clone() };
    let signature =
        Signature { signature, source_hash_sig, signed_by_any, signed_by_all, keyring, gnupghome, sig_backend };
    let (saltenv, web) = (environment(ctx), Web { verify_ssl, use_etag });
    let spec = FileSpec {
        name: expand_user(&name),
        origin: Origin { source, source_hash, source_hash_name, saltenv, skip_verify, web, signature },
        template: TemplateSpec { engine: text(&template), more: kwargs.given(), ..TemplateSpec::default() },
        contents: Value::Null,
        encoding,
        encoding_errors,
        user,
        group,
        mode: mode.into(),
        keep_mode,
        attrs,
        selinux: selinux_parts(&selinux),
        follow_symlinks,
        backup,
        makedirs,
        dir_mode,
        show_changes,
        ignore: Ignore::of(ignore_ordering, ignore_whitespace, &ignore_comment_characters),
        new_file_diff,
    };
    let check = CheckCmd { command: check_cmd, tmp_dir, tmp_ext: tmp_ext.to_string() };
    Request { file: File { spec, keep_source }, given, context, defaults, create, replace, check }.apply(ctx, &kwargs)
}

/// What a state asks for: the file, without contents and names for templates, and what these are made of.
struct Request {
    file: File,
    given: ContentsArgs,
    context: Value,
    defaults: Value,
    create: bool,
    replace: bool,
    check: CheckCmd,
}

impl Request {
    /// Checks the arguments, reads the contents and manages the file.
    fn apply(self, ctx: &Context, kwargs: &KwArgs) -> Result<Ret> {
        let Request { mut file, given, context, defaults, create, replace, check } = self;
        let spec = &mut file.spec;
        let mut ret = start(&spec.name);
        if spec.name.is_empty() {
            return Ok(ret.fail("Destination file name is required"));
        }
        let source = &spec.origin.source;
        // Checked before anything is read or fetched: a contradictory state must not touch the pillar
        // or the network.
        if let Some(wrong) = given.conflict(source, spec.keep_mode) {
            return Ok(ret.fail(wrong));
        }
        if source.as_str().is_some_and(|source| !is_foreign(source)) && spec.origin.source_hash.truthy() {
            tracing::warn!("source_hash is only used with 'http', 'https' or 'ftp'");
        }
        // Without source and contents there is nothing to replace the file with, so only its owner and
        // mode are managed. Otherwise a bare `file.managed` would empty the file.
        let has_content = source.truthy() || given.count() > 0;
        if replace && !has_content {
            tracing::warn!(
                "State for file: {} - Neither 'source' nor 'contents' nor 'contents_pillar' nor 'contents_grains' was defined, \
                 yet 'replace' was set to 'True'. As there is no source to replace the file with, 'replace' has been set to \
                 'False' to avoid reading the file unnecessarily.",
                spec.name
            );
        }
        let replace = replace && has_content;
        if kwargs.0.contains_key("file_mode") {
            let warning =
                "The 'file_mode' argument will be ignored.  Please use 'mode' instead to set file permissions.";
            ret.more.insert("warnings", value::list![warning]);
        }
        // Contents are rendered before the user is checked, as in Salt, so a broken template is
        // reported first.
        let engine = spec.template.engine.as_deref();
        let contents = match given.read(ctx, engine.is_some())? {
            Ok(contents) => rendered(ctx, contents, engine, &spec.origin.saltenv, [&defaults, &context])?,
            Err(wrong) => Err(wrong),
        };
        spec.contents = match contents {
            Ok(contents) => contents,
            Err(wrong) => return Ok(ret.fail(wrong)),
        };
        spec.user = user_or_owner(std::mem::take(&mut spec.user), kwargs);
        let name = &spec.name;
        // `create: False` is a success: the state manages the file only where it exists.
        if !create && !Path::new(name).is_file() {
            return Ok(ret.ok(format!("File {name} is not present and is not set for creation")));
        }
        let wrong = check_user(ctx, &spec.user, &spec.group).or_else(|| refusal(name, &context, &defaults));
        if let Some(wrong) = wrong {
            return Ok(ret.fail(wrong));
        }
        spec.template.context = context.into_map().unwrap_or_default();
        spec.template.defaults = defaults.into_map().unwrap_or_default();
        file.apply(ctx, ret, replace, &check)
    }
}

fn selinux_parts(given: &Value) -> Selinux {
    let part = |key: &str| given.get(key).filter(|part| part.truthy()).map(Value::to_string);
    Selinux { user: part("seuser"), role: part("serole"), kind: part("setype"), range: part("serange") }
}

/// Renders the contents if they are a template. The inner error is the comment of the failure.
fn rendered(
    ctx: &Context,
    contents: Value,
    engine: Option<&str>,
    saltenv: &str,
    names: [&Value; 2],
) -> Result<std::result::Result<Value, String>> {
    let Some(engine) = engine.filter(|_| !contents.is_null()) else { return Ok(Ok(contents)) };
    if !template::is_known(engine) {
        return Ok(Err(format!("Specified template format {engine} is not supported")));
    }
    let mut context = Map::new();
    // `names` holds the defaults first, so that the context wins.
    names.iter().filter_map(|names| names.as_map()).for_each(|names| context.update(names.clone()));
    let order = template::RenderArgs { engine, saltenv, context, known: Map::new() };
    let text = template::source(ctx, &contents.to_string(), order)?;
    Ok(text.map(Value::from).map_err(|wrong| format!("Unable to manage file: {wrong}")))
}

/// Returns why such a file cannot be managed.
fn refusal(name: &str, context: &Value, defaults: &Value) -> Option<String> {
    if !name.starts_with('/') {
        return Some(format!("Specified file {name} is not an absolute path"));
    }
    if Path::new(name).is_dir() {
        return Some(format!("Specified target {name} is a directory"));
    }
    if !context.is_null() && context.as_map().is_none() {
        return Some("Context must be formed as a dict".to_owned());
    }
    (defaults.truthy() && defaults.as_map().is_none()).then(|| "Defaults must be formed as a dict".to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use value::map;

    use super::*;

    /// A web server that gives everyone the same.
    // A server of our own keeps the test off the network and serves the same bytes whatever the
    // client asks.
    fn serve(body: &'static str) -> u16 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(head.as_bytes());
            }
        });
        port
    }

    #[test]
    fn a_file_comes_from_the_web_if_its_checksum_is_right() {
        if modules::util::which("curl").is_none() && modules::util::which("wget").is_none() {
            // Nothing to fetch with on this machine.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        let opts = map! { "cachedir" => format!("{root}/cache"), "file_client" => "local", "id" => "m" };
        let (ctx, _) = exec::testing::with_states(modules::ALL, crate::ALL, opts, map! {}, map! {});
        let address = format!("http://127.0.0.1:{}/d/x.txt", serve("hello\n"));
        let name = format!("{root}/x");
        let apply = |more: Map| {
            let mut kwargs = map! { "name" => name.as_str(), "source" => address.as_str() };
            kwargs.update(more);
            super::super::common::apply(&ctx, &MANAGED, kwargs).unwrap()
        };
        // A download without a checksum must be refused, or anyone between here and the server
        // could choose the contents.
        let unverified = apply(map! {});
        assert!(
            unverified.comment.to_string().contains("Unable to verify upstream hash of source file http://127.0.0.1")
        );
        let wrong = apply(map! { "source_hash" => "md5=c1946ac92492d2347c6235b4d2611184" });
        let expected = format!(
            "Specified md5 checksum for {name} (c1946ac92492d2347c6235b4d2611184) does not match actual checksum \
             (b1946ac92492d2347c6235b4d2611184)"
        );
        assert_eq!((wrong.result, wrong.comment.to_string()), (Some(false), expected));
        // The mismatch must leave no trace at the target.
        assert!(!Path::new(&name).exists());
        let made = apply(map! { "source_hash" => "md5=b1946ac92492d2347c6235b4d2611184" });
        assert_eq!((made.result, made.comment.to_string()), (Some(true), format!("File {name} updated")));
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "hello\n");
        std::fs::write(&name, "other\n").unwrap();
        let again = apply(map! { "skip_verify" => true });
        assert_eq!(again.changes.get_str("diff"), Some("--- \n+++ \n@@ -1 +1 @@\n-other\n+hello\n"));
    }
}
