//! `file.managed`.

use std::path::Path;

use exec::{Call, Context, Error, KwArgs, Result, function};
use modules::file::address::{self, is_foreign};
use modules::file::diff::Ignore;
use modules::file::extract::{SourceHash, refuse_unverified, source_sum};
use modules::file::manage::{self, Order};
use modules::file::managed::{self as fetching, Asked, Meant};
use modules::file::paths::expand_user;
use modules::file::perms::{self, Report, Wanted, normalize_mode};
use modules::file::selinux::Selinux;
use modules::file::signature::Signature;
use modules::file::template;
use modules::file::{hash, sources};
use value::{Map, Value, map};

use super::accumulated;
use super::common::{check_user, environment, start, user_or_owner};
use super::contents::Given;
use crate::Ret;

/// Makes sure that a file holds what a source or `contents` say, and whose it is.
#[function]
pub async fn managed(
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
    let name = expand_user(&name);
    let mut ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Destination file name is required"));
    }
    refuse_unverified(verify_ssl)?;
    let keep_mode = mode.as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("keep"));
    let mode = if keep_mode { None } else { normalize_mode(&mode) };
    let given = Given {
        contents,
        pillar: contents_pillar,
        grains: contents_grains,
        delimiter: contents_delimiter,
        newline: contents_newline,
        allow_empty,
        encoding: encoding.clone(),
    };
    if let Some(wrong) = given.conflict(&source, keep_mode) {
        return Ok(ret.fail(wrong));
    }
    if source.as_str().is_some_and(|source| !is_foreign(source)) && source_hash.truthy() {
        tracing::warn!("source_hash is only used with 'http', 'https' or 'ftp'");
    }
    let replace = replace && (source.truthy() || given.count() > 0);
    if kwargs.0.contains_key("file_mode") {
        ret.more.insert(
            "warnings",
            value::list![
                "The 'file_mode' argument will be ignored.  Please use 'mode' instead to set file permissions."
            ],
        );
    }
    let template = Some(template).filter(Value::truthy).map(|template| template.to_string());
    let env = environment(ctx);
    let mut contents = match given.read(ctx, template.is_some())? {
        Ok(contents) => contents,
        Err(wrong) => return Ok(ret.fail(wrong)),
    };
    if let Some(engine) = template.as_deref().filter(|_| !contents.is_null()) {
        if !template::is_known(engine) {
            return Ok(ret.fail(format!("Specified template format {engine} is not supported")));
        }
        let mut known = defaults.as_map().cloned().unwrap_or_default();
        known.update(context.as_map().cloned().unwrap_or_default());
        let order = template::Order { engine, saltenv: &env, context: known, known: Map::new() };
        match template::source(ctx, &contents.to_string(), order).await? {
            Ok(text) => contents = text.into(),
            Err(wrong) => return Ok(ret.fail(format!("Unable to manage file: {wrong}"))),
        }
    }
    let user = user_or_owner(user, &kwargs);
    if !create && !Path::new(&name).is_file() {
        return Ok(ret.ok(format!("File {name} is not present and is not set for creation")));
    }
    if let Some(wrong) = check_user(ctx, &user, &group) {
        return Ok(ret.fail(wrong));
    }
    if !name.starts_with('/') {
        return Ok(ret.fail(format!("Specified file {name} is not an absolute path")));
    }
    if Path::new(&name).is_dir() {
        return Ok(ret.fail(format!("Specified target {name} is a directory")));
    }
    if !context.is_null() && context.as_map().is_none() {
        return Ok(ret.fail("Context must be formed as a dict"));
    }
    if defaults.truthy() && defaults.as_map().is_none() {
        return Ok(ret.fail("Defaults must be formed as a dict"));
    }
    let part = |key: &str| selinux.get(key).filter(|part| part.truthy()).map(Value::to_string);
    let file = File {
        name,
        source,
        source_hash,
        source_hash_name,
        template,
        user,
        group,
        mode,
        attrs: Some(attrs).filter(|attrs| !attrs.is_null()).map(|attrs| attrs.to_string()),
        env,
        context: context.into_map().unwrap_or_default(),
        defaults: defaults.into_map(),
        contents,
        keep_mode,
        keep_source,
        skip_verify,
        use_etag,
        signature: Signature {
            file: signature,
            list: source_hash_sig,
            signed_by_any,
            signed_by_all,
            keyring,
            gnupghome,
            backend: sig_backend,
        },
        selinux: Selinux { user: part("seuser"), role: part("serole"), kind: part("setype"), range: part("serange") },
        follow_symlinks,
        ignore: Ignore::of(ignore_ordering, ignore_whitespace, &ignore_comment_characters),
        new_file_diff,
        show_changes,
        backup,
        makedirs,
        dir_mode,
        encoding,
        encoding_errors,
        more: kwargs.given(),
    };
    let check = CheckCmd { command: check_cmd, tmp_dir, tmp_ext: tmp_ext.to_string() };
    file.settle(ctx, ret, replace, &check).await
}

/// A command that looks at a file before it takes its place.
struct CheckCmd {
    command: Value,
    tmp_dir: Option<String>,
    tmp_ext: String,
}

/// A file and what it is to be.
struct File {
    name: String,
    source: Value,
    source_hash: Value,
    source_hash_name: Option<String>,
    template: Option<String>,
    user: Value,
    group: Value,
    mode: Option<String>,
    attrs: Option<String>,
    env: String,
    context: Map,
    defaults: Option<Map>,
    contents: Value,
    keep_mode: bool,
    keep_source: bool,
    skip_verify: bool,
    use_etag: bool,
    signature: Signature,
    selinux: Selinux,
    follow_symlinks: bool,
    ignore: Ignore,
    new_file_diff: bool,
    show_changes: bool,
    backup: Value,
    makedirs: bool,
    dir_mode: Value,
    encoding: Option<String>,
    encoding_errors: String,
    more: Map,
}

/// Lets an ending job end, and makes a comment of any other failure.
fn unless_terminated(ret: &Ret, error: Error, what: &str) -> Result<Ret> {
    match error {
        Error::Terminated => Err(Error::Terminated),
        error => Ok(Ret { changes: Map::new(), ..ret.clone() }.fail(format!("{what}: {error}"))),
    }
}

impl File {
    async fn settle(mut self, ctx: &Context, ret: Ret, replace: bool, check: &CheckCmd) -> Result<Ret> {
        let mut replace = replace;
        if replace
            && self.contents.is_null()
            && self.template.is_none()
            && self.source.truthy()
            && !self.skip_verify
            && Path::new(&self.name).exists()
        {
            match self.is_there(ctx).await {
                Ok(there) => replace = !there,
                Err(Error::Terminated) => return Err(Error::Terminated),
                Err(error) => {
                    tracing::error!("Failed checking existing file's hash against specified source_hash: {error}");
                }
            }
        }
        if !replace && Path::new(&self.name).exists() {
            return self.only_metadata(ctx, ret).await;
        }
        if let Some(texts) = accumulated::for_file(ctx, &self.name) {
            self.context.insert("accumulator", texts);
        }
        match sources::choose(ctx, &self.source, &self.source_hash, &self.env).await {
            Ok((source, hash)) => (self.source, self.source_hash) = (source, hash),
            Err(Error::Terminated) => return Err(Error::Terminated),
            Err(error) => return Ok(ret.fail(format!("Unable to manage file: {error}"))),
        }
        if ctx.is_test() {
            return self.check(ctx, ret).await;
        }
        let fetched = match fetching::fetch(ctx, &self.asked()).await {
            Ok(fetched) => fetched,
            Err(error) => return unless_terminated(&ret, error, "Unable to manage file"),
        };
        let order = self.order(&fetched);
        let done = self.write(ctx, ret, order, &fetched.trouble, check).await;
        if !self.keep_source {
            self.forget_source(ctx, &fetched.place);
        }
        done
    }

    /// Says whether the file already is what a web server's checksum says.
    async fn is_there(&mut self, ctx: &Context) -> Result<bool> {
        let (source, hash) = sources::choose(ctx, &self.source, &self.source_hash, &self.env).await?;
        (self.source, self.source_hash) = (source, hash);
        let source = self.source.to_string();
        let local = ["salt", "file"].contains(&address::parse(&source).scheme) || source.starts_with('/');
        if local || !self.source.truthy() || !self.source_hash.truthy() {
            return Ok(false);
        }
        let asked = SourceHash {
            file_name: &self.name,
            source: &source,
            hash: &self.source_hash,
            name: self.source_hash_name.as_deref(),
            saltenv: &self.env,
            signature: &self.signature,
        };
        let sum = source_sum(ctx, &asked).await?;
        Ok(hash::of_file(&self.name, &sum.kind)? == sum.digits)
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            user: self.user.clone(),
            group: self.group.clone(),
            mode: self.mode.clone(),
            attrs: self.attrs.clone(),
            follow_symlinks: self.follow_symlinks,
            selinux: self.selinux.clone(),
        }
    }

    async fn only_metadata(&self, ctx: &Context, ret: Ret) -> Result<Ret> {
        let name = &self.name;
        let (report, found) = perms::enforce(ctx, name, Some(ret.into()), &self.wanted()).await?;
        let mut ret = Ret::from(report);
        if ctx.is_test() {
            let now = found.get("lmode").map(Value::to_string).unwrap_or_default();
            ret.comment = match self.mode.as_ref().filter(|mode| **mode != now) {
                Some(mode) => {
                    format!("File {name} will be updated with permissions {mode} from its current state of {now}")
                }
                None => format!("File {name} not updated"),
            }
            .into();
        } else if ret.changes.is_empty() && ret.result == Some(true) {
            ret.comment = format!("File {name} exists with proper permissions. No changes made.").into();
        }
        Ok(ret)
    }

    fn asked(&self) -> Asked {
        Asked {
            name: self.name.clone(),
            template: self.template.clone(),
            source: self.source.as_str().map(str::to_owned),
            source_hash: self.source_hash.clone(),
            source_hash_name: self.source_hash_name.clone(),
            user: self.user.clone(),
            group: self.group.clone(),
            mode: self.mode.clone().into(),
            attrs: self.attrs.clone().into(),
            saltenv: self.env.clone(),
            context: Some(self.context.clone()),
            defaults: self.defaults.clone(),
            skip_verify: self.skip_verify,
            use_etag: self.use_etag,
            signature: self.signature.clone(),
            more: self.more.clone(),
        }
    }

    /// Tells what would change.
    async fn check(&self, ctx: &Context, mut ret: Ret) -> Result<Ret> {
        let name = &self.name;
        let meant = Meant {
            name: name.clone(),
            user: self.user.clone(),
            group: self.group.clone(),
            mode: self.mode.clone().into(),
            attrs: self.attrs.clone(),
            contents: fetching::given_contents(&self.contents),
            selinux: self.selinux.clone(),
            follow_symlinks: self.follow_symlinks,
            ignore: self.ignore.clone(),
            new_file_diff: self.new_file_diff,
            ..Meant::default()
        };
        let (changes, counts) = match fetching::check(ctx, &self.asked(), meant, self.keep_mode).await? {
            Ok(found) => found,
            Err(wrong) => return Ok(ret.fail(wrong)),
        };
        ret.changes = changes;
        if ret.changes.is_empty() {
            return Ok(ret.ok(format!("The file {name} is in the correct state")));
        }
        if ret.changes.contains_key("diff") && !self.show_changes {
            ret.changes.insert("diff", "<show_changes=False>");
        }
        if self.ignore.any() && !counts {
            ret.more.insert("skip_req", true);
        }
        Ok(ret.would(format!(
            "The file {name} is set to be changed\nNote: No changes made, actual changes may\nbe different due to \
             other states."
        )))
    }

    fn order(&self, fetched: &fetching::Fetched) -> Order {
        Order {
            name: self.name.clone(),
            place: fetched.place.clone(),
            source: self.source.as_str().filter(|source| !source.is_empty()).map(str::to_owned),
            sum: fetched.sum.clone(),
            user: self.user.clone(),
            group: self.group.clone(),
            mode: self.mode.clone().into(),
            attrs: self.attrs.clone(),
            saltenv: self.env.clone(),
            backup: self.backup.clone(),
            makedirs: self.makedirs,
            show_changes: self.show_changes,
            contents: self.contents.clone(),
            dir_mode: self.dir_mode.clone(),
            follow_symlinks: self.follow_symlinks,
            skip_verify: self.skip_verify,
            keep_mode: self.keep_mode,
            encoding: self.encoding.clone(),
            encoding_errors: self.encoding_errors.clone(),
            selinux: self.selinux.clone(),
            use_etag: self.use_etag,
            signature: self.signature.clone(),
            ignore: self.ignore.clone(),
            new_file_diff: self.new_file_diff,
        }
    }

    async fn write(&self, ctx: &Context, ret: Ret, mut order: Order, trouble: &str, check: &CheckCmd) -> Result<Ret> {
        let mut ret = ret;
        let mut beside = None;
        if check.command.truthy() {
            let trial = check.file()?;
            let place = trial.to_string_lossy().into_owned();
            if Path::new(&self.name).is_file()
                && let Err(error) = std::fs::copy(&self.name, &trial)
            {
                return Ok(ret.fail(format!("Unable to copy file {} to {place}: {error}", self.name)));
            }
            let trial_order = Order { name: place.clone(), ..order.clone() };
            let report: Report = ret.clone().into();
            let tried = match manage::manage(ctx, trial_order, Some(report)).await {
                Ok(tried) => tried,
                Err(error) => return unless_terminated(&ret, error, "Unable to check_cmd file"),
            };
            ret = start(&self.name);
            if !tried.changes.is_empty() {
                if self.ignore.any() {
                    ret.more.insert("skip_req", true);
                }
                if let Err(refused) = run_check(ctx, &check.command.to_string(), &place).await? {
                    return Ok(refused.onto(ret));
                }
                order.place = place;
                beside = Some(trial);
            }
        }
        if !trouble.is_empty() && self.contents.is_null() {
            return Ok(ret.fail(format!("Unable to manage file: {trouble}")));
        }
        let report: Report = ret.clone().into();
        let done = manage::manage(ctx, order, Some(report)).await;
        drop(beside);
        match done {
            Ok(report) => Ok(report.into()),
            Err(error) => unless_terminated(&ret, error, "Unable to manage file"),
        }
    }

    fn forget_source(&self, ctx: &Context, place: &str) {
        let mut place = place.to_owned();
        if let Some(source) = self.source.as_str().filter(|source| place.is_empty() && source.starts_with("salt://")) {
            let cached = modules::cp::client(ctx).ok().and_then(|client| client.is_cached(source, &self.env));
            place = cached.unwrap_or_default();
        }
        if !place.is_empty()
            && let Err(error) = std::fs::remove_file(&place)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("failed to remove {place}: {error}");
        }
    }
}

impl CheckCmd {
    /// Makes the file the command looks at.
    fn file(&self) -> Result<tempfile::TempPath> {
        let directory = self.tmp_dir.clone().map_or_else(std::env::temp_dir, Into::into);
        let made = tempfile::Builder::new().suffix(&self.tmp_ext).tempfile_in(&directory);
        made.map(tempfile::NamedTempFile::into_temp_path)
            .map_err(|error| Error::execution(format!("failed to make a file in {}: {error}", directory.display())))
    }
}

/// A command that refused a file.
pub struct Refused(String);

impl Refused {
    /// Makes the state fail with what the command said.
    pub fn onto(self, mut ret: Ret) -> Ret {
        ret.more.insert("skip_watch", true);
        ret.fail(self.0)
    }
}

/// Runs a command with a file as its last word.
pub async fn run_check(ctx: &Context, command: &str, file: &str) -> Result<std::result::Result<(), Refused>> {
    let mut kwargs = Map::new();
    if let Some(shell) = ctx.grains.get("shell") {
        kwargs.insert("shell", shell.clone());
    }
    let call = Call { args: vec![format!("{command} {file}").into()], kwargs };
    let said = ctx.call_with("cmd.run_all", call).await?;
    if said.get("retcode").and_then(Value::as_i64) == Some(0) {
        return Ok(Ok(()));
    }
    let mut comment = "check_cmd execution failed".to_owned();
    for part in ["stdout", "stderr"].iter().filter_map(|part| said.get(part)).filter(|part| part.truthy()) {
        comment.push_str(&format!("\n{part}"));
    }
    Ok(Err(Refused(comment)))
}

/// Runs a command with a file as its last word; True, or why the file is refused.
#[function]
pub async fn mod_run_check_cmd(ctx: &Context, cmd: String, filename: String, check_cmd_opts: KwArgs) -> Result<Value> {
    let _ = check_cmd_opts;
    Ok(match run_check(ctx, &cmd, &filename).await? {
        Ok(()) => Value::Bool(true),
        Err(refused) => map! { "comment" => refused.0, "skip_watch" => true, "result" => false }.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// A web server that gives everyone the same.
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

    #[tokio::test]
    async fn a_file_comes_from_the_web_if_its_checksum_is_right() {
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
        let apply = async |more: Map| {
            let mut kwargs = map! { "name" => name.as_str(), "source" => address.as_str() };
            kwargs.update(more);
            super::super::common::apply(&ctx, &MANAGED, kwargs).await.unwrap()
        };
        let unverified = apply(map! {}).await;
        assert!(
            unverified.comment.to_string().contains("Unable to verify upstream hash of source file http://127.0.0.1")
        );
        let wrong = apply(map! { "source_hash" => "md5=c1946ac92492d2347c6235b4d2611184" }).await;
        let expected = format!(
            "Specified md5 checksum for {name} (c1946ac92492d2347c6235b4d2611184) does not match actual checksum \
             (b1946ac92492d2347c6235b4d2611184)"
        );
        assert_eq!((wrong.result, wrong.comment.to_string()), (Some(false), expected));
        assert!(!Path::new(&name).exists());
        let made = apply(map! { "source_hash" => "md5=b1946ac92492d2347c6235b4d2611184" }).await;
        assert_eq!((made.result, made.comment.to_string()), (Some(true), format!("File {name} updated")));
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "hello\n");
        std::fs::write(&name, "other\n").unwrap();
        let again = apply(map! { "skip_verify" => true }).await;
        assert_eq!(again.changes.get_str("diff"), Some("--- \n+++ \n@@ -1 +1 @@\n-other\n+hello\n"));
    }
}
