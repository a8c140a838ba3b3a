//! `cron.file`: a file is the crontab of a user.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use crate::support::{call, over, saltenv};
use crate::{Ret, args};

/// Makes sure that the crontab of a user has the content of a file.
#[function]
fn file(
    ctx: &Context,
    name: String,
    #[default("")] source_hash: Value,
    #[default(Value::Null)] source_hash_name: Value,
    #[default("root")] user: String,
    #[default(Value::Null)] template: Value,
    #[default(Value::Null)] context: Value,
    #[default(true)] replace: bool,
    #[default(Value::Null)] defaults: Value,
    #[default("")] backup: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let info = call(ctx, "user.info", args![user.as_str()], Map::new())?;
    let groups = info.get("groups").and_then(Value::as_list);
    let Some(group) = groups.and_then(<[Value]>::first).cloned() else {
        return Ok(ret.fail(format!("Could not identify group for user {user}")));
    };
    let mut current = call(ctx, "cron.raw_cron", args![user.as_str()], Map::new())?.to_string();
    if !current.ends_with('\n') {
        current.push('\n');
    }
    if !replace {
        return Ok(ret.ok(format!("User {user} already has a crontab. No changes made")));
    }
    let copy = ctx.blocking(move || written(&current)).map_err(|error| Error::execution(error.to_string()))?;
    let path = copy.path().to_string_lossy().into_owned();
    let own = map! {
        "name" => path.as_str(),
        "source_hash_name" => source_hash_name,
        "user" => user.as_str(),
        "group" => group,
        "mode" => "0600",
        "attrs" => Vec::<Value>::new(),
        "template" => template,
        "context" => context,
        "defaults" => defaults,
        "saltenv" => saltenv(ctx),
    };
    let managed = Managed { own, path, user, source_hash, backup, kwargs: kwargs.given() };
    if ctx.is_test() { managed.would(ctx, name, ret) } else { managed.apply(ctx, name, ret) }
}

fn written(text: &str) -> std::io::Result<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    Ok(file)
}

struct Managed {
    own: Map,
    path: String,
    user: String,
    source_hash: Value,
    backup: Value,
    kwargs: Map,
}

impl Managed {
    fn would(self, ctx: &Context, source: String, ret: Ret) -> Result<Ret> {
        let more = map! { "source" => source, "source_hash" => self.source_hash };
        let answer = call(ctx, "file.check_managed", args![], over(over(self.own, &more), &self.kwargs))?;
        let parts = answer.into_list().unwrap_or_default();
        let part = |place: usize| parts.get(place).cloned().unwrap_or_default();
        Ok(Ret { result: part(0).as_bool(), comment: part(1), ..ret })
    }

    fn apply(self, ctx: &Context, source: String, ret: Ret) -> Result<Ret> {
        let unable = |error: Error| ret.clone().fail(format!("Unable to manage file: {error}"));
        let args = args![source, self.source_hash.clone(), saltenv(ctx)];
        let found = call(ctx, "file.source_list", args, Map::new())?.into_list().unwrap_or_default();
        let part = |list: &[Value], place: usize| list.get(place).cloned().unwrap_or_default();
        let more = map! { "source" => part(&found, 0), "source_hash" => part(&found, 1), "skip_verify" => false };
        let kwargs = over(over(self.own.clone(), &more), &self.kwargs);
        let got = match call(ctx, "file.get_managed", args![], kwargs) {
            Ok(got) => got.into_list().unwrap_or_default(),
            Err(error) => return Ok(unable(error)),
        };
        if part(&got, 2).truthy() {
            return Ok(ret.fail(part(&got, 2)));
        }
        let pick = |name: &str| self.own.get(name).cloned().unwrap_or_default();
        let kwargs = map! {
            "name" => self.path.as_str(),
            "sfn" => part(&got, 0),
            "ret" => Value::from(ret.clone().ok("")),
            "source" => part(&found, 0),
            "source_sum" => part(&got, 1),
            "user" => self.user.as_str(),
            "group" => pick("group"),
            "mode" => pick("mode"),
            "attrs" => pick("attrs"),
            "saltenv" => pick("saltenv"),
            "backup" => self.backup.clone(),
        };
        let answer = match call(ctx, "file.manage_file", args![], kwargs) {
            Ok(answer) => answer.into_map().unwrap_or_default(),
            Err(error) => return Ok(unable(error)),
        };
        self.install(ctx, &answer, ret)
    }

    fn install(&self, ctx: &Context, answer: &Map, ret: Ret) -> Result<Ret> {
        let (user, path) = (&self.user, &self.path);
        let changes = answer.get("changes").and_then(Value::as_map).cloned().unwrap_or_default();
        if changes.contains_key("diff") {
            let said = call(ctx, "cron.write_cron_file_verbose", args![user.as_str(), path.as_str()], Map::new())?;
            if said.get("retcode").and_then(Value::as_i64) == Some(0) {
                return Ok(ret.ok(format!("Crontab for user {user} was updated")).changed(changes));
            }
            let why = said.get("stderr").map(Value::to_string).unwrap_or_default();
            return Ok(ret.fail(format!("Unable to update user {user} crontab {path}. Error: {why}")));
        }
        if answer.get("result").is_some_and(Value::truthy) {
            return Ok(ret.ok(format!("Crontab for user {user} is in the correct state")));
        }
        let comment = answer.get("comment").cloned().unwrap_or_default();
        Ok(Ret { result: answer.get("result").and_then(Value::as_bool), ..ret.fail(comment) }.changed(changes))
    }
}
